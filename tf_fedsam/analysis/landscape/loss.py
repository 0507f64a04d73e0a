"""The loss at points of a plane."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam.analysis.landscape.plane import Plane, float_state
from tf_fedsam.analysis.landscape.points import Point
from tf_fedsam.data.federated_dataset import Examples, Preprocess
from tf_fedsam.devices import available_cores
from tf_fedsam.losses import Loss, cross_entropy

_MOST_PARALLEL_POINTS = 8  # each has its own copy of the weights


class LossFunction:
    """Mean loss and accuracy on fixed examples, at any points of any plane.

    One graph serves all planes and any number of points a call.

    Args:
        network: its architecture counts, not its values.
        examples: raw.
        preprocess: from raw to network input.
        batch_size: examples that go through the network at a time.
        loss: of single examples; cross-entropy by default, so that surfaces of runs that were
            trained with different losses can be compared.

    Attributes:
        num_traces: how often the graph was made.
    """

    def __init__(
        self,
        network: keras.Model,
        examples: Examples,
        preprocess: Preprocess,
        batch_size: int = 250,
        loss: Loss | None = None,
    ):
        self.num_traces = 0
        # Measured on two cores: 1.2 (perceptron) to 1.35 times (convolutions) as fast as one point
        # after another.
        parallel = min(available_cores(), _MOST_PARALLEL_POINTS)
        self._num_weights = len(network.trainable_variables)
        self._plane: tuple[Plane, list[list[tf.Tensor]]] | None = None
        moving = [*network.trainable_variables, *float_state(network)]
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
            losses = (loss or cross_entropy())(labels, logits)
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
        state = dict(zip(map(id, float_state(network)), values[self._num_weights :], strict=True))
        others = [state.get(id(v), v.value) for v in network.non_trainable_variables]
        return values[: self._num_weights], others
