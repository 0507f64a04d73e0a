"""One client's visit, step by step and without the engine, in numbers that can be checked by hand.

The model is softmax regression with two classes, trained on the one example X of class 0. With the
weights as one flat vector w (kernel row by row, then bias) its loss is log(1 + exp(-A w)), where
A = (x1, -x1, x2, -x2, 1, -1), so that

    g(w) = -A / (1 + exp(A w))             -A/2 at A w = 0, -A/4 at ln 3, -3A/4 at -ln 3

X = (0.6, 0.8) gives |A| = 2. V has length 2 as well and is orthogonal to A: moves along V leave
the gradient alone. LR = ln(3) / 2, so plain steps from 0 go to LR/2 A and LR (1/2 + 1/4) A. A
perturbation of length RHO = ln(3) / 2 along -A, uphill, takes A w from 0 to -2 RHO = -ln 3 and
turns a step of LR/2 A into one of LR 3/4 A; the wrong sign would make it LR/4 A.
"""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_fedsam.algorithms.base import Aggregate, Contribution, ModelSpec, Outcome, Round
from tf_fedsam.client import ClientData, ClientRound, LocalStep
from tf_fedsam.errors import InputError

X, Y = np.array([[0.6, 0.8]], np.float32), np.array([0], np.int32)
A = np.array([0.6, -0.6, 0.8, -0.8, 1.0, -1.0])
V = np.array([1.0, 1.0, -1.0, -1.0, 0.0, 0.0])
ZERO = np.zeros(6)
FLAT = 50 * A  # A w = 200: the gradient is exactly 0 in float32
LN3 = np.log(3.0)
LR = RHO = LN3 / 2
NUM_CLIENTS = 4


def gradient(w):
    """g(w) in float64."""
    return -A / (1 + np.exp(A @ w))


def network():
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])


def as_tree(value):
    """A flat vector in the shapes of the model, or a single number."""
    if np.ndim(value) == 0:
        return [tf.constant(value, tf.float32)]
    value = np.asarray(value, np.float32)
    return [tf.constant(value[:4].reshape(2, 2)), tf.constant(value[4:])]


def as_flat(tensors):
    return np.concatenate([np.asarray(t).reshape(-1) for t in tensors])


def as_flats(vectors):
    return {name: as_flat(v) for name, v in vectors.items()}


def examples(*batches):
    """A client's data: every batch is a list of labels, all of input X."""

    def batch(k, augmented=True):
        labels = np.asarray(batches[int(k)], np.int32)
        return tf.constant(np.repeat(X, len(labels), axis=0)), tf.constant(labels)

    return ClientData(tf.constant(sum(map(len, batches))), tf.constant(len(batches)), batch)


