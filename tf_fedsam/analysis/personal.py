"""Personalised accuracy: how good is the global model as a start for each client?

Some clients, always the same, fine-tune the global model on their own training examples by plain
local SGD, with the batch size, the first learning rate, weight decay and clipping of the run, which
does not notice. Each is tested before and after on its part of the test examples, which has its mix
of classes (``tf_fedsam.data.validation``). Fine-tuning begins with the server's BatchNorm
statistics.
"""

from typing import Any

import numpy as np

from tf_fedsam.algorithms.base import Vectors
from tf_fedsam.analysis import fairness, samples
from tf_fedsam.data.federated_dataset import Examples
from tf_fedsam.data.partition import Partition
from tf_fedsam.errors import InputError
from tf_fedsam.process import LearningProcess, State


class Personalisation:
    """The probe, for some clients.

    Args:
        process: the learning process.
        shards: the test examples cut into the training clients, in their order.
        num_clients: how many clients are looked at.
        num_epochs: passes over a client's training examples.
    """

    def __init__(
        self, process: LearningProcess, shards: Partition, *, num_clients: int, num_epochs: int
    ):
        test = process.dataset.test
        if test is None or shards.num_clients != process.dataset.num_clients:
            raise InputError(
                f"The probe 'personal' needs test examples for each of the "
                f"{process.dataset.num_clients} clients. Received: "
                f"{'none' if test is None else f'those of {shards.num_clients} clients'}. Pass "
                f"validation.same(...)."
            )
        self._process = process
        self._num_epochs = num_epochs
        chosen = samples.sampled_clients(process, num_clients, among=shards.sizes() > 0)
        self._tests = {}
        for position in chosen:
            own = np.sort(shards.client(position))
            self._tests[position] = Examples(np.asarray(test.x[own]), test.y[own])

    def __call__(self, state: State) -> dict[str, Any]:
        """The values by the names of a run's log; the state is left alone."""
        before, after, epochs = [], [], self._num_epochs
        tuned = samples.rehearsed(self._process, state, list(self._tests), plain_epochs=epochs)
        for position, model in tuned:
            before.append(self._accuracy(state.server, position))
            after.append(self._accuracy(model, position))
        found: dict[str, Any] = {"personal_clients": len(after)}
        if not after:
            return found
        return {
            **found,
            **fairness.report("personal_accuracy_before", np.asarray(before)),
            **fairness.report("personal_accuracy_after", np.asarray(after)),
            "personal_accuracy_gain": float(np.mean(after) - np.mean(before)),
        }

    def _accuracy(self, model: Vectors, position: int) -> float:
        return self._process.engine.evaluate(model, self._tests[position])["accuracy"]
