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

from tf_fedsam.algorithms.base import Aggregate, ModelSpec, Outcome, Round
from tf_fedsam.client import ClientRound, LocalStep
from tf_fedsam.engine import ClientData
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
        state: what the client kept, that of a first visit by default.
        local_step: weight decay and clipping.
        data: the client's data, for methods that look at all of it.

    Attributes:
        shifts: where each gradient was taken, relative to the weights; ``None`` for at them.
    """

    def __init__(
        self, algorithm, weights=ZERO, *, server=None, state=None, local_step=None, data=None
    ):
        self.algorithm = setup(algorithm)
        self.client = algorithm.make_client(network(), local_step or LocalStep())
        self.shifts, self.num_steps = [], 0
        self._record_gradients()
        vectors = server_vectors(algorithm, weights, server)
        kept = algorithm.client_defaults(vectors)
        kept |= {name: as_tree(v) for name, v in (state or {}).items()}
        received = algorithm.download(vectors, kept)
        data = data or examples([0])
        self.round = ClientRound(
            received, kept, received["weights"], tf.constant(LR, tf.float32), 7, data
        )
        self.round.server = vectors
        self.round.start = algorithm.start(self.round)
        self.client.start_round(self.round, [])

    def step(self):
        """Does one local step; the weights after it."""
        self.client.seed_step(tf.constant(self.num_steps))
        self.num_steps += 1
        self.client.train_step((tf.constant(X), tf.constant(Y)))
        return self.weights

    @property
    def weights(self):
        return as_flat(self.client.read_weights())

    def report(self):
        """The upload, the new state, and what the server adds up."""
        weights = self.client.read_weights()
        delta = [w - s for w, s in zip(weights, self.round.start, strict=True)]
        steps = tf.constant(float(self.num_steps))
        outcome = Outcome(weights, delta, steps, tf.constant(1.0), self.round.lr)
        upload, state = self.algorithm.report(self.client, outcome)
        summands = self.algorithm.summands(upload, outcome, self.client)
        scalars = {name: float(summands.pop(name)) for name in self.algorithm.mean_scalars}
        return as_flats(upload), as_flats(state), as_flats(summands) | scalars

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
    )
    round_ = Round(tf.constant(LR, tf.float32), NUM_CLIENTS, tf.constant(2.0))
    before = server_vectors(setup(algorithm), weights, server)
    after = algorithm.server_step(before, aggregate, round_)
    assert set(after) == set(before)
    return as_flats(after)


def assert_refused(algorithm, **hparams):
    """The value is refused, and the message names it and what it was given for."""
    [(name, value)] = hparams.items()
    with pytest.raises(InputError, match=rf"(?s)\b{name}\b.*{re.escape(str(value))}"):
        algorithm(**hparams)