class Visit:
    """A client's visit to an algorithm; vectors go in and come out flat.

    Args:
        algorithm: the method.
        weights: the server's model.
        server: the server's other vectors, those before round 0 by default.
        state: what the client and the server kept of it, that of a first visit by default.
        local_step: weight decay and clipping.
        data: the client's data, for methods that look at all of it.
        number: of the round.
        num_steps: local steps that the client is told to do.

    Attributes:
        shifts: where each gradient was taken, relative to the weights; ``None`` for at them.
    """

    def __init__(
        self,
        algorithm,
        weights=ZERO,
        *,
        server=None,
        state=None,
        local_step=None,
        data=None,
        number=0,
        num_steps=2,
    ):
        self.algorithm = setup(algorithm)
        self.client = algorithm.make_client(network(), local_step or LocalStep())
        self.shifts, self.num_steps = [], 0
        self._record_gradients()
        self.server = server_vectors(algorithm, weights, server)
        self.server_round = Round(tf.constant(number), tf.constant(LR, tf.float32), NUM_CLIENTS)
        given = {name: as_tree(v) for name, v in (state or {}).items()}
        row = algorithm.row_defaults(self.server)
        self.row = row | {name: v for name, v in given.items() if name in row}
        self.sent = algorithm.download(self.server, self.row, self.server_round)
        known = {name: self.server[name] for name in algorithm.beforehand}
        kept = algorithm.client_defaults(self.sent | known)
        kept |= {name: v for name, v in given.items() if name in kept}
        assert given.keys() <= self.row.keys() | kept.keys()
        self.round = ClientRound(
            received=self.sent,
            state=kept,
            start=algorithm.start(self.sent, kept),
            lr=self.server_round.lr,
            number=self.server_round.number,
            num_steps=tf.constant(num_steps),
            seed=7,
            data=data or examples([0]),
        )
        self.client.start_round(self.round, [])

    def step(self):
        """Does one local step; the weights after it."""
        self.client.begin_step(tf.constant(self.num_steps))
        self.num_steps += 1
        self.client.train_step((tf.constant(X), tf.constant(Y)))
        return self.weights

    @property
    def weights(self):
        return as_flat(self.client.read_weights())

    def report(self):
        """The upload, what the client and the server keep, and what the server adds up."""
        weights = self.client.read_weights()
        delta = [w - s for w, s in zip(weights, self.round.start, strict=True)]
        steps, one = tf.constant(float(self.num_steps)), tf.constant(1.0)
        factors = self.client.schedule(tf.range(steps))
        lr_sum = (steps if factors is None else tf.reduce_sum(factors)) * self.round.lr
        outcome = Outcome(weights, delta, steps, one, lr_sum)
        upload, state = self.algorithm.report(self.client, outcome)
        contribution = Contribution(upload, steps, one, lr_sum, self.sent, self.row)
        summands = self.algorithm.summands(contribution, self.server, self.server_round)
        row = self.algorithm.new_row(contribution, self.server, self.server_round)
        scalars = {name: float(summands.pop(name)) for name in self.algorithm.mean_scalars}
        return as_flats(upload), as_flats(state | row), as_flats(summands) | scalars

    def _record_gradients(self):
        original = self.client._gradient

        def recording(batch, shift, *rest):
            before = self.weights
            result = original(batch, shift, *rest)
            np.testing.assert_array_equal(self.weights, before)  # put back bit for bit
            self.shifts.append(None if shift is None else as_flat(shift))
            return result

        self.client._gradient = recording


def setup(algorithm):
    variables = network().trainable_variables
    algorithm.setup(
        ModelSpec(
            shapes=tuple(tuple(v.shape) for v in variables),
            names=tuple(v.path for v in variables),
            input_shape=(2,),
        )
    )
    return algorithm


def server_vectors(algorithm, weights, others=None):
    vectors = {"weights": as_tree(weights), **algorithm.server_vectors(as_tree(weights))}
    return vectors | {name: as_tree(v) for name, v in (others or {}).items()}


def server_step(algorithm, server=None, *, weights=ZERO, mean=None, total=None, scalar=None):
    """The server's vectors after a round of 2 out of NUM_CLIENTS = 4 clients, flat."""
    aggregate = Aggregate(
        mean={name: as_tree(v) for name, v in (mean or {}).items()},
        total={name: as_tree(v) for name, v in (total or {}).items()},
        scalar={name: tf.constant(v, tf.float32) for name, v in (scalar or {}).items()},
        num_reporting=tf.constant(2.0),
    )
    round_ = Round(tf.constant(3), tf.constant(LR, tf.float32), NUM_CLIENTS)
    before = server_vectors(setup(algorithm), weights, server)
    after = algorithm.server_step(before, aggregate, round_)
    assert set(after) == set(before)
    return as_flats(after)


def assert_refused(algorithm, **hparams):
    """The value is refused, and the message names it, what it was given for, and the setting."""
    [(name, value)] = hparams.items()
    with pytest.raises(
        InputError, match=rf"^{name} must be .*Received: {re.escape(repr(value))}\."
    ) as caught:
        algorithm(**hparams)
    assert caught.value.settings == (name if name == "server_lr" else f"hparams.{name}",)
