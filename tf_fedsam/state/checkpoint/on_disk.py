"""Rows that stay in the files of checkpoints, and are read when they are needed."""

import weakref
from pathlib import Path

import numpy as np

from tf_fedsam.state.checkpoint import rows
from tf_fedsam.state.checkpoint.format import BrokenError, CheckpointError, DataFile


class RowsOnDisk:
    """The rows of a file, one at a time.

    As long as it is referred to, :func:`is_in_use` says so of the file. There is one for a file,
    which :func:`rows_on_disk` gives.

    Args:
        folder: where the file is.
        file: as the manifest describes it.
        index: of the file.
    """

    def __init__(self, folder: Path, file: DataFile, index: np.ndarray):
        self._folder = folder
        self.file = file
        self._index = index
        self._entries = {p: entry for entry, p in enumerate(index["position"].tolist())}

    def read(self, position: int) -> np.ndarray:
        """A client's numbers, exactly as they were written.

        Raises:
            CheckpointError: they are damaged, and cannot be restored.
        """
        entries = [self._entries[position]]
        try:
            [row] = rows.read(self._folder, self.file, self._index, entries)
        except BrokenError as error:
            raise CheckpointError(
                f"Cannot read what a client keeps from {self._folder}: {error}. Put the file back "
                f"from a copy, or give the same command again: it goes on from a checkpoint that "
                f"does not need these vectors, if there is one."
            ) from error
        return row.numbers


_in_use: weakref.WeakValueDictionary[str, RowsOnDisk] = weakref.WeakValueDictionary()


def rows_on_disk(folder: Path, file: DataFile, index: np.ndarray) -> RowsOnDisk:
    """The rows of a file."""
    key = _key(folder / file.name)
    found = _in_use.get(key)
    if found is None or found.file != file:
        found = _in_use[key] = RowsOnDisk(folder, file, index)
    return found


def is_in_use(path: Path) -> bool:
    """Whether somebody in this process may want to read rows of a file."""
    return _key(path) in _in_use


def _key(path: Path) -> str:
    return str(path.resolve())
