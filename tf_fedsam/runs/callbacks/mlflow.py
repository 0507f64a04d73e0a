"""Sends a run's numbers to MLflow, if its package is installed."""

from typing import Any

from tf_fedsam.runs.callbacks import trackers
from tf_fedsam.runs.callbacks.base import Callback


class MLflow(Callback):
    """A run of MLflow with the numbers of every round and the settings as parameters.

    The rounds of a run that goes on are sent again from its log, so that there is no gap.

    Args:
        experiment: of MLflow.
        **options: for ``mlflow.start_run``.
    """

    def __init__(self, experiment: str = "tf_fedsam", **options: Any):
        self._mlflow = trackers.load("mlflow", "MLflow")
        self._experiment, self._options = experiment, options

    def on_run_begin(self):
        self._mlflow.set_experiment(self._experiment)
        self._mlflow.start_run(**{"run_name": self.training.folder.path.name, **self._options})
        self._mlflow.log_params(trackers.flat(self.training.config.as_dict()))
        for record in self.training.records:
            self._mlflow.log_metrics(trackers.numbers(record), step=record["round"])

    def on_round_end(self, round, record, state):
        self._mlflow.log_metrics(trackers.numbers(record), step=round)

    def on_run_end(self):
        self._mlflow.end_run()
