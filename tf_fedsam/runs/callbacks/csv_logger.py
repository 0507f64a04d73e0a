"""The log of a run as a table."""

import csv
import io
import pathlib
from collections.abc import Mapping
from typing import Any

from tf_fedsam import paths
from tf_fedsam.runs.callbacks.base import Callback
from tf_fedsam.state.files import write_atomically


class CSVLogger(Callback):
    """Keeps a CSV file with a row a round and a column for each number of the log.

    A run that goes on writes the rows of its earlier rounds, too. Columns that come later, such as
    those of probes, are added for all rows.

    Args:
        path: of the file; by default ``rounds.csv`` in the run's folder.
    """

    def __init__(self, path: str | pathlib.Path | None = None):
        self._given = path

    def on_run_begin(self):
        default = self.training.folder.path / "rounds.csv"
        self._path = paths.expanded(self._given or default)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._rows = [_numbers(record) for record in self.training.records]
        self._write()

    def on_round_end(self, round, record, state):
        row, before = _numbers(record), len(self._columns)
        self._rows.append(row)
        self._columns |= dict.fromkeys(row)
        if len(self._columns) > before:
            self._write()
            return
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, list(self._columns)).writerow(row)

    def _write(self) -> None:
        self._columns = dict.fromkeys(name for row in self._rows for name in row)
        text = io.StringIO()
        table = csv.DictWriter(text, list(self._columns), restval="")
        table.writeheader()
        table.writerows(self._rows)
        write_atomically(self._path, text.getvalue().encode())


def _numbers(record: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v for n, v in record.items() if v is None or isinstance(v, (bool, int, float, str))}
