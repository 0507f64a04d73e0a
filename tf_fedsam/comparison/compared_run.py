"""A run that was read and found whole."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tf_fedsam.analysis import results
from tf_fedsam.comparison.values import key, number
from tf_fedsam.errors import InputError
from tf_fedsam.runs.config import with_defaults

HELD_OUT = ("validation_loss", "validation_accuracy")


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A run that can be compared; make it with :func:`checked`.

    Attributes:
        name: where it was found.
        config: its ``config.json``.
        records: its rounds, up to the last tested one if it is not complete.
        complete: whether it came to its end.
        stopped: why that was before the last of the rounds it was to have; else ``""``.
    """

    name: str
    config: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    complete: bool = True
    stopped: str = ""

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.config["settings"]

    @property
    def seed(self) -> int:
        return self.settings["seed"]

    @property
    def algo(self) -> str:
        return self.settings["algo"]

    @property
    def fingerprints(self) -> tuple[str, str]:
        """Of the data and of the split."""
        inputs = self.config.get("inputs", {})
        return key(inputs.get("data")), key(inputs.get("split"))

    @functools.cached_property
    def results(self) -> dict[str, Any]:
        return results.summarise(self.records)

    @functools.cached_property
    def last_probe(self) -> dict[str, Any]:
        """The newest value of everything that is measured now and then."""
        found: dict[str, Any] = {}
        for record in self.records:
            found |= {name: value for name, value in record.items() if value is not None}
        return found


def checked(
    name: str,
    config: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    complete: bool,
    stopped: str = "",
) -> ComparedRun:
    """A run whose files were read, if they make sense; settings it is too old for are filled in.

    Raises:
        InputError: with the reason why not.
    """
    settings = with_defaults(config["settings"])
    for setting, kind in {"algo": str, "dataset": str, "seed": int, "rounds": int}.items():
        if not isinstance(settings.get(setting), kind):
            raise InputError(f"its config.json has no setting {setting}")
    for setting in ("hparams", "model_options"):
        if not isinstance(settings.get(setting, {}), dict):
            raise InputError(f"its config.json has a wrong setting {setting}")
    for record in records:
        _check(record)
    tested = [i for i, r in enumerate(records) if r.get("test_accuracy") is not None]
    if not tested:
        raise InputError(f"it has no tested round yet ({len(records)} rounds in its log)")
    kept = records if complete else records[: tested[-1] + 1]
    return ComparedRun(name, {**config, "settings": settings}, kept, complete, stopped)


def _check(record: Mapping[str, Any]) -> None:
    """Refuses a round without the numbers that results are made of."""
    where = f"round {record['round']} of its log"
    for name in (*results.COSTS, "eval_seconds"):
        cost = number(record.get(name, 0))
        if cost is None or cost < 0:
            raise InputError(f"{where} has {name} = {record.get(name)!r:.40}")
    for name in ("train_loss", "test_loss", "test_accuracy", *HELD_OUT):
        value = record.get(name)
        if value is not None and number(value) is None:
            raise InputError(f"{where} has {name} = {value!r:.40}")
    accuracy = record.get("test_accuracy")
    if accuracy is not None and (not 0 <= accuracy <= 1 or "test_loss" not in record):
        raise InputError(f"{where} has no test accuracy in [0, 1] with a loss")
    held_out = record.get("validation_accuracy")
    if held_out is not None and not 0 <= held_out <= 1:
        raise InputError(f"{where} has no validation accuracy in [0, 1]")
    ok = isinstance(record.get("failed_client_ids"), list) and "train_loss" in record
    if not ok or not isinstance(record.get("skipped"), (bool, int)):
        raise InputError(f"{where} has no train_loss, failed_client_ids or skipped")
