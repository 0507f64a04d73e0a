"""Layers several families share, as functions from tensor to tensor, with PyTorch's conventions."""

from __future__ import annotations

from typing import Literal

from tf_fedsam.lazy import keras
from tf_fedsam.models import initialisers
from tf_fedsam.models.initialisers import Init

EPSILON = 1e-5  # of torch.nn.GroupNorm and BatchNorm2d; Keras' default is 1e-3

Norm = Literal["none", "group", "batch"]


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
    """GroupNorm, BatchNorm (torch momentum 0.1 is Keras momentum 0.9), or nothing."""
    if norm == "none":
        return x
    if norm == "group":
        return keras.layers.GroupNormalization(groups, epsilon=EPSILON, name=name)(x)
    return keras.layers.BatchNormalization(momentum=0.9, epsilon=EPSILON, name=name)(x)
