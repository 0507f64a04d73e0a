"""What is measured of the global model now and then, because it costs more than a round's log.

    clients      accuracy on each client's training examples, and on test examples in its mix of
                 classes; global training accuracy
    confusion    test examples by true and predicted class
    sharpness    how much the loss rises a small step uphill
    eigenvalue   the largest eigenvalue of the Hessian
    divergence   mean squared distance of all clients' last local models to the global one (FedInit)
    hessian      the largest eigenvalues of the Hessian, and its trace
    m_sharpness  the mean sharpness of single batches
    flatness     sharpness of some clients' local models and of the global one, on their own
                 examples and on those of all
    personal     test accuracy of some clients before and after fine-tuning

A probe reads the state and changes nothing: the rounds after it are the same bit for bit.
"""

import functools
import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from tf_fedsam.analysis import fairness, samples
from tf_fedsam.analysis.local_flatness import LocalFlatness
from tf_fedsam.analysis.personal import Personalisation
from tf_fedsam.analysis.probe_list import DEFAULT, NAMES
from tf_fedsam.analysis.samples import probe_examples, shuffled
from tf_fedsam.analysis.sharpness import Sharpness
from tf_fedsam.data.partition import Partition
from tf_fedsam.engine import LOCAL_MODEL
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.process import LearningProcess, State

MAX_CONFUSION_CLASSES = 100


