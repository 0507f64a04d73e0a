"""Sends a run's numbers to Weights & Biases, if its package is installed."""

from typing import Any

from tf_fedsam.runs.callbacks import trackers
from tf_fedsam.runs.callbacks.base import Callback


class WandB(Callback):
    """A run of W&B with the numbers of every round and the settings.

    The rounds of a run that goes on are sent again from its log, so that there is no gap.

    Args:
        project: of W&B.
        **options: for ``wandb.init``, such as ``mode="offline"``.
    """

    def __init__(self, project: str = "tf_fedsam", **options: Any):
        self._wandb = trackers.load("wandb", "WandB")
        self._options = {"project": project, **options}

    def on_run_begin(self):
        folder = self.training.folder.path
        settings = trackers.flat(self.training.config.as_dict())
        options = {"name": folder.name, "config": settings, **self._options}
        self._run = self._wandb.init(**options)
        for record in self.training.records:
            self._run.log(trackers.numbers(record), step=record["round"])

    def on_round_end(self, round, record, state):
        self._run.log(trackers.numbers(record), step=round)

    def on_run_end(self):
        self._run.finish()
