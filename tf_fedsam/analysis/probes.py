"""What is measured of the global model now and then, because it costs more than a round's log.

    clients     accuracy on each client's training and validation examples; global training accuracy
    confusion   test examples by true and predicted class
    sharpness   how much the loss rises a small step uphill
    eigenvalue  the largest eigenvalue of the Hessian
    divergence  mean squared distance of all clients' last local models to the global one (FedInit)

A probe reads the state and changes nothing: the rounds after it are the same bit for bit.
"""

import functools
import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from tf_fedsam import rng
from tf_fedsam.analysis import fairness
from tf_fedsam.analysis.sharpness import Sharpness
from tf_fedsam.data.federated_dataset import Examples
from tf_fedsam.data.partition import Partition
from tf_fedsam.engine import LOCAL_MODEL
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.process import LearningProcess, State

NAMES = ("clients", "confusion", "sharpness", "eigenvalue", "divergence")
DEFAULT = ("clients", "confusion", "sharpness")
MAX_CONFUSION_CLASSES = 100


class Probes:
    """Some measurements of the global model, each compiled once.

    Args:
        process: the learning process.
        names: which, of ``NAMES``.
        validation: cuts the test examples into clients; ``None`` leaves that accuracy out.
        num_examples: training examples that sharpness and eigenvalue are measured on.
        rho: length of the step uphill.
        initial: weights that training began with, the model of a client that never took part.
    """

    def __init__(
        self,
        process: LearningProcess,
        names: Collection[str] = DEFAULT,
        *,
        validation: Partition | None = None,
        num_examples: int = 2000,
        rho: float = 0.1,
        initial: list[np.ndarray] | None = None,
    ):
        for name in names:
            if name not in NAMES:
                raise unknown("probe", name, NAMES)
        if "divergence" in names and not process.options.keep_local_models:
            raise InputError(
                "The probe 'divergence' needs every client's last local model. Received: "
                "keep_local_models=False. Set it in the training options."
            )
        self.names = tuple(name for name in NAMES if name in names)
        self._process = process
        self._validation = validation
        self._rho = rho
        self._initial = initial
        self._num_examples = num_examples
        self._sharpness: Sharpness | None = None

    def __call__(self, state: State) -> dict[str, Any]:
        """The values, by the names of a run's log."""
        engine, dataset = self._process.engine, self._process.dataset

        @functools.cache
        def test_classes() -> np.ndarray:
            assert dataset.test is not None
            return engine.predict(state.server, dataset.test)[1]

        measure: dict[str, Callable[[State], dict[str, Any]]] = {
            "clients": lambda s: self._clients(s, test_classes),
            "confusion": lambda s: self._confusion(test_classes),
            "sharpness": lambda s: {
                "sharpness": self._measured_sharpness().sharpness(s.server, self._rho)
            },
            "eigenvalue": lambda s: {
                "hessian_eigenvalue": self._measured_sharpness().hessian_eigenvalue(s.server)
            },
            "divergence": self._divergence,
        }
        began = time.perf_counter()
        found: dict[str, Any] = {}
        for name in self.names:
            found |= measure[name](state)
        return {**found, "probe_seconds": time.perf_counter() - began}

    def _measured_sharpness(self) -> Sharpness:
        """Made when it is first needed: its examples may have to be read from files."""
        if self._sharpness is None:
            examples = probe_examples(self._process, self._num_examples)
            self._sharpness = Sharpness(self._process.engine, examples)
        return self._sharpness

    def _clients(self, state: State, test_classes: Callable[[], np.ndarray]) -> dict[str, Any]:
        engine, dataset = self._process.engine, self._process.dataset
        losses, classes = engine.predict(state.server, dataset.train)
        right = (classes == dataset.train.y).astype(np.float64)
        used = dataset.partition.indices
        found = {
            "global_train_loss": float(losses[used].mean()),
            "global_train_accuracy": float(right[used].mean()),
            **fairness.report(
                "client_train_accuracy", fairness.client_means(right, dataset.partition)
            ),
        }
        if self._validation is not None and dataset.test is not None:
            right = (test_classes() == dataset.test.y).astype(np.float64)
            each = fairness.client_means(right, self._validation)
            found |= fairness.report("client_validation_accuracy", each)
        return found

    def _confusion(self, test_classes: Callable[[], np.ndarray]) -> dict[str, Any]:
        dataset = self._process.dataset
        if dataset.test is None or dataset.num_classes > MAX_CONFUSION_CLASSES:
            return {}
        matrix = fairness.confusion(dataset.test.y, test_classes(), dataset.num_classes)
        return {"confusion": matrix.tolist()}

    def _divergence(self, state: State) -> dict[str, Any]:
        initial = self._initial or [v.numpy() for v in self._process.network.trainable_variables]
        return {"divergence": divergence(state, initial, self._process.dataset.num_clients)}


def divergence(state: State, initial: list[np.ndarray], num_clients: int) -> float:
    """Mean over all clients of the squared distance of their last local model to the global one.

    Args:
        state: of a process that keeps local models.
        initial: the model of the clients that never took part.
        num_clients: clients there are.
    """
    flat = lambda arrays: np.concatenate([np.ravel(a) for a in arrays])  # noqa: E731
    weights = flat([w.numpy() for w in state.server["weights"]])
    square = lambda model: float(np.square(model - weights, dtype=np.float64).sum())  # noqa: E731
    seen = state.clients.positions
    total = sum(square(state.clients.row(position)[LOCAL_MODEL]) for position in seen)
    return (total + (num_clients - len(seen)) * square(flat(initial))) / num_clients


def probe_examples(process: LearningProcess, count: int) -> Examples:
    """A fixed set of the clients' training examples, drawn once for the seed."""
    available = np.unique(process.dataset.partition.indices)
    draw = rng.generator(process.seed, "analysis.examples")
    chosen = np.sort(draw.choice(available, min(count, len(available)), replace=False))
    train = process.dataset.train
    return Examples(np.asarray(train.x[chosen]), train.y[chosen])
