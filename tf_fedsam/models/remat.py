"""Activations that are computed again in the backward pass instead of kept (gradient checkpointing,
Chen et al. 2016, arXiv:1604.06174): less memory for a forward pass more.

Of the network only the inputs of its blocks are kept: layers whose class is called ``...Block``, as
the encoder blocks of ViT and Swin are. Gradients are the same: the second pass sees the same
dropout masks, and is in training or in inference as the first was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tf_fedsam.errors import InputError
from tf_fedsam.lazy import keras, tf


def rematerialise(network: keras.Model) -> None:
    """Lets the blocks of a built network forget their activations.

    Raises:
        InputError: if it has no blocks.
    """
    layers = network._flatten_layers(include_self=False)
    blocks = [layer for layer in layers if type(layer).__name__.endswith("Block")]
    if not blocks:
        raise InputError(
            f"remat is for networks with layers that are called ...Block, as transformers have. "
            f"Received: {network.name}, which has none. Remove it.",
            "remat",
        )
    for block in blocks:
        weights = {id(variable) for variable in block.non_trainable_weights}
        seeds = [v for v in block.non_trainable_variables if id(v) not in weights]
        block.call = _forgetful(block, block.call, seeds)


def _forgetful(block: Any, call: Callable, seeds: list[Any]) -> Callable:
    again = _within_call()

    def forward(*args: Any, **kwargs: Any) -> Any:
        training = block._get_call_context().training
        before = [tf.identity(seed.value) for seed in seeds]

        def run(*inputs: Any) -> Any:
            for seed, value in zip(seeds, before, strict=True):
                seed.assign(value)
            return again(inputs, training=training, function=lambda x: call(*x, **kwargs))

        return tf.recompute_grad(run)(*args)

    return forward


def _within_call() -> Callable:
    """Calls a function as a layer is called, so that layers in it know whether they train."""

    class Again(keras.layers.Layer):
        def call(self, inputs, training=None, function=None):
            return function(inputs)

    return Again(autocast=False, name="again")
