"""What a network's layers tell of its variables: whose they are, and where their outputs lie."""

from __future__ import annotations

from tf_fedsam.lazy import keras

Axes = tuple[int, ...]


def owners(network: keras.Model) -> list[keras.Layer]:
    """The layer that each trainable variable belongs to, the innermost one."""
    owner = {
        id(variable): layer
        for layer in network._flatten_layers(include_self=True)
        for variable in layer._trainable_variables
    }
    return [owner[id(variable)] for variable in network.trainable_variables]


def head(network: keras.Model) -> list[keras.Variable]:
    """The trainable variables of the last layer with weights."""
    layers = owners(network)
    pairs = zip(network.trainable_variables, layers, strict=True)
    return [variable for variable, layer in pairs if layer is layers[-1]]


def output_axes(network: keras.Model) -> list[Axes]:
    """The axes of each trainable variable along which a layer's outputs lie.

    They are the last one for kernels of dense and convolutional layers and all there are for
    vectors; both channel axes for depthwise kernels, whose outputs are pairs of them; the axis of
    the vocabulary for embeddings.
    """
    pairs = zip(network.trainable_variables, owners(network), strict=True)
    return [_output_axes(variable, layer) for variable, layer in pairs]


def _output_axes(variable: keras.Variable, layer: keras.Layer) -> Axes:
    rank = len(variable.shape)
    if isinstance(layer, keras.layers.EinsumDense):
        return _einsum_axes(layer) if variable.name == "kernel" else tuple(range(rank))
    depthwise = (
        isinstance(layer, (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D))
        and variable.name == "kernel"
    )
    if depthwise or variable.name == "depthwise_kernel":
        return (rank - 2, rank - 1)
    if variable.name == "embeddings":
        return (0,)
    return (rank - 1,) if rank else ()


def _einsum_axes(layer: keras.layers.EinsumDense) -> Axes:
    """Of the kernel: the axes that the inputs do not have."""
    inputs, kernel = layer.equation.split("->")[0].split(",")
    return tuple(axis for axis, letter in enumerate(kernel.strip()) if letter not in inputs)
