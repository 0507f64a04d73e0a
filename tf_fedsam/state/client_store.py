"""What clients keep between rounds: control variates, duals, last models.

A row is made when a client first reports, so a client that never took part costs nothing. It is in
memory until somebody who has it on a disk says so (``release``).
"""

import contextlib
import itertools
import threading
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from tf_fedsam.errors import CheckpointError

_stamps = itertools.count()


class Source(Protocol):
    """Where rows can be read."""

    def read(self, position: int) -> np.ndarray:
        """A client's vectors, one after another in the names' order."""


class _Row:
    """What a client keeps; all stores that hold it share it, also while it goes to the disk.

    Attributes:
        vectors: by name, if they are in memory.
        source: where they are else. It is set before the vectors are given up, so that another
            thread finds one or the other.
    """

    __slots__ = ("source", "vectors")

    def __init__(self, vectors: dict[str, np.ndarray] | None, source: Source | None = None):
        self.vectors = vectors
        self.source = source


class _Ahead:
    """Reads rows in a thread of its own, before they are asked for.

    Args:
        rows: by client; each has a source.
    """

    def __init__(self, rows: dict[int, _Row]):
        self._rows = rows
        self._read: dict[int, np.ndarray] = {}
        self._thread = threading.Thread(target=self._read_all, name="client rows", daemon=True)
        self._thread.start()

    def _read_all(self) -> None:
        for position, row in list(self._rows.items()):
            # Who asks for a row that could not be read tries again, and is told.
            with contextlib.suppress(CheckpointError, OSError):
                if row.source is not None:
                    self._read[position] = row.source.read(position)

    def take(self, position: int, row: _Row) -> np.ndarray | None:
        """The numbers of a row, if it was read; they are given once."""
        self._thread.join()
        read = self._read.pop(position, None)
        return read if self._rows.pop(position, None) is row else None


class ClientStore:
    """Flat float32 vectors by client and name.

    Args:
        lengths: for every name the length of its vector; empty for methods without client state.

    Attributes:
        origin: what whoever read the rows from a disk wants to be known when they are written
            again; copies have it, too.
    """

    def __init__(self, lengths: Mapping[str, int]):
        self.lengths = dict(lengths)
        self.origin: object = None
        self._rows: dict[int, _Row] = {}
        self._stamps: dict[int, int] = {}
        self._ahead: _Ahead | None = None

    def prefetch(self, positions: np.ndarray) -> None:
        """Begins to read the clients' vectors that are not in memory, for a later ``gather``."""
        found = {int(p): self._rows[int(p)] for p in positions if int(p) in self._rows}
        away = {position: row for position, row in found.items() if row.vectors is None}
        self._ahead = _Ahead(away) if away else None

    def gather(self, positions: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The clients' vectors as one matrix a name, and which clients have any."""
        seen = np.asarray([int(p) in self._rows for p in positions], bool)
        matrices = {
            name: np.zeros((len(positions), length), np.float32)
            for name, length in self.lengths.items()
        }
        for entry in np.flatnonzero(seen):
            for name, vector in self.row(int(positions[entry])).items():
                matrices[name][entry] = vector
        return matrices, seen

    def scatter(
        self, positions: np.ndarray, matrices: Mapping[str, np.ndarray], mask: np.ndarray
    ) -> None:
        """Keeps the new rows of the clients that the mask names."""
        if not self.lengths:
            return
        for entry in np.flatnonzero(mask):
            vectors = {name: matrix[entry].copy() for name, matrix in matrices.items()}
            self._keep(int(positions[entry]), _Row(vectors))

    def restore(self, position: int, row: np.ndarray) -> None:
        """Keeps a client's vectors, one after another in the names' order, without a copy."""
        self._keep(position, _Row(self._cut(row)))

    def refer(self, position: int, source: Source) -> None:
        """Keeps where a client's vectors can be read."""
        self._keep(position, _Row(None, source))

    def release(self, position: int, source: Source) -> None:
        """Frees the memory of a client's row that can be read elsewhere; copies do so, too."""
        row = self._rows[position]
        row.source = source
        row.vectors = None

    def _keep(self, position: int, row: _Row) -> None:
        self._rows[position] = row
        self._stamps[position] = next(_stamps)

    def _cut(self, row: np.ndarray) -> dict[str, np.ndarray]:
        """The vectors of a row, by name."""
        ends = itertools.accumulate(self.lengths.values())
        return {
            name: row[end - length : end]
            for (name, length), end in zip(self.lengths.items(), ends, strict=True)
        }

    def copy(self) -> "ClientStore":
        """An independent store; rows are never changed in place and are shared."""
        other = ClientStore(self.lengths)
        other._rows = dict(self._rows)
        other._stamps = dict(self._stamps)
        other.origin = self.origin
        return other

    def row(self, position: int) -> Mapping[str, np.ndarray]:
        """The vectors of one client that has any, by name; not to be written to."""
        row = self._rows[position]
        vectors = row.vectors
        if vectors is None and row.source is not None:
            read = None if self._ahead is None else self._ahead.take(position, row)
            vectors = self._cut(row.source.read(position) if read is None else read)
        assert vectors is not None
        return vectors

    @property
    def stamps(self) -> Mapping[int, int]:
        """For each client with a row a number of that row alone.

        Two stores of this process, copies of each other or not, hold the same row of a client if
        they hold the same number, and only then.
        """
        return self._stamps

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def positions(self) -> list[int]:
        return sorted(self._rows)

    @property
    def num_bytes(self) -> int:
        return 4 * len(self._rows) * sum(self.lengths.values())

    @property
    def bytes_in_memory(self) -> int:
        """What of it is in memory."""
        held = sum(row.vectors is not None for row in self._rows.values())
        return 4 * held * sum(self.lengths.values())
