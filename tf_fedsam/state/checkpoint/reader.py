"""Reading checkpoints: the newest one that is intact."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_fedsam.state.checkpoint import rows, rows_1
from tf_fedsam.state.checkpoint.compaction import RowFile
from tf_fedsam.state.checkpoint.format import (
    BrokenError,
    CheckpointError,
    Manifest,
    layout_of,
    manifest_name,
    manifest_numbers,
    read_manifest,
    reading,
)
from tf_fedsam.state.checkpoint.on_disk import rows_on_disk
from tf_fedsam.state.client_store import ClientStore

if TYPE_CHECKING:
    from tf_fedsam.process import State

_OUT_OF_DATE = -1  # no row has this stamp


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a store comes from, so that whoever saves it again need not write all of it.

    Attributes:
        folder: of the checkpoints.
        row_files: which of the store's rows are in which file.
        broken: numbers of the checkpoints that turned out to be broken.
    """

    folder: Path
    row_files: list[RowFile]
    broken: frozenset[int]


def load_latest(
    folder: Path, fresh: "State", warn: Callable[[str], None], *, on_disk: bool = False
) -> "tuple[State, dict[str, Any]] | None":
    """The newest intact checkpoint: its state, bit for bit, and its ``extra``.

    A damaged file, or a client's damaged row that cannot be restored, makes those checkpoints
    unusable that need it.

    Args:
        folder: where the checkpoints are.
        fresh: the state before round 0, which says what the vectors must look like.
        warn: told of each newer checkpoint that is broken, and of rows that were restored.
        on_disk: whether clients' rows are left on the disk once they have been found intact.

    Returns:
        None if there is no checkpoint.

    Raises:
        CheckpointError: there are checkpoints, but none is intact; or the newest intact one is of
            another model or algorithm.
    """
    folder = Path(folder)
    try:
        numbers = manifest_numbers(folder)
    except OSError as error:
        raise CheckpointError(
            f"Cannot look for checkpoints in {folder}: {error.strerror}. Make it a readable "
            f"folder, or choose another one."
        ) from error
    broken: dict[int, str] = {}
    for number in sorted(numbers, reverse=True):
        try:
            manifest = read_manifest(folder, number)
            _check_fit(folder, manifest, fresh)
            server = _read_server(folder, manifest, fresh)
            clients, row_files = _read_clients(folder, manifest, warn, on_disk)
        except BrokenError as error:
            broken[number] = f"{manifest_name(number)}: {error}."
            warn(
                f"Cannot use a checkpoint in {folder}: {broken[number]} Looking for the one before."
            )
        else:
            clients.origin = Origin(folder.resolve(), row_files, frozenset(broken))
            state = dataclasses.replace(
                fresh, round_num=manifest.round_num, server=server, clients=clients
            )
            return state, manifest.extra
    if broken:
        raise CheckpointError(
            f"None of the checkpoints in {folder} can be used. {' '.join(broken.values())} Put the "
            f"files back from a copy, or delete the folder to start over."
        )
    return None


def _check_fit(folder: Path, manifest: Manifest, fresh: "State") -> None:
    """Refuses a checkpoint of another model or algorithm."""
    pairs: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
        ("the server's vectors", manifest.layout, layout_of(fresh.server)),
        ("the clients' vectors", manifest.client_layout, fresh.clients.lengths),
    ]
    for what, received, expected in pairs:
        if received == expected:
            continue
        if received.keys() != expected.keys():
            difference = f"Received: {[*received]}. Expected: {[*expected]}"
        else:
            name = next(name for name in expected if received[name] != expected[name])
            difference = f"Received: {name} {received[name]}. Expected: {name} {expected[name]}"
        raise CheckpointError(
            f"{folder / manifest.name} is of another model or algorithm: {what} differ. "
            f"{difference}. Go on with the configuration it was written with, or choose another "
            f"folder."
        )


def _read_server(folder: Path, manifest: Manifest, fresh: "State") -> dict[str, list[tf.Tensor]]:
    """The server's vectors of a checkpoint that has been found to fit."""
    layout = layout_of(fresh.server)
    server: dict[str, list[tf.Tensor]] = {name: [] for name in layout}
    with reading(folder, manifest.server) as read:
        for name in manifest.layout:
            for dtype_name, shape in layout[name]:
                dtype = np.dtype(tf.as_dtype(dtype_name).as_numpy_dtype)
                data = read(dtype.itemsize * int(np.prod(shape, dtype=np.int64)))
                array = np.frombuffer(data, np.uint8).view(dtype).reshape(shape)
                server[name].append(tf.constant(array))
    return server


def _read_clients(
    folder: Path, manifest: Manifest, warn: Callable[[str], None], on_disk: bool
) -> tuple[ClientStore, list[RowFile]]:
    """The clients' rows, each from the last file that has one, and which file that is.

    A row that had to be restored counts as out of date, so that it is written again.
    """
    if manifest.version == 1:
        return rows_1.read_clients(folder, manifest), []
    store = ClientStore(manifest.client_layout)
    width = sum(manifest.client_layout.values())
    indexes = [rows.read_index(folder, file, width) for file in manifest.clients]
    last = {
        position: (number, entry)
        for number, index in enumerate(indexes)
        for entry, position in enumerate(index["position"].tolist())
    }
    wanted: list[list[int]] = [[] for _ in indexes]
    for number, entry in last.values():
        wanted[number].append(entry)
    row_files = []
    for file, index, entries in zip(manifest.clients, indexes, wanted, strict=True):
        entries.sort()
        stamps = dict.fromkeys(index["position"].tolist(), _OUT_OF_DATE)
        restored = []
        source = rows_on_disk(folder, file, index)
        for row in rows.read(folder, file, index, entries):
            if on_disk and not row.restored:
                store.refer(row.position, source)
            else:
                store.restore(row.position, row.numbers)
            if row.restored:
                restored.append(row.position)
            else:
                stamps[row.position] = store.stamps[row.position]
        if restored:
            warn(
                f"The vectors of {rows.named(restored)} in {folder / file.name} are damaged. They "
                f"were restored, bit for bit, from the rest of the file; the next checkpoint "
                f"writes them again. See whether the disk fails."
            )
        row_files.append(RowFile(file, stamps))
    return store, row_files
