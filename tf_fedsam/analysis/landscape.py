"""Loss surfaces around solutions, with filter-normalised random directions.

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
import hashlib
import io
import math
import pathlib
import time
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam import rng
from tf_fedsam.data.arrays import read_npz
from tf_fedsam.data.federated_dataset import Examples, Preprocess
from tf_fedsam.devices import available_cores
from tf_fedsam.errors import InputError
from tf_fedsam.state.files import write_atomically

EPSILON = 1e-10
RING_POINTS = 16
NOT_MOVED = ("gamma", "beta", "alpha")
_FORMAT = "landscape points 1"
_CHUNK_SECONDS = 2.0
_MOST_PARALLEL_POINTS = 8  # each has its own copy of the weights

Arrays = list[np.ndarray]
Point = tuple[float, float]
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
        return cls(values(network.trainable_variables), values(_float_state(network)))


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


class LossFunction:
    """Mean cross-entropy and accuracy on fixed examples, at any points of any plane.

    One graph serves all planes and any number of points a call.

    Args:
        network: its architecture counts, not its values.
        examples: raw.
        preprocess: from raw to network input.
        batch_size: examples that go through the network at a time.

    Attributes:
        num_traces: how often the graph was made.
    """

    def __init__(
        self,
        network: keras.Model,
        examples: Examples,
        preprocess: Preprocess,
        batch_size: int = 250,
    ):
        self.num_traces = 0
        # Measured on two cores: 1.2 (perceptron) to 1.35 times (convolutions) as fast as one point
        # after another.
        parallel = min(available_cores(), _MOST_PARALLEL_POINTS)
        self._num_weights = len(network.trainable_variables)
        self._plane: tuple[Plane, list[list[tf.Tensor]]] | None = None
        moving = [*network.trainable_variables, *_float_state(network)]
        specs = [tf.TensorSpec(v.shape, v.dtype) for v in moving]
        x, y = tf.constant(examples.x), tf.constant(examples.y.astype(np.int32))
        total = len(examples)

        def batch_sums(values: list[tf.Tensor], begin: tf.Tensor) -> tf.Tensor:
            labels = y[begin : begin + batch_size]
            inputs = preprocess(x[begin : begin + batch_size])
            logits, _ = network.stateless_call(
                *self._split(network, values), inputs, training=False
            )
            logits = tf.cast(logits, tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            correct = tf.cast(tf.equal(tf.argmax(logits, -1, tf.int32), labels), tf.float32)
            return tf.stack([tf.reduce_sum(losses), tf.reduce_sum(correct)])

        def at(point: tf.Tensor, planes: list[list[tf.Tensor]]) -> tf.Tensor:
            values = [w + point[0] * a + point[1] * b for w, a, b in zip(*planes, strict=True)]
            _, sums = tf.while_loop(
                lambda begin, _: begin < total,
                lambda begin, sums: (begin + batch_size, sums + batch_sums(values, begin)),
                (tf.constant(0), tf.zeros([2])),
                parallel_iterations=1,
            )
            return sums / total

        @tf.function(
            autograph=False,
            input_signature=[[specs] * 3, tf.TensorSpec([None, 2], tf.float32)],
        )
        def evaluate(planes, points):
            self.num_traces += 1
            return tf.map_fn(lambda point: at(point, planes), points, parallel_iterations=parallel)

        self._evaluate = evaluate

    def __call__(self, plane: Plane, points: Sequence[Point]) -> np.ndarray:
        """Loss and accuracy, float32 [points, 2]."""
        if self._plane is None or self._plane[0] is not plane:
            parts = (plane.origin, plane.first, plane.second)
            self._plane = plane, [[tf.constant(value) for value in part] for part in parts]
        return self._evaluate(self._plane[1], tf.constant(points, tf.float32)).numpy()

    def _split(self, network: keras.Model, values: list[tf.Tensor]) -> tuple[list, list]:
        """Trainable and other variables, with the states of random generators as they are."""
        state = dict(zip(map(id, _float_state(network)), values[self._num_weights :], strict=True))
        others = [state.get(id(v), v.value) for v in network.non_trainable_variables]
        return values[: self._num_weights], others


def _float_state(network: keras.Model) -> list[keras.Variable]:
    floats = ("float16", "bfloat16", "float32", "float64")
    return [v for v in network.non_trainable_variables if v.dtype in floats]


class PointStore:
    """The values of a plane's points that are known, in a file that a kill leaves whole.

    Points are told apart by their coordinates, so a finer grid takes over those of a coarser one.

    Args:
        path: the file; an unreadable one counts as empty.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.known: dict[Point, tuple[float, float]] = {}
        try:
            found = read_npz(path) if path.exists() else {}
        except InputError:
            return
        points, values = (found.get(name, np.zeros(0)) for name in ("points", "values"))
        if points.ndim == 2 and points.shape[1] == 2 and points.shape == values.shape:
            for (x, y), (loss, accuracy) in zip(points.tolist(), values.tolist(), strict=True):
                self.known[x, y] = (loss, accuracy)

    def missing(self, points: Sequence[Point]) -> list[Point]:
        """Those that are not known, each once."""
        return [point for point in dict.fromkeys(points) if point not in self.known]

    def add(self, points: Sequence[Point], values: np.ndarray) -> None:
        """Keeps values of points and writes them to the disk."""
        self.known |= {p: (float(v[0]), float(v[1])) for p, v in zip(points, values, strict=True)}
        content = io.BytesIO()
        np.savez(
            content,
            points=np.asarray(list(self.known), np.float64),
            values=np.asarray(list(self.known.values()), np.float64),
        )
        write_atomically(self.path, content.getvalue())

    def read(self, points: Sequence[Point]) -> np.ndarray:
        """float64 [points, 2]: loss and accuracy."""
        return np.asarray([self.known[point] for point in points], np.float64).reshape(-1, 2)