class Probes:
    """Some measurements of the global model, each compiled once.

    Args:
        process: the learning process.
        names: which, of ``NAMES``.
        validation: cuts the test examples into clients; ``None`` leaves that accuracy out.
        shards: cuts the test examples into the training clients, for "personal".
        num_examples: training examples that everything about the loss is measured on.
        num_clients: clients that "flatness" and "personal" look at, if there are more.
        accuracy_clients: clients whose training examples "clients" looks at, if there are more.
        rho: length of the step uphill.
        m: examples of a batch of m-sharpness; those of a local step by default.
        num_eigenvalues: how many eigenvalues "hessian" finds.
        num_trace_vectors: random vectors that it estimates the trace with.
        personal_epochs: epochs of fine-tuning.
        initial: weights that training began with, the model of a client that never took part.
    """

    def __init__(
        self,
        process: LearningProcess,
        names: Collection[str] = DEFAULT,
        *,
        validation: Partition | None = None,
        shards: Partition | None = None,
        num_examples: int = 2000,
        num_clients: int = 5,
        accuracy_clients: int = 10_000,
        rho: float = 0.1,
        m: int | None = None,
        num_eigenvalues: int = 5,
        num_trace_vectors: int = 10,
        personal_epochs: int = 1,
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
        if "personal" in names and shards is None:
            raise InputError(
                "The probe 'personal' needs test examples for each client. Received: shards=None. "
                "Pass validation.same(...)."
            )
        self.names = tuple(name for name in NAMES if name in names)
        self._process = process
        self._validation = validation
        self._shards = shards
        self._rho = rho
        self._initial = initial
        self._num_examples = num_examples
        self._num_clients = num_clients
        self._accuracy_clients = accuracy_clients
        self._m = process.options.batch_size if m is None else m
        self._num_eigenvalues = num_eigenvalues
        self._num_trace_vectors = num_trace_vectors
        self._personal_epochs = personal_epochs

    def __call__(self, state: State) -> dict[str, Any]:
        """The values, by the names of a run's log."""
        engine, dataset = self._process.engine, self._process.dataset
        reported = self._process.reported(state)

        @functools.cache
        def test_classes() -> np.ndarray:
            assert dataset.test is not None
            return engine.predict(reported.server, dataset.test)[1]

        @functools.cache
        def loss_and_sharpness() -> tuple[float, float]:
            return self._sharpness.loss_and_sharpness(reported.server, self._rho)

        measure: dict[str, Callable[[State], dict[str, Any]]] = {
            "clients": lambda s: self._clients(s, test_classes),
            "confusion": lambda s: self._confusion(test_classes),
            "sharpness": lambda s: {"sharpness": loss_and_sharpness()[1]},
            "eigenvalue": self._eigenvalue,
            "divergence": lambda _: self._divergence(state),  # from what clients start from
            "hessian": self._hessian,
            "m_sharpness": self._m_sharpness,
            "flatness": lambda s: self._flatness(state, loss_and_sharpness(), s.server),
            "personal": lambda s: self._personal(s),  # made if it is asked for
        }
        began = time.perf_counter()
        found: dict[str, Any] = {}
        for name in self.names:
            found |= measure[name](reported)
        return {**found, "probe_seconds": time.perf_counter() - began}

    # Made when they are first needed: their examples may have to be read from files.

    @functools.cached_property
    def _sharpness(self) -> Sharpness:
        examples = probe_examples(self._process, self._num_examples)
        return Sharpness(self._process.engine, examples)

    @functools.cached_property
    def _sharpness_in_batches(self) -> Sharpness:
        return self._sharpness.on(shuffled(self._process, self._sharpness.examples))

    @functools.cached_property
    def _flatness(self) -> LocalFlatness:
        return LocalFlatness(
            self._process,
            self._sharpness,
            num_clients=self._num_clients,
            num_examples=self._num_examples,
            rho=self._rho,
        )

    @functools.cached_property
    def _personal(self) -> Personalisation:
        assert self._shards is not None
        return Personalisation(
            self._process,
            self._shards,
            num_clients=self._num_clients,
            num_epochs=self._personal_epochs,
        )

    def _eigenvalue(self, state: State) -> dict[str, Any]:
        if "hessian" in self.names:  # which finds it, too
            return {}
        return {"hessian_eigenvalue": self._sharpness.hessian_eigenvalue(state.server)}

    def _hessian(self, state: State) -> dict[str, Any]:
        found = self._sharpness.hessian_eigenvalues(state.server, self._num_eigenvalues)
        trace = self._sharpness.hessian_trace(state.server, self._num_trace_vectors)
        values = enumerate(found.values.tolist(), start=1)
        return {
            **{f"hessian_eigenvalue{'' if i == 1 else f'_{i}'}": value for i, value in values},
            "hessian_eigenvalue_error": found.residual,
            "hessian_products": found.num_products,
            "hessian_trace": trace.value,
            "hessian_trace_error": trace.standard_error,
        }

    def _m_sharpness(self, state: State) -> dict[str, Any]:
        measured = self._sharpness_in_batches
        return {"m_sharpness": measured.m_sharpness(state.server, self._m, self._rho)}

    def _clients(self, state: State, test_classes: Callable[[], np.ndarray]) -> dict[str, Any]:
        engine, dataset = self._process.engine, self._process.dataset
        train, split = samples.of_clients(self._process, self._accuracy_clients)
        losses, classes = engine.predict(state.server, train)
        right = (classes == train.y).astype(np.float64)
        used = split.indices
        found = {
            "global_train_loss": float(losses[used].mean()),
            "global_train_accuracy": float(right[used].mean()),
            **fairness.report("client_train_accuracy", fairness.client_means(right, split)),
        }
        if split.num_clients < dataset.num_clients:
            found["client_train_accuracy_clients"] = split.num_clients
        if self._validation is not None and dataset.test is not None:
            right = (test_classes() == dataset.test.y).astype(np.float64)
            each = fairness.client_means(right, self._validation)
            found |= fairness.report("client_test_accuracy", each)
        return found

    def _confusion(self, test_classes: Callable[[], np.ndarray]) -> dict[str, Any]:
        dataset = self._process.dataset
        if dataset.test is None or dataset.num_classes > MAX_CONFUSION_CLASSES:
            return {}
        matrix = fairness.confusion(dataset.test.y, test_classes(), dataset.num_classes)
        return {"confusion": matrix.tolist()}

    def _divergence(self, state: State) -> dict[str, Any]:
        process = self._process
        if self._initial is None:
            self._initial = [v.numpy() for v in process.network.trainable_variables]
        return {"divergence": divergence(state, self._initial, process.dataset.num_clients)}


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
