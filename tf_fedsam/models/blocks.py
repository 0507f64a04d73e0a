"""Layers several families share, as functions from tensor to tensor, with PyTorch's conventions."""

from __future__ import annotations

import functools
from typing import Any, Literal

from tf_fedsam.lazy import keras
from tf_fedsam.models import initialisers
from tf_fedsam.models.initialisers import Init

EPSILON = 1e-5  # of torch.nn.GroupNorm and BatchNorm2d; Keras' default is 1e-3

Norm = Literal["none", "group", "batch", "batch_torch"]


def dense(
    x: keras.KerasTensor, units: int, init: Init, name: str, activation: str | None = None
) -> keras.KerasTensor:
    """A fully connected layer with bias."""
    return keras.layers.Dense(
        units,
        activation=activation,
        kernel_initializer=initialisers.kernel(init),
        bias_initializer=initialisers.bias(init, fan_in=x.shape[-1]),
        name=name,
    )(x)


def conv(
    x: keras.KerasTensor,
    filters: int,
    size: int,
    init: Init,
    name: str,
    padding: Literal["valid", "same"] = "valid",
    activation: str | None = None,
) -> keras.KerasTensor:
    """A size x size convolution with bias and stride 1 ("same" is then symmetric, as in torch)."""
    return keras.layers.Conv2D(
        filters,
        size,
        padding=padding,
        activation=activation,
        kernel_initializer=initialisers.kernel(init),
        bias_initializer=initialisers.bias(init, fan_in=size * size * x.shape[-1]),
        name=name,
    )(x)


def normalise(x: keras.KerasTensor, norm: Norm, groups: int, name: str) -> keras.KerasTensor:
    """GroupNorm, BatchNorm (torch momentum 0.1 is Keras momentum 0.9), or nothing.

    BatchNorm's moving variance is the biased one of a batch, as Keras has it, or for "batch_torch"
    the unbiased one, as torch has it. Training normalises by the biased one in both.
    """
    if norm == "none":
        return x
    if norm == "group":
        return keras.layers.GroupNormalization(groups, epsilon=EPSILON, name=name)(x)
    layer = keras.layers.BatchNormalization(momentum=0.9, epsilon=EPSILON, name=name)
    if norm == "batch_torch":
        # Not a class of its own: files of the model are to be read by Keras alone.
        layer.call = functools.partial(_call_unbiased, layer, layer.call)
    return layer(x)


def _call_unbiased(
    layer: keras.layers.BatchNormalization,
    call: Any,
    inputs: Any,
    training: Any = None,
    mask: Any = None,
) -> Any:
    """Calls the layer; what the batch brought to the moving variance is made n / (n - 1) of it."""
    before = keras.ops.copy(layer.moving_variance)
    outputs = call(inputs, training=training, mask=mask)
    if training and layer.trainable:
        count = keras.ops.size(inputs) / inputs.shape[-1]
        brought = layer.moving_variance - layer.momentum * before
        others = keras.ops.maximum(keras.ops.cast(count, brought.dtype) - 1, 1)
        layer.moving_variance.assign_add(brought / others)
    return outputs
