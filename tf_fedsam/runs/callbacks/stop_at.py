"""Stops a run once its test accuracy is high enough."""

from collections.abc import Mapping
from typing import Any

from tf_fedsam.runs.callbacks.base import Callback


class StopAt(Callback):
    """Ends training with the first tested round that reaches a test accuracy.

    Args:
        accuracy: in (0, 1].
    """

    def __init__(self, accuracy: float):
        self.accuracy = accuracy

    def on_run_begin(self):
        if self.training.records:
            self._look(self.training.records[-1])

    def on_round_end(self, round, record, state):
        self._look(record)

    def _look(self, record: Mapping[str, Any]) -> None:
        reached = record.get("test_accuracy")
        if reached is not None and reached >= self.accuracy:
            self.training.stop(
                f"test accuracy {reached:.2%} in round {record['round']}, at least "
                f"{self.accuracy:.2%} was asked for"
            )
