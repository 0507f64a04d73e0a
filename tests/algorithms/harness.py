"""Runs a method on a toy problem, with its NumPy reference and with the package."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.reference.methods import run as run_reference
from tests.reference.toy import toy_problem
from tf_fedsam.algorithms.dp import DP
from tf_fedsam.algorithms.nesterov import Nesterov
from tf_fedsam.algorithms.registry import find
from tf_fedsam.algorithms.relaxed_init import RelaxedInit
from tf_fedsam.algorithms.swa import SWA
from tf_fedsam.data import batches
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

SIZES = [9, 4, 13, 1, 6, 11]  # batches of 4: one, several, partial ones, a single example
FULL = [list(range(6))] * 4
PARTIAL = [[0, 2, 3], [2, 4], [0, 1, 2, 5], [3, 4, 5], [0, 2, 4]]
LR, LR_DECAY = 0.2, 0.9


def some_in_gate(values, every: int):
    """Parameters of a test: every so many-th value in the gate, the others with ``-m slow``."""
    return [
        value if number % every == 0 else pytest.param(value, marks=pytest.mark.slow)
        for number, value in enumerate(values)
    ]


def strategy(num_devices: int = 1) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(num_devices)])


def plugged(
    name, *, server_lr=None, relaxed_init=None, nesterov=None, dp=None, swa=None, **hparams
):
    """The algorithm with its plug-ins; ``dp`` and ``swa`` are the arguments of theirs."""
    algorithm = find(name)(server_lr=server_lr, **hparams)
    if relaxed_init is not None:
        algorithm = RelaxedInit(algorithm, relaxed_init)
    if nesterov is not None:
        algorithm = Nesterov(algorithm, nesterov)
    if dp is not None:
        algorithm = DP(algorithm, **dp)
    if swa is not None:
        algorithm = SWA(algorithm, **swa)
    return algorithm


class Toy:
    """A toy problem whose batches are the package's own.

    Args:
        hidden: units of the hidden layer, or ``None`` for a linear model.
        sizes: examples of each client.
        batch_size, epochs: of the local training.
        input_shape: of one example; images of shape (height, width, channels) for FedRobust.
    """

    def __init__(self, hidden=None, sizes=None, batch_size=4, epochs=2, input_shape=(4,), seed=0):
        sizes = SIZES if sizes is None else sizes
        self.hidden, self.seed = hidden, seed
        self.options = {"batch_size": batch_size, "local_epochs": epochs}
        self.problem = toy_problem(
            num_clients=len(sizes),
            seed=seed,
            sizes=sizes,
            batch_size=batch_size,
            epochs=epochs,
            hidden=hidden,
            input_shape=input_shape,
            batches=self.batches,
        )
        p = self.problem
        owner = np.zeros(len(p.y), int)
        for client, indices in enumerate(p.client_indices):
            owner[indices] = client
        self.dataset = FederatedDataset.from_arrays(
            p.x.astype(np.float32), p.y, owner, num_classes=p.num_classes
        )
        self.input_shape = input_shape

    def batches(self, round_num, client):
        cohort = batches.plan(
            self.dataset.partition, np.asarray([client]), self.seed, round_num, **self.options
        )
        return batches.client_batches(cohort, 0, self.options["batch_size"])

    def network(self):
        layers = [keras.Input(self.input_shape), keras.layers.Flatten()]
        if self.hidden:
            layers.append(keras.layers.Dense(self.hidden, activation="tanh"))
        return keras.Sequential([*layers, keras.layers.Dense(self.problem.num_classes)])

    def initial(self):
        flat, arrays = self.problem.initial, []
        for variable in self.network().trainable_variables:
            size = int(np.prod(variable.shape))
            arrays.append(flat[:size].reshape(variable.shape))
            flat = flat[size:]
        return arrays

    def process(self, algorithm, *, devices=1, lr=LR, lr_decay=LR_DECAY, **options):
        options = {"weight_decay": 0.0, "clip_norm": None, **self.options, **options}
        return LearningProcess(
            self.network,
            algorithm,
            self.dataset,
            options=TrainingOptions(lr=lr, lr_decay=lr_decay, **options),
            seed=self.seed,
            strategy=strategy(devices),
        )

    def train(self, method, schedule, *, devices=1, training=None, **settings):
        """The global weights after every round, flat."""
        return self.run(method, schedule, devices=devices, training=training, **settings)[0]

    def run(self, method, schedule, *, devices=1, training=None, **settings):
        """The global weights after every round, the last state, the process and all metrics."""
        process = self.process(plugged(method, **settings), devices=devices, **(training or {}))
        state, history, metrics = process.initialize(self.initial()), [], []
        for cohort in schedule:
            state, measured = process.next(state, cohort)
            history.append(flat(state.server["weights"]))
            metrics.append(measured)
        return np.asarray(history), state, process, metrics

    def reference(self, method, schedule, *, training=None, **settings):
        """The same from the NumPy reference."""
        options = {"lr": LR, "lr_decay": LR_DECAY, **(training or {})}
        return run_reference(method, self.problem, schedule, **options, **settings)


def flat(tensors) -> np.ndarray:
    return np.concatenate([np.asarray(t).reshape(-1) for t in tensors])


def assert_close(received, expected, tolerance=2e-6):
    """Equal to float32 accuracy, relative to the size of the vector."""
    received, expected = np.asarray(received), np.asarray(expected)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(received, expected, rtol=0, atol=tolerance * scale)
