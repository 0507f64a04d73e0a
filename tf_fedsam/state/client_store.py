"""What clients keep between rounds: control variates, duals, last models.

A row is made when a client first reports, so a client that never took part costs nothing.
"""

from collections.abc import Mapping

import numpy as np


class ClientStore:
    """Flat float32 vectors by client and name.

    Args:
        lengths: for every name the length of its vector; empty for methods without client state.
    """

    def __init__(self, lengths: Mapping[str, int]):
        self.lengths = dict(lengths)
        self._rows: dict[int, dict[str, np.ndarray]] = {}

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
            self._rows[int(positions[entry])] = {
                name: matrix[entry].copy() for name, matrix in matrices.items()
            }

    def copy(self) -> "ClientStore":
        """An independent store; rows are never changed in place and are shared."""
        other = ClientStore(self.lengths)
        other._rows = dict(self._rows)
        return other

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def positions(self) -> list[int]:
        return sorted(self._rows)

    @property
    def num_bytes(self) -> int:
        return 4 * len(self._rows) * sum(self.lengths.values())
