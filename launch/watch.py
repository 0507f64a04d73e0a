"""Looks at each round for what a user must know: clients that failed, a model that diverges."""

from collections.abc import Mapping, Sequence
from typing import Any

ADVICE = "Lower --lr, set --clip_norm (10 is usual), or look for extreme values in the data."
SHOWN_CLIENTS = 10


class Watch:
    """Follows the records of a run.

    Args:
        max_failed_rounds: so many rounds in a row in which nobody reported are the end.
        records: the rounds there are already.

    Attributes:
        failed_rounds: rounds in a row, up to now, in which nobody reported.
    """

    def __init__(self, max_failed_rounds: int, records: Sequence[Mapping[str, Any]]):
        self._max_failed_rounds = max_failed_rounds
        self.failed_rounds = 0
        self._diverged = False
        for record in records:
            self.see(record)

    @property
    def hopeless(self) -> bool:
        return self.failed_rounds >= self._max_failed_rounds

    def see(self, record: Mapping[str, Any]) -> list[str]:
        """Takes a round in; gives what to tell the user."""
        told, where = [], f"Round {record['round']}:"
        failed = record["failed_client_ids"]
        if failed:
            told.append(
                f"{where} not finite, so left out: the update{'s' if len(failed) > 1 else ''} of "
                f"{_clients(failed)}."
            )
        self.failed_rounds = self.failed_rounds + 1 if record["skipped"] else 0
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
        return told


def _clients(ids: Sequence[Any]) -> str:
    shown = ", ".join(str(i) for i in ids[:SHOWN_CLIENTS])
    more = f" and {len(ids) - SHOWN_CLIENTS} more" if len(ids) > SHOWN_CLIENTS else ""
    return f"client{'s' if len(ids) > 1 else ''} {shown}{more}"