def fill(
    store: PointStore,
    points: Sequence[Point],
    evaluate: Callable[[Sequence[Point]], np.ndarray],
    progress: Callable[[int], None] = lambda count: None,
) -> None:
    """Evaluates the points that are missing, some seconds' worth a call, each call saved at once.

    Args:
        store: where they go.
        points: all that are wanted.
        evaluate: gives [points, 2].
        progress: told how many points were done.
    """
    missing, count = store.missing(points), 1
    while missing:
        now, missing = missing[:count], missing[count:]
        began = time.perf_counter()
        store.add(now, evaluate(now))
        seconds = max(time.perf_counter() - began, 1e-6)
        progress(len(now))
        count = max(1, min(2 * count, int(count * _CHUNK_SECONDS / seconds)))


def fingerprint(plane: Plane, examples: Examples, about: str) -> str:
    """Sixteen digits of all that decides the values of a plane's points.

    Args:
        plane: weights and directions.
        examples: what the loss is the mean of.
        about: the architecture and the preprocessing, in words.
    """
    digest = hashlib.sha256(f"{_FORMAT}\0{about}\0".encode())
    parts = [*plane.origin, *plane.first, *plane.second, np.asarray(examples.x), examples.y]
    for array in parts:
        digest.update(f"{array.dtype.str} {array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:16]


def axis(grid: int, span: float) -> list[float]:
    """An odd number of coordinates from ``-span`` to ``span`` with 0 in the middle.

    A coordinate that two grids have in common is the same float in both.
    """
    half = grid // 2
    return [span * (i / half) for i in range(-half, half + 1)]


def surface_points(grid: int, span: float) -> list[Point]:
    """Row after row, from the lowest y; x runs faster."""
    return [(x, y) for y in axis(grid, span) for x in axis(grid, span)]


def line_points(grid: int, span: float) -> list[Point]:
    """Along the first direction, with half the step of the surface."""
    return [(x, 0.0) for x in axis(2 * grid - 1, span)]


def ring_points(radius: float) -> list[Point]:
    """``RING_POINTS`` points around the middle, evenly spaced, with exact zeros."""
    angles = [2 * math.pi * i / RING_POINTS for i in range(RING_POINTS)]
    at = lambda value: radius * round(value, 12)  # noqa: E731
    return [(at(math.cos(a)), at(math.sin(a))) for a in angles]


def between_points(grid: int) -> list[Point]:
    """From half the way before the first solution (0) to half the way behind the second (1)."""
    half = grid // 2
    return [(i / (2 * half), 0.0) for i in range(-half, 3 * half + 1)]


def barrier(at: Sequence[float], loss: np.ndarray) -> float:
    """How far the loss between two solutions rises above the straight line between theirs."""
    inside = [i for i, t in enumerate(at) if 0 <= t <= 1]
    t, height = np.asarray(at)[inside], np.asarray(loss)[inside]
    return float(np.max(height - ((1 - t) * height[0] + t * height[-1])))
