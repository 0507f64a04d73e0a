"""How sharp the loss is around the global model.

    sharpness           F(w + rho * g / |g|) - F(w),  g the gradient of F at w
    hessian_eigenvalue  the largest eigenvalue of the Hessian of F at w

F is the mean cross-entropy on a fixed set of examples, BatchNorm and dropout as when the model is
used. The eigenvalue is found by power iteration on exact Hessian-vector products. That finds the
eigenvalue of largest magnitude; should it be negative, a second iteration on H + |it| * I, whose
eigenvalues are all positive, finds the largest.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tf_fedsam import rng, tree
from tf_fedsam.algorithms.base import Vectors
from tf_fedsam.data.federated_dataset import Examples
from tf_fedsam.engine import Engine
from tf_fedsam.tree import Tree


class Sharpness:
    """Sharpness on a set of examples, compiled once.

    Args:
        engine: whose model, preprocessing and devices are used.
        examples: the examples F is the mean over.
    """

    def __init__(self, engine: Engine, examples: Examples):
        self._examples = examples
        scalar_and_weights = lambda weights: [tf.zeros([]), *tree.zeros_like(weights)]  # noqa: E731
        self._gradient = engine.summed(_loss_and_gradient, scalar_and_weights)
        self._loss = engine.summed(_loss, lambda _: [tf.zeros([])])
        self._product = engine.summed(_hessian_vector_product, tree.zeros_like)

    def loss(self, server: Vectors) -> float:
        """F at the global model."""
        return float(self._loss(server, self._examples)[0]) / len(self._examples)

    def sharpness(self, server: Vectors, rho: float = 0.1) -> float:
        """How much the loss rises a step of length ``rho`` uphill."""
        total, *gradient = self._gradient(server, self._examples)
        uphill = tree.add(server["weights"], tree.resize(gradient, rho))
        loss = float(total) / len(self._examples)
        return self.loss({**server, "weights": uphill}) - loss

    def hessian_eigenvalue(
        self, server: Vectors, seed: int = 0, num_iterations: int = 20, tolerance: float = 1e-3
    ) -> float:
        """The largest eigenvalue of the Hessian.

        Args:
            server: the server's vectors.
            seed: of the vector the iteration begins with.
            num_iterations: at most so many products with the Hessian in one iteration.
            tolerance: stop when the eigenvalue changes by less than this share of itself.
        """
        scale = 1 / len(self._examples)

        def product(vector: Tree) -> Tree:
            return tree.scale(scale, self._product(server, self._examples, vector))

        draw = rng.generator(seed, "analysis.hessian")
        start = [tf.constant(draw.standard_normal(w.shape), tf.float32) for w in server["weights"]]
        value = _power_iteration(product, start, num_iterations, tolerance)
        if not value < 0:
            return value
        shifted = lambda vector: tree.axpy(-value, vector, product(vector))  # noqa: E731
        return _power_iteration(shifted, start, num_iterations, tolerance) + value


def _power_iteration(
    product: Callable[[Tree], Tree], start: Tree, num_iterations: int, tolerance: float
) -> float:
    vector, value = tree.resize(start, 1.0), np.nan
    for _ in range(num_iterations):
        image = product(vector)
        before, value = value, float(tree.dot(vector, image))
        if abs(value - before) <= tolerance * abs(value):
            break
        vector = tree.resize(image, 1.0)
    return value


def _loss(network, inputs, labels) -> Tree:
    logits = tf.cast(network(inputs, training=False), tf.float32)
    return [tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))]


def _loss_and_gradient(network, inputs, labels) -> Tree:
    variables = [v.value for v in network.trainable_variables]
    with tf.GradientTape() as tape:
        [loss] = _loss(network, inputs, labels)
    zero = tf.UnconnectedGradients.ZERO
    gradient = tape.gradient(loss, variables, unconnected_gradients=zero)
    return [loss, *(tf.convert_to_tensor(g) for g in gradient)]


def _hessian_vector_product(network, inputs, labels, vector) -> Tree:
    variables = [v.value for v in network.trainable_variables]
    with tf.GradientTape() as outer:
        _, *gradient = _loss_and_gradient(network, inputs, labels)
        along = tree.dot(gradient, vector)
    zero = tf.UnconnectedGradients.ZERO
    product = outer.gradient(along, variables, unconnected_gradients=zero)
    return [tf.convert_to_tensor(p) for p in product]
