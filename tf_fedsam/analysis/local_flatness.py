"""Local against global flatness: is what is flat for a client flat for all?

Some clients, always the same, train for a round of the run's own method from the present state,
with batches, learning rate and radius of the round just done (after the last one of a schedule
there is no other); the run does not notice. Then four sharpnesses are compared, those of the local
models w_i and of the global model w, each on the client's own examples D_i and on examples D of all
clients:

    sharpness_local_on_own      mean over clients of S(w_i; D_i)
    sharpness_local_on_all      mean over clients of S(w_i; D)
    sharpness_global_on_own     mean over clients of S(w; D_i)
    sharpness_global_on_all     S(w; D), the probe "sharpness"

S is ``Sharpness.sharpness``. A local model is used with the BatchNorm statistics its client ended
with. "Flat locally, sharp globally" is a small first and a large second or fourth number.
"""

from typing import Any

import numpy as np

from tf_fedsam.algorithms.base import Vectors
from tf_fedsam.analysis import samples
from tf_fedsam.analysis.sharpness import Sharpness
from tf_fedsam.process import LearningProcess, State

MOST_EACH = 100  # clients whose own values are told, so that a line of the log stays short
MEASURED = ("local_on_own", "local_on_all", "global_on_own")


class LocalFlatness:
    """The probe, for some clients.

    Args:
        process: the learning process.
        sharpness: on the examples of all clients.
        num_clients: how many clients are looked at.
        num_examples: at most so many of a client's own examples.
        rho: length of the step uphill.
    """

    def __init__(
        self,
        process: LearningProcess,
        sharpness: Sharpness,
        *,
        num_clients: int,
        num_examples: int,
        rho: float,
    ):
        self._process = process
        self._on_all = sharpness
        self._rho = rho
        self._on_own = {
            position: sharpness.on(samples.client_examples(process, position, num_examples))
            for position in samples.sampled_clients(process, num_clients)
        }

    def __call__(
        self,
        state: State,
        global_on_all: tuple[float, float],
        global_model: Vectors | None = None,
    ) -> dict[str, Any]:
        """The values by the names of a run's log.

        Args:
            state: the state; it is left alone.
            global_on_all: loss and sharpness of the global model on the examples of all clients.
            global_model: the one that counts, if it is not that of the state.
        """
        global_model = state.server if global_model is None else global_model
        measured: list[list[tuple[float, float]]] = []
        positions = []
        done = max(state.round_num - 1, 0)
        models = samples.rehearsed(self._process, state, list(self._on_own), round_num=done)
        for position, model in models:
            positions.append(position)
            measured.append(self._of_client(position, model, global_model))
        found: dict[str, Any] = {"sharpness_clients": len(positions)}
        table = np.reshape(measured, (len(positions), len(MEASURED), 2))
        for number, name in enumerate(MEASURED):
            losses, rises = table[:, number].T
            found |= {f"sharpness_{name}": _mean(rises), f"loss_{name}": _mean(losses)}
            found[f"sharpness_{name}_each"] = _plain(rises[:MOST_EACH])
        names = self._process.dataset.client_ids
        return {
            **found,
            "sharpness_global_on_all": global_on_all[1],
            "loss_global_on_all": global_on_all[0],
            "sharpness_client_ids": [names[p] for p in positions[:MOST_EACH]],
        }

    def _of_client(
        self, position: int, model: Vectors, global_model: Vectors
    ) -> list[tuple[float, float]]:
        """Loss and sharpness in the order of ``MEASURED``."""
        own = self._on_own[position]
        return [
            own.loss_and_sharpness(model, self._rho),
            self._on_all.loss_and_sharpness(model, self._rho),
            own.loss_and_sharpness(global_model, self._rho),
        ]


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _plain(values: np.ndarray) -> list[float | None]:
    """For JSON, which has no NaN."""
    return [float(v) if np.isfinite(v) else None for v in values]
