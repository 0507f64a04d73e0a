"""Stops a run that no longer gets better on held-out training examples."""

from collections.abc import Mapping
from typing import Any

from tf_fedsam.runs.callbacks.base import Callback


class Patience(Callback):
    """Ends training after so many tests in a row without a new best held-out accuracy.

    Rounds that are not tested do not count. What it knows it reads from the log, so that a run
    that was killed stops where it would have stopped.

    Args:
        tests: how many.
    """

    def __init__(self, tests: int):
        self.tests = tests

    def on_run_begin(self):
        self._best, self._best_round, self._without = -1.0, 0, 0
        for record in self.training.records:
            self._see(record)
        if self.training.records:
            self._decide()

    def on_round_end(self, round, record, state):
        self._see(record)
        self._decide()

    def _see(self, record: Mapping[str, Any]) -> None:
        if "validation_accuracy" not in record:
            return
        accuracy = record["validation_accuracy"]
        if accuracy is not None and accuracy > self._best:
            self._best, self._best_round, self._without = accuracy, record["round"], 0
        else:
            self._without += 1

    def _decide(self) -> None:
        if self._without >= self.tests:
            best = f"{self._best:.2%} in round {self._best_round}" if self._best_round else "none"
            self.training.stop(
                f"no better accuracy on held-out examples in {self.tests} tests; the best was "
                f"{best}"
            )
