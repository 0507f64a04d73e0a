"""FedSOL: the gradient is taken where the local model has most forgotten the global one.

Lee et al., FedSOL: Stabilized Orthogonal Learning with Proximal Restrictions in Federated
Learning, CVPR 2024, arXiv:2308.12532.

    client:  L   = mean of KL(s(start) || s(w_i)) over the batch       s = softmax(logits / tau)
             e   = rho * A * u(grad L(w_i))                u(v) = v / |v|; e = 0 in the first step
             w_i <- w_i - lr * g(w_i + e)                  tau = temperature
    server:  FedAvg

A is |w_i - start|, in every tensor scaled to unit length along the axis of a layer's outputs
(strength="adaptive", so that |e| <= rho), or 1 ("fixed", |e| = rho: tune it from 0.1 on).
perturb="head" restricts e and its norm to the last layer with weights, "body" to the others.

The teacher is the model that training started from, with its BatchNorm statistics, in inference
mode. In the first step both have the same weights, and the authors' code perturbs the fixed variant
by rounding errors scaled to length rho. It also has a local momentum of 0.9, weights clients by
their examples, and adds 1e-12 to the norm. That A goes along outputs is taken from it.
"""

from __future__ import annotations

import dataclasses

from tf_fedsam import layers, tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import Batch, ClientModel
from tf_fedsam.errors import InputError
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.lazy import tf
from tf_fedsam.tree import Tree


class FedSOLClient(ClientModel):
    gradients_per_step = 2
    spared_gradients = 1
    forwards_per_step = 1
    perturbs = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._axes = layers.output_axes(self.network)
        self._perturbed = _perturbed(self.network, self.hparams.perturb)

    def begin_round(self):
        self.fixed.statistics = self.read_model_state()

    def train_step(self, data):
        batch = self.unpack(data)
        away = self.step_index > 0
        return self.step(batch, self.either(away, batch, self.orthogonal_gradient, self.gradient))

    def orthogonal_gradient(self, batch: Batch) -> Tree:
        """Gradient where the models disagree more."""
        teacher = self.logits_at(self.round.start, batch, self.fixed.statistics)
        batch.extra["teacher"] = teacher
        return self.gradient(batch, shift=self.ascent(self.gradient(batch, loss=self.disagreement)))

    def disagreement(self, batch: Batch, logits: tf.Tensor) -> tf.Tensor:
        """The loss L, but for the teacher's entropy, which has no gradient."""
        teacher, student = (
            tf.cast(z, tf.float32) / self.hparams.temperature
            for z in (batch.extra["teacher"], logits)
        )
        losses = tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(teacher), student)
        return tf.reduce_mean(losses)

    def ascent(self, gradient: Tree) -> Tree:
        """The perturbation e."""
        zeros = tree.zeros_like(gradient)
        chosen = [
            g if perturbed else zero
            for g, zero, perturbed in zip(gradient, zeros, self._perturbed, strict=True)
        ]
        ascent = tree.resize(chosen, self.radius())
        if self.hparams.strength == "fixed":
            return ascent
        sizes = [_unit(d, axes) for d, axes in zip(self.offset(), self._axes, strict=True)]
        return tree.mul(sizes, ascent)


class FedSOL(Algorithm):
    name = "fedsol"
    title = "FedSOL"
    paper = "Lee et al. 2024, arXiv:2308.12532"
    summary = "gradients taken where the local model disagrees most with the one it started from"
    Client = FedSOLClient

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        rho: float = hparam(
            1.0, "[0, inf)", "Radius of the perturbation; 0 is FedAvg.", paper="1 in code"
        )
        strength: str = hparam(
            "adaptive",
            {"adaptive": "by how far each weight has moved", "fixed": "the same for all weights"},
            "How strongly single weights are perturbed.",
            paper="adaptive",
        )
        temperature: float = hparam(
            3.0, "(0, inf)", "Of the softmax that both models are compared by.", paper="3 in code"
        )
        perturb: str = hparam(
            "all",
            {"all": "all of it", "head": "its last layer with weights", "body": "the rest"},
            "Which part of the network is perturbed.",
            paper="all",
        )


def _unit(offset: tf.Tensor, axes: tuple[int, ...]) -> tf.Tensor:
    """The sizes of the entries, at unit length along the axes; zeros stay."""
    length = tf.sqrt(tf.reduce_sum(tf.square(offset), axis=axes, keepdims=True))
    return tf.math.divide_no_nan(tf.abs(offset), length)


def _perturbed(network, part: str) -> list[bool]:
    """Which trainable variables are perturbed."""
    if part == "all":
        return [True] * len(network.trainable_variables)
    head = {id(variable) for variable in layers.head(network)}
    chosen = [(id(v) in head) == (part == "head") for v in network.trainable_variables]
    if not any(chosen):
        raise InputError(
            "perturb must be all or head for a model of which one layer trains. Received: 'body'.",
            "hparams.perturb",
        )
    return chosen
