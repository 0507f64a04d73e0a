"""Planes through solutions, along filter-normalised random directions.

Li, Xu, Taylor, Studer, Goldstein. Visualizing the Loss Landscape of Neural Nets. NeurIPS 2018.
https://arxiv.org/abs/1712.09913

    d1, d2 ~ N(0, I) in the shape of the trainable weights
    d2     <- d2 - d1 <d1, d2> / <d1, d1>                 orthogonal, on the flat vector
    d_f    <- d_f |w_f| / (|d_f| + 1e-10)                 for each filter f of each direction
    F(x, y) = mean cross-entropy at w + x d1 + y d2       BatchNorm in inference mode

d1 and d2 are drawn once and are the same for all solutions that are compared; only their filters'
sizes follow each solution's own weights, so that a step of 1 changes every filter by its own size.

A filter is what makes one output: a convolution's output channel, a unit of a dense layer, an
output of an einsum (each unit of each head of an attention), a channel of a depthwise convolution,
a row of an embedding. Of any other tensor it is a slice along the last axis. Biases, the gains and
shifts of normalisations, slopes of activations, and vectors of any kind (class tokens) do not move,
nor do frozen weights.
"""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np

from tf_fedsam import rng

EPSILON = 1e-10
NOT_MOVED = ("gamma", "beta", "alpha")

Arrays = list[np.ndarray]
Axes = tuple[int, ...] | None


def random_directions(shapes: Sequence[tuple[int, ...]], seed: int) -> tuple[Arrays, Arrays]:
    """Two Gaussian directions, orthogonal as flat vectors."""
    first, second = (
        [
            rng.generator(seed, "landscape.direction", number, position).standard_normal(
                shape, np.float32
            )
            for position, shape in enumerate(shapes)
        ]
        for number in (1, 2)
    )
    share = np.float32(_dot(first, second) / _dot(first, first))
    return first, [b - share * a for a, b in zip(first, second, strict=True)]


def _dot(a: Arrays, b: Arrays) -> float:
    return float(
        sum(np.sum(np.multiply(p, q, dtype=np.float64)) for p, q in zip(a, b, strict=True))
    )


def filter_axes(network: keras.Model) -> list[Axes]:
    """For each trainable variable the axes that number its filters; ``None``: it does not move."""
    owners = {
        id(variable): layer
        for layer in network._flatten_layers(include_self=True)
        for variable in (*layer._trainable_variables, *layer._non_trainable_variables)
    }
    return [
        _axes(variable.name, tuple(variable.shape), owners.get(id(variable)))
        for variable in network.trainable_variables
    ]


def _axes(name: str, shape: tuple[int, ...], layer: keras.layers.Layer | None) -> Axes:
    layers, rank = keras.layers, len(shape)
    if rank < 2 or "bias" in name or name in NOT_MOVED:
        return None
    if "kernel" not in name and sum(size > 1 for size in shape) < 2:
        return None  # a vector with axes of length 1 around it, such as a class token
    if isinstance(layer, layers.EinsumDense) and name == "kernel":
        inputs, outputs = layer.equation.split("->")
        letters = inputs.split(",")[1].strip()
        return tuple(axis for axis, letter in enumerate(letters) if letter in outputs)
    if isinstance(layer, layers.Embedding):
        return (0,)
    depthwise = isinstance(layer, (layers.DepthwiseConv1D, layers.DepthwiseConv2D))
    if name == "depthwise_kernel" or (depthwise and name == "kernel"):
        return (rank - 2, rank - 1)
    transposed = (layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
    if isinstance(layer, transposed) and name == "kernel":
        return (rank - 2,)
    return (rank - 1,)


def filter_normalised(direction: Arrays, weights: Arrays, axes: Sequence[Axes]) -> Arrays:
    """The direction with each filter as long as that of the weights, and 0 where nothing moves."""
    return [
        np.zeros_like(w) if along is None else d * (_norms(w, along) / (_norms(d, along) + EPSILON))
        for d, w, along in zip(direction, weights, axes, strict=True)
    ]


def _norms(array: np.ndarray, along: tuple[int, ...]) -> np.ndarray:
    """Norm of each filter, in a shape that can be multiplied with the array."""
    others = tuple(axis for axis in range(array.ndim) if axis not in along)
    squares = np.sum(np.square(array, dtype=np.float64), axis=others, keepdims=True)
    return np.sqrt(squares).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Solution:
    """A model's values.

    Attributes:
        weights: of the trainable variables, in Keras' order.
        state: of the others that are floats: BatchNorm statistics and frozen weights.
    """

    weights: Arrays
    state: Arrays

    @classmethod
    def of(cls, network: keras.Model) -> "Solution":
        """The network's present values."""
        values = lambda variables: [v.numpy() for v in variables]  # noqa: E731
        return cls(values(network.trainable_variables), values(float_state(network)))


@dataclasses.dataclass(frozen=True)
class Plane:
    """The points ``origin + x first + y second``, each a model's weights, then its state."""

    origin: Arrays
    first: Arrays
    second: Arrays

    @classmethod
    def around(
        cls, solution: Solution, directions: tuple[Arrays, Arrays], axes: Sequence[Axes]
    ) -> "Plane":
        """Through a solution along two directions, which are filter-normalised for it."""
        still = [np.zeros_like(value) for value in solution.state]
        first, second = (
            [*filter_normalised(direction, solution.weights, axes), *still]
            for direction in directions
        )
        return cls([*solution.weights, *solution.state], first, second)

    @classmethod
    def between(cls, start: Solution, end: Solution) -> "Plane":
        """Along x from one solution (0) to another (1), BatchNorm statistics included."""
        origin, goal = ([*s.weights, *s.state] for s in (start, end))
        first = [b - a for a, b in zip(origin, goal, strict=True)]
        return cls(origin, first, [np.zeros_like(a) for a in origin])


def float_state(network: keras.Model) -> list[keras.Variable]:
    """The variables that do not train and are floats."""
    floats = ("float16", "bfloat16", "float32", "float64")
    return [v for v in network.non_trainable_variables if v.dtype in floats]
