"""What clients keep between rounds: control variates, duals, last models.

A row is made when a client first reports, so a client that never took part costs nothing.
"""

import itertools
from collections.abc import Mapping

import numpy as np

_stamps = itertools.count()


class ClientStore:
    """Flat float32 vectors by client and name.

    Args:
        lengths: for every name the length of its vector; empty for methods without client state.
    """

    def __init__(self, lengths: Mapping[str, int]):
        self.lengths = dict(lengths)
        self._rows: dict[int, dict[str, np.ndarray]] = {}
        self._stamps: dict[int, int] = {}

    def gather(self, positions: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The clients' vectors as one matrix a name, and which clients have any."""
        seen = np.asarray([int(p) in self._rows for p in positions], bool)
        matrices = {
            name: np.zeros((len(positions), length), np.float32)
            for name, length in self.lengths.items()
        }
        for entry in np.flatnonzero(seen):
            for name, row in self._rows[int(positions[entry])].items():
                matrices[name][entry] = row
        return matrices, seen

    def scatter(
        self, positions: np.ndarray, matrices: Mapping[str, np.ndarray], mask: np.ndarray
    ) -> None:
        """Keeps the new rows of the clients that the mask names."""
        if not self.lengths:
            return
        for entry in np.flatnonzero(mask):
            position = int(positions[entry])
            self._rows[position] = {name: matrix[entry].copy() for name, matrix in matrices.items()}
            self._stamps[position] = next(_stamps)

    def copy(self) -> "ClientStore":
        """An independent store; rows are never changed in place and are shared."""
        other = ClientStore(self.lengths)
        other._rows = dict(self._rows)
        other._stamps = dict(self._stamps)
        return other

    def row(self, position: int) -> Mapping[str, np.ndarray]:
        """The vectors of one client that has any, by name; not to be written to."""
        return self._rows[position]

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
