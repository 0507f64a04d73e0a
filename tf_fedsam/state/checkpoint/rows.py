"""Files of clients' rows, each row with its own checksum.

    index    for each row: the client's position (int64), SHA-256 of the position and the row
    spare    rows from which one damaged row in ``GROUP`` can be restored
    rows     float32, one after another in the index's order
    index    the same again

The manifest holds the checksum of the index, which holds those of the rows. A damaged index is a
loss to nobody as long as one of the two is whole. With ``n`` spare rows, row ``i`` is of group
``i % n``, so that rows side by side are of several groups, and the spare row of a group is the
exclusive or of the bits of its rows: one of them that is damaged is that of all others. If several
of a group are, they are a loss to those alone who need them.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from tf_fedsam.state import files
from tf_fedsam.state.checkpoint.format import BrokenError, DataFile, as_bytes, opened
from tf_fedsam.state.client_store import ClientStore

ENTRY = np.dtype([("position", np.int64), ("sha256", np.uint8, 32)])
GROUP = 16
_NAMED = 5


class Row(NamedTuple):
    """A client's row.

    Attributes:
        position: of the client.
        numbers: one after another.
        restored: whether it is damaged in the file.
    """

    position: int
    numbers: np.ndarray
    restored: bool


def row_bytes(width: int) -> int:
    """Room that a row of so many numbers takes in a file, not counting spare ones."""
    return 2 * ENTRY.itemsize + 4 * width


def num_spare(num_rows: int) -> int:
    """How many spare rows there are beside so many rows."""
    return -(-num_rows // GROUP)


def write(path: Path, clients: ClientStore, positions: Sequence[int]) -> DataFile:
    """Writes the rows of these clients."""
    index = np.zeros(len(positions), ENTRY)
    index["position"] = positions
    spare = np.zeros((num_spare(len(positions)), 4 * sum(clients.lengths.values())), np.uint8)
    each = [_vectors(clients, position) for position in positions]  # on a disk: read once
    for number, vectors in enumerate(each):
        index["sha256"][number] = _checksum(index["position"][number], vectors)
        _add_bits(spare[number % len(spare)], vectors)
    with files.AtomicFile(path) as file:
        file.write(as_bytes(index))
        file.write(as_bytes(spare))
        for vectors in each:
            for vector in vectors:
                file.write(vector)
        file.write(as_bytes(index))
    sha256 = hashlib.sha256(as_bytes(index)).hexdigest()
    return DataFile(path.name, file.num_bytes, sha256, len(spare))


def read_index(folder: Path, file: DataFile, width: int) -> np.ndarray:
    """For each row of the file its client's position and its checksum."""
    num_rows, rest = divmod(file.num_bytes - 4 * width * file.num_spare, row_bytes(width))
    if rest or num_rows < file.num_spare:
        raise BrokenError(f"{file.name} does not consist of whole rows")
    num_bytes = ENTRY.itemsize * num_rows
    with opened(folder, file) as stream:
        for start in (0, file.num_bytes - num_bytes):
            data = _read_at(stream, start, num_bytes)
            if hashlib.sha256(data).hexdigest() == file.sha256:
                return np.frombuffer(data, ENTRY)
    raise BrokenError(f"{file.name} is corrupted (both copies of its index differ)")


def read(folder: Path, file: DataFile, index: np.ndarray, entries: Sequence[int]) -> Iterator[Row]:
    """Some rows of a file, each as it was written; at the end those are named that are lost.

    Args:
        folder: where the file is.
        file: as the manifest describes it.
        index: of the file.
        entries: which rows, counted from 0, in rising order.
    """
    if not len(entries):
        return
    lost = []
    with opened(folder, file) as stream:
        reader = _Reader(stream, file, index)
        for number in entries:
            position = int(index["position"][number])
            data = reader.row(number)
            restored = data is None
            if restored:
                data = reader.restored_row(number)
            if data is None:
                lost.append(position)
            else:
                yield Row(position, np.frombuffer(data, np.float32), restored)
    if lost:
        raise BrokenError(
            f"the vectors of {named(lost)} in {file.name} are damaged (their checksums differ, or "
            f"they cannot be read) and so is what they could be restored from"
        )


def named(positions: Sequence[int]) -> str:
    """Some clients in words, the first few by number."""
    more = len(positions) - _NAMED
    numbers = ", ".join(map(str, positions[:_NAMED])) + (f" and {more} more" if more > 0 else "")
    return f"client{'s' if len(positions) > 1 else ''} {numbers} (counted from 0)"


class _Reader:
    """Reads and restores the rows of one file."""

    def __init__(self, stream: BinaryIO, file: DataFile, index: np.ndarray):
        self._stream = stream
        self._index = index
        self._num_spare = file.num_spare
        self._row_size = (file.num_bytes - 2 * index.nbytes) // (len(index) + file.num_spare)

    def row(self, number: int) -> bytes | None:
        """A row, or None if it is not as it was written."""
        data = self._read(self._num_spare + number)
        return data if self._is_row(number, data) else None

    def restored_row(self, number: int) -> bytes | None:
        """What a damaged row was; None if that cannot be told."""
        if not self._num_spare:
            return None
        group = number % self._num_spare
        others = (i for i in range(group, len(self._index), self._num_spare) if i != number)
        bits = np.zeros(self._row_size, np.uint8)
        for place in (group, *(self._num_spare + i for i in others)):
            data = self._read(place)
            if len(data) != self._row_size:
                return None
            _add_bits(bits, [data])
        data = bits.tobytes()
        return data if self._is_row(number, data) else None

    def _read(self, place: int) -> bytes:
        start = self._index.nbytes + place * self._row_size
        return _read_at(self._stream, start, self._row_size)

    def _is_row(self, number: int, data: bytes) -> bool:
        entry = self._index[number]
        checksum = _checksum(entry["position"], [data])
        return len(data) == self._row_size and checksum.tobytes() == entry["sha256"].tobytes()


def _read_at(stream: BinaryIO, start: int, num_bytes: int) -> bytes:
    """The bytes there, fewer at the end of the file, and none where the disk refuses them."""
    try:
        stream.seek(start)
        return stream.read(num_bytes)
    except OSError:
        return b""


def _checksum(position: np.ndarray, parts: Iterable[bytes | memoryview]) -> np.ndarray:
    """SHA-256 of a client's position and row."""
    digest = hashlib.sha256(as_bytes(position))
    for part in parts:
        digest.update(part)
    return np.frombuffer(digest.digest(), np.uint8)


def _add_bits(total: np.ndarray, parts: Iterable[bytes | memoryview]) -> None:
    """The exclusive or of a row in parts with another, in place."""
    start = 0
    for part in parts:
        piece = total[start : start + len(part)]
        np.bitwise_xor(piece, np.frombuffer(part, np.uint8), out=piece)
        start += len(part)


def _vectors(clients: ClientStore, position: int) -> list[memoryview]:
    row = clients.row(position)
    return [as_bytes(np.asarray(row[name], np.float32)) for name in clients.lengths]
