"""A run under way that trains nothing: what a callback sees of it."""

import types

from tf_fedsam.runs.folder import RunFolder


class UnderWay:
    """Stands in for ``Training``.

    Args:
        folder: of the run.
        records: of rounds that were before.
        **config: settings that the callback asks for.

    Attributes:
        told: what the user was told.
        stopped: why a callback ended the run, or ``""``.
        hopeless: the error that ended it, or ``None``.
    """

    def __init__(self, folder, records=(), **config):
        self.folder = RunFolder(folder)
        self.records = list(records)
        self.saved_round = len(self.records)
        settings = {"rounds": 9, "checkpoint_every": 1, "keep_checkpoints": 2, **config}
        self.config = types.SimpleNamespace(**settings, as_dict=lambda: settings)
        dataset = types.SimpleNamespace(num_classes=10, test=range(1000))
        self.experiment = types.SimpleNamespace(dataset=dataset)
        self.told, self.stopped, self.hopeless = [], "", None
        self.on_disk = False

    def say(self, message, *settings):
        self.told.append(message)

    def stop(self, reason):
        self.stopped = self.stopped or reason

    def give_up(self, error):
        self.hopeless = error


def drive(callback, training, records, states=None):
    """Calls a callback as the loop does: begin, every round, end."""
    callback.set_training(training)
    callback.on_run_begin()
    for number, record in enumerate(records):
        callback.on_round_begin(record["round"])
        training.records.append(record)
        callback.on_round_end(record["round"], record, states[number] if states else None)
    callback.on_run_end()


def a_record(round_num, **numbers):
    """A round as the log has it, with a few of its numbers."""
    common = {"round": round_num, "client_ids": [0, 2], "num_steps": [1, 2], "train_loss": 0.5}
    common |= {"failed_client_ids": [], "skipped": False, "seconds": 0.25}
    return common | numbers
