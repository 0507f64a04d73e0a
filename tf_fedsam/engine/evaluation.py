"""The global model on many examples; every replica takes its share of the batches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Vectors
from tf_fedsam.client import ClientModel
from tf_fedsam.data.federated_dataset import Examples, Preprocess
from tf_fedsam.engine.examples import DeviceExamples
from tf_fedsam.engine.kept import MODEL_STATE
from tf_fedsam.engine.placement import Placement
from tf_fedsam.losses import Loss
from tf_fedsam.tree import Tree

PREDICTION_BATCH = 250

Body = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, Any], Any]


class Evaluation:
    """Predictions of the global model, and sums of anything over examples.

    Args:
        client: the replicas' client model.
        loss: of single examples.
        preprocess: from raw to network input.
        examples: examples on the devices.
        placement: the devices.
        gradient_batch: examples at a time in sums, which may need gradients.

    Attributes:
        gradient_batch: the same, at most as many as are predicted at a time.
    """

    def __init__(
        self,
        client: ClientModel,
        loss: Loss,
        preprocess: Preprocess,
        examples: DeviceExamples,
        placement: Placement,
        gradient_batch: int,
    ):
        self._client = client
        self._loss = loss
        self._preprocess = preprocess
        self._examples = examples
        self._placement = placement
        self.gradient_batch = min(PREDICTION_BATCH, gradient_batch)
        self._predict = self._compile_prediction()

    def predict(self, server: Vectors, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
        """The global model's loss on every example, and the class it gives it."""
        with self._placement.rewrites():
            parts = [
                self._predict(x, y, server["weights"], server[MODEL_STATE]).numpy()
                for x, y in self._examples.pieces(examples)
            ]
        table = np.concatenate(parts)
        return table[:, 0].astype(np.float64), table[:, 1].astype(np.int64)

    def summed(
        self,
        function: Callable[..., Tree],
        zeros: Callable[[Tree], Tree],
        batch: int | None = None,
    ) -> Callable:
        """Compiles the sum of a function over examples.

        Args:
            function: (network, inputs, labels, *trees) -> tree, the sum over one batch of examples;
                the network is at the server's weights.
            zeros: makes the tree of zeros to begin with from the server's weights.
            batch: examples that the function is given at a time; ``gradient_batch`` by default.

        Returns:
            A function (server, examples, *trees) -> tree.
        """

        size = self.gradient_batch if batch is None else batch

        def share(x, y, weights, state, trees):
            self._load(weights, state)

            def add(_, inputs, labels, sums):
                return tree.add(sums, function(self._client.network, inputs, labels, *trees))

            return self._over_batches(x, y, size, add, zeros(weights))

        @tf.function(autograph=False, reduce_retracing=True)
        def run(x, y, weights, state, trees):
            return self._placement.total(self._placement.run(share, x, y, weights, state, trees))

        def over(server: Vectors, examples: Examples, *trees: Tree) -> Tree:
            sums: Tree | None = None
            for x, y in self._examples.pieces(examples):
                with self._placement.rewrites():
                    new = run(x, y, server["weights"], server[MODEL_STATE], trees)
                sums = new if sums is None else tree.add(sums, new)
            return sums or []

        return over

    def _compile_prediction(self) -> Callable:
        size = PREDICTION_BATCH

        def share(x, y, weights, state):
            self._load(weights, state)
            total = tf.shape(y)[0]
            rows = tf.TensorArray(
                tf.float32, 0, dynamic_size=True, infer_shape=False, element_shape=[None, 2]
            )

            def predict(number, inputs, labels, rows):
                logits = tf.cast(self._client.network(inputs, training=False), tf.float32)
                losses = self._loss(labels, logits)
                classes = tf.cast(tf.argmax(logits, -1), tf.float32)
                return rows.write(number, tf.stack([losses, classes], 1))

            found = self._over_batches(x, y, size, predict, rows).concat()
            batch = tf.range(total) // size
            mine = tf.where(batch % self._placement.num_replicas == self._placement.replica())
            return tf.scatter_nd(tf.cast(mine, tf.int32), found, [total, 2])

        @tf.function(autograph=False, reduce_retracing=True)
        def predict(x, y, weights, state):
            return self._placement.total(self._placement.run(share, x, y, weights, state))

        return predict

    def _load(self, weights: Tree, state: Tree) -> None:
        self._client.assign_weights(weights)
        self._client.assign_model_state(state)

    def _over_batches(self, x: tf.Tensor, y: tf.Tensor, size: int, body: Body, start: Any) -> Any:
        """Goes through this replica's batches, which lie as many apart as there are replicas.

        Args:
            x, y: all examples.
            size: of a batch.
            body: (number of the batch on this replica, inputs, labels, value) -> new value.
            start: the value to begin with.
        """
        replica, total = self._placement.replica(), tf.shape(y)[0]

        def one(number, value):
            begin = (replica + number * self._placement.num_replicas) * size
            inputs = self._preprocess(x[begin : begin + size])
            return number + 1, body(number, inputs, y[begin : begin + size], value)

        return tf.while_loop(
            lambda number, _: (replica + number * self._placement.num_replicas) * size < total,
            one,
            (0, start),
            parallel_iterations=1,
        )[1]
