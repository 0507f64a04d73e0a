"""How sharp the loss is around a model.

    sharpness           F(w + rho * g / |g|) - F(w),  g the gradient of F at w
    m_sharpness         the mean over batches B of m examples of the same with F_B in place of F
    hessian_eigenvalue  the largest eigenvalue of the Hessian of F at w
    hessian_trace       the sum of all its eigenvalues

F is the mean loss on a fixed set of examples, the loss that is trained with, BatchNorm and dropout
as when the model is used, and F_B the same on a batch. Products with the Hessian are exact
(derivatives of derivatives, no differences), taken over as many examples at a time as a local step
takes, and shared by the devices. ``tf_fedsam.analysis.hessian`` says how eigenvalues and trace are
found and how exact they are.
"""

import copy
import functools
from typing import Self

import numpy as np
import tensorflow as tf

from tf_fedsam import rng, tree
from tf_fedsam.algorithms.base import Vectors
from tf_fedsam.analysis import hessian
from tf_fedsam.analysis.hessian import Estimate, Spectrum
from tf_fedsam.data.federated_dataset import Examples
from tf_fedsam.engine import Engine
from tf_fedsam.losses import Loss
from tf_fedsam.tree import Tree


class Sharpness:
    """Sharpness on a set of examples, compiled once.

    Args:
        engine: whose model, loss, preprocessing and devices are used.
        examples: the examples F is the mean over.

    Attributes:
        examples: the same.
    """

    def __init__(self, engine: Engine, examples: Examples):
        self.examples = examples
        summed_loss = functools.partial(_loss, engine.loss)
        gradient = functools.partial(_loss_and_gradient, summed_loss)
        self._gradient = engine.summed(
            gradient, lambda weights: [tf.zeros([]), *tree.zeros_like(weights)]
        )
        self._loss = engine.summed(summed_loss, lambda _: [tf.zeros([])])
        self._product = engine.summed(
            functools.partial(_hessian_vector_product, summed_loss), tree.zeros_like
        )
        rise = functools.partial(_rise, summed_loss, gradient, engine.gradient_batch)
        self._rise = functools.cache(
            lambda m: engine.summed(functools.partial(rise, m), lambda _: [tf.zeros([])], m)
        )

    def on(self, examples: Examples) -> Self:
        """The same on other examples, without anything being compiled again."""
        other = copy.copy(self)
        other.examples = examples
        return other

    def loss(self, server: Vectors) -> float:
        """F at the model."""
        return float(self._loss(server, self.examples)[0]) / len(self.examples)

    def sharpness(self, server: Vectors, rho: float = 0.1) -> float:
        """How much the loss rises a step of length ``rho`` uphill."""
        return self.loss_and_sharpness(server, rho)[1]

    def loss_and_sharpness(self, server: Vectors, rho: float = 0.1) -> tuple[float, float]:
        """F, and how much it rises a step of length ``rho`` uphill."""
        total, *gradient = self._gradient(server, self.examples)
        uphill = tree.add(server["weights"], tree.resize(gradient, rho))
        loss = float(total) / len(self.examples)
        return loss, self.loss({**server, "weights": uphill}) - loss

    def m_sharpness(self, server: Vectors, m: int, rho: float = 0.1) -> float:
        """The mean sharpness of single batches of ``m`` examples.

        The examples are cut in their order; what is left over at the end is not used, and if there
        are fewer than ``m`` all are one batch.

        Args:
            server: the vectors of the model.
            m: examples of a batch.
            rho: length of the step uphill, which each batch takes along its own gradient.
        """
        m = min(m, len(self.examples))
        [total] = self._rise(m)(server, self.examples, [tf.constant(rho, tf.float32)])
        return float(total) / (len(self.examples) // m)

    def hessian_eigenvalue(
        self, server: Vectors, seed: int = 0, num_iterations: int = 20, tolerance: float = 1e-3
    ) -> float:
        """The largest eigenvalue of the Hessian.

        Args:
            server: the vectors of the model.
            seed: of the vector the iteration begins with.
            num_iterations: at most so many products with the Hessian.
            tolerance: see ``tf_fedsam.analysis.hessian``.
        """
        found = self.hessian_eigenvalues(server, 1, seed, num_iterations, tolerance)
        return float(found.values[0])

    def hessian_eigenvalues(
        self,
        server: Vectors,
        count: int = 5,
        seed: int = 0,
        num_iterations: int | None = None,
        tolerance: float = 1e-3,
    ) -> Spectrum:
        """The largest eigenvalues of the Hessian.

        Args:
            server: the vectors of the model.
            count: how many.
            seed: of the vector the iteration begins with.
            num_iterations: at most so many products with the Hessian; ``20 + 10 * count`` by
                default.
            tolerance: see ``tf_fedsam.analysis.hessian``.
        """
        return hessian.largest_eigenvalues(
            functools.partial(self._flat_product, server),
            sum(tree.sizes(server["weights"])),
            count,
            rng.generator(seed, "analysis.hessian"),
            tolerance=tolerance,
            max_products=20 + 10 * count if num_iterations is None else num_iterations,
        )

    def hessian_trace(self, server: Vectors, num_vectors: int = 10, seed: int = 0) -> Estimate:
        """The trace of the Hessian, estimated with its standard error.

        Args:
            server: the vectors of the model.
            num_vectors: random vectors, a product with the Hessian each.
            seed: of these vectors; the same for every model, so that models can be compared.
        """
        return hessian.trace(
            functools.partial(self._flat_product, server),
            sum(tree.sizes(server["weights"])),
            num_vectors,
            rng.generator(seed, "analysis.trace"),
        )

    def _flat_product(self, server: Vectors, vector: np.ndarray) -> np.ndarray:
        """Of the Hessian of F with a vector."""
        sums = self._product(
            server, self.examples, tree.unflatten(tf.constant(vector), server["weights"])
        )
        return tree.flatten(sums).numpy() / np.float32(len(self.examples))


def _loss(loss: Loss, network, inputs, labels) -> Tree:
    logits = tf.cast(network(inputs, training=False), tf.float32)
    return [tf.reduce_sum(loss(labels, logits))]


def _loss_and_gradient(summed_loss, network, inputs, labels) -> Tree:
    variables = [v.value for v in network.trainable_variables]
    with tf.GradientTape() as tape:
        [loss] = summed_loss(network, inputs, labels)
    zero = tf.UnconnectedGradients.ZERO
    gradient = tape.gradient(loss, variables, unconnected_gradients=zero)
    return [loss, *(tf.convert_to_tensor(g) for g in gradient)]


def _hessian_vector_product(summed_loss, network, inputs, labels, vector) -> Tree:
    variables = [v.value for v in network.trainable_variables]
    with tf.GradientTape() as outer:
        _, *gradient = _loss_and_gradient(summed_loss, network, inputs, labels)
        along = tree.dot(gradient, vector)
    zero = tf.UnconnectedGradients.ZERO
    product = outer.gradient(along, variables, unconnected_gradients=zero)
    return [tf.convert_to_tensor(p) for p in product]


def _rise(summed_loss, gradient, part_size, m, network, inputs, labels, rho) -> Tree:
    """How much the mean loss of a batch rises along its own gradient; 0 for a smaller batch.

    Args:
        summed_loss, gradient: of a part of the batch.
        part_size: examples of a part.
        m: examples of a batch.
        network: at the weights; it is left there.
        inputs, labels: the batch.
        rho: list of the one length.
    """
    variables = network.trainable_variables
    weights = [tf.identity(v.value) for v in variables]
    total = tf.shape(labels)[0]

    def over_parts(function, zeros: Tree) -> Tree:
        def add(begin, sums):
            part = slice(begin, begin + part_size)
            return begin + part_size, tree.add(sums, function(network, inputs[part], labels[part]))

        return tf.while_loop(
            lambda begin, _: begin < total, add, (0, zeros), parallel_iterations=1
        )[1]

    before, *uphill = over_parts(gradient, [tf.zeros([]), *tree.zeros_like(weights)])
    for variable, value in zip(
        variables, tree.add(weights, tree.resize(uphill, rho[0])), strict=True
    ):
        variable.assign(value)
    [after] = over_parts(summed_loss, [tf.zeros([])])
    for variable, value in zip(variables, weights, strict=True):
        variable.assign(value)
    return [tf.where(total == m, (after - before) / m, 0.0)]
