"""Looks at each round for what a user must know: clients that failed, a model that diverges."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.errors import TellableError
from tf_fedsam.runs.callbacks.base import Callback

ADVICE = "Lower lr, set clip_norm (10 is usual), or look for extreme values in the data."
SETTINGS = ("lr", "clip_norm")  # that the advice names
SHOWN_CLIENTS = 10
LOSS_FACTOR = 10


class HopelessError(TellableError, RuntimeError):
    """Training has come to nothing; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Chance:
    """What a model that knows nothing comes to.

    Attributes:
        num_classes: equally likely ones.
        num_test: test examples.
    """

    num_classes: int
    num_test: int

    @classmethod
    def of(cls, dataset: FederatedDataset) -> "Chance":
        return cls(dataset.num_classes, 0 if dataset.test is None else len(dataset.test))

    @property
    def loss(self) -> float:
        """Cross-entropy of equal shares, about that of an untrained model."""
        return math.log(max(self.num_classes, 2))

    @property
    def lowest_accuracy(self) -> float:
        """What guessing comes to at the least: its mean less four standard deviations."""
        share = 1 / self.num_classes
        return share - 4 * math.sqrt(share * (1 - share) / max(self.num_test, 1))

    def worse(self, record: Mapping[str, Any]) -> str:
        """In what a round is worse than that, or ``""``."""
        for name, words in (("test_loss", "test loss"), ("train_loss", "training loss")):
            loss = record.get(name)
            if loss is not None and loss > LOSS_FACTOR * self.loss:
                return (
                    f"the {words} is {loss:.4g}, more than {LOSS_FACTOR} times that of equal "
                    f"shares of {self.num_classes} classes ({self.loss:.3g})"
                )
        accuracy = record.get("test_accuracy")
        if accuracy is not None and accuracy < self.lowest_accuracy:
            share = 1 / self.num_classes
            return f"the test accuracy is {accuracy:.2%}, below that of guessing ({share:.2%})"
        return ""


class Watch(Callback):
    """Tells what is wrong with a round, and ends a run in which nobody reports any more.

    Attributes:
        failed_rounds: rounds in a row, up to now, in which nobody reported.
    """

    failed_rounds = 0
    _diverged = False
    _worse_than_nothing = False
    _chance = Chance(num_classes=2, num_test=0)

    def on_run_begin(self):
        self._chance = Chance.of(self.training.experiment.dataset)
        for record in self.training.records:
            self.see(record)
        self._look_for_hope()

    def on_round_end(self, round, record, state):
        for note in self.see(record):
            self.training.say(note, *SETTINGS)
        self._look_for_hope()

    def _look_for_hope(self) -> None:
        if self.failed_rounds >= self.training.config.max_failed_rounds:
            self.training.give_up(
                HopelessError(
                    f"Nobody reported in the last {self.failed_rounds} rounds, so training stops "
                    f"after round {len(self.training.records)}; the checkpoint is saved. {ADVICE} "
                    f"Such a change needs another output_dir; to go on all the same, raise "
                    f"max_failed_rounds.",
                    *("lr", "clip_norm", "output_dir", "max_failed_rounds"),
                )
            )

    def see(self, record: Mapping[str, Any]) -> list[str]:
        """Takes a round in; gives what to tell the user."""
        told, where = [], f"Round {record['round']}:"
        failed = record["failed_client_ids"]
        if failed:
            told.append(
                f"{where} not finite, so left out: the update{'s' if len(failed) > 1 else ''} of "
                f"{_clients(failed)}."
            )
        # A private round in which all fail is not skipped: its noise is released.
        nobody = record["skipped"] or (failed and record.get("num_reported") == 0)
        self.failed_rounds = self.failed_rounds + 1 if nobody else 0
        if record["skipped"]:
            told.append(f"{where} nobody reported. It is skipped, the model stays as it was.")
        what = [
            words
            for name, words in (("test_loss", "test loss"), ("update_norm", "last move"))
            if name in record and record[name] is None
        ]
        if what and not self._diverged:
            told.append(
                f"{where} the global model has diverged, its {' and '.join(what)} is not finite. "
                f"{ADVICE}"
            )
        if what or "test_loss" in record:
            self._diverged = bool(what)
        worse = "" if self._worse_than_nothing or what else self._chance.worse(record)
        if worse:
            self._worse_than_nothing = True
            told.append(f"{where} {worse}. An untrained model would do better. {ADVICE}")
        return told


def _clients(ids: Sequence[Any]) -> str:
    shown = ", ".join(str(i) for i in ids[:SHOWN_CLIENTS])
    more = f" and {len(ids) - SHOWN_CLIENTS} more" if len(ids) > SHOWN_CLIENTS else ""
    return f"client{'s' if len(ids) > 1 else ''} {shown}{more}"
