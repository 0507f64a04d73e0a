"""Which rows a checkpoint writes: those that changed, and some to get rid of files.

A file goes when it has no row that is up to date. So that this happens, rows that did not change
are written again, "moved", out of a file

- with the smallest share of rows that are up to date, while the files together hold more than twice
  as many rows as there are clients;
- that is small, when there are too many small ones.

A checkpoint moves at most as many rows as changed, or ``MOVED_BYTES`` of them if that is more: it
takes no more than about twice the time and room of what changed, whatever is on the disk. Moving
out of a large file may take many checkpoints. The files of a checkpoint take at most three times
the room of the clients' state, spare rows not counted.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from tf_fedsam.state.checkpoint.format import DataFile

MAX_SMALL_FILES = 128
SMALL_BYTES = 1 << 22
MOVED_BYTES = 1 << 26


@dataclasses.dataclass(frozen=True)
class RowFile:
    """A file of rows.

    Attributes:
        file: as the manifest describes it.
        stamps: for each client in it which row of the client it is (see ``ClientStore.stamps``).
    """

    file: DataFile
    stamps: Mapping[int, int]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a checkpoint does about rows.

    Attributes:
        kept: the files to go on with, in their order.
        changed: clients whose rows must be written.
        moved: clients whose rows are to be written again.
    """

    kept: list[RowFile]
    changed: list[int]
    moved: list[int]

    @property
    def written(self) -> list[int]:
        return [*self.changed, *self.moved]


def plan(
    row_files: Sequence[RowFile], stamps: Mapping[int, int], row_bytes: int, *, moving: bool = True
) -> Plan:
    """What to do about the rows of a state.

    Args:
        row_files: what the checkpoint before was made of.
        stamps: of the state's rows.
        row_bytes: room that a row takes.
        moving: whether rows may be moved.
    """
    files = [
        f for f in row_files if f.stamps.keys() <= stamps.keys()
    ]  # none of its clients is gone
    last = {position: number for number, file in enumerate(files) for position in file.stamps}
    current: dict[int, list[int]] = {}
    for position, number in last.items():
        if files[number].stamps[position] == stamps[position]:
            current.setdefault(number, []).append(position)
    up_to_date = {position for positions in current.values() for position in positions}
    changed = [position for position in stamps if position not in up_to_date]
    moved = _move(files, current, changed, len(stamps), row_bytes) if moving else []
    return Plan([files[number] for number in sorted(current)], changed, moved)


def _move(
    files: Sequence[RowFile],
    current: dict[int, list[int]],
    changed: Sequence[int],
    num_clients: int,
    row_bytes: int,
) -> list[int]:
    """Chooses rows to move, and takes files that are no longer needed out of ``current``."""
    most = max(len(changed), MOVED_BYTES // row_bytes)
    moved: list[int] = []

    def move_out(number: int) -> None:
        positions = current.pop(number)
        num_left = most - len(moved)
        moved.extend(positions[:num_left])
        if positions[num_left:]:
            current[number] = positions[num_left:]

    for number in _small_files(files, current):
        move_out(number)
    while current and len(moved) < most:
        num_rows = sum(len(files[number].stamps) for number in current)
        if num_rows + len(changed) + len(moved) <= 2 * num_clients:
            break
        move_out(min(current, key=lambda number: len(current[number]) / len(files[number].stamps)))
    return moved


def _small_files(files: Sequence[RowFile], numbers: Iterable[int]) -> list[int]:
    """The smallest ones, if there are too many."""
    small = [number for number in numbers if files[number].file.num_bytes < SMALL_BYTES]
    if len(small) < MAX_SMALL_FILES:
        return []
    small.sort(key=lambda number: files[number].file.num_bytes)
    return small[: -MAX_SMALL_FILES // 2]
