"""Writing checkpoints, in the background."""

import atexit
import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import tensorflow as tf

from tf_fedsam.errors import InputError
from tf_fedsam.state import files
from tf_fedsam.state.checkpoint import compaction, rows
from tf_fedsam.state.checkpoint.compaction import RowFile
from tf_fedsam.state.checkpoint.format import (
    BrokenError,
    CheckpointError,
    DataFile,
    Manifest,
    as_bytes,
    encode,
    file_number,
    has_its_size,
    is_intact,
    layout_of,
    manifest_numbers,
    read_manifest,
)
from tf_fedsam.state.checkpoint.on_disk import is_in_use, rows_on_disk
from tf_fedsam.state.checkpoint.reader import Origin
from tf_fedsam.state.client_store import ClientStore

if TYPE_CHECKING:
    from tf_fedsam.process import State

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclasses.dataclass(frozen=True)
class _Snapshot:
    """A state to be saved, which training leaves alone."""

    round_num: int
    server: dict[str, list[tf.Tensor]]
    clients: ClientStore
    extra: dict[str, Any]


class CheckpointWriter:
    """Writes checkpoints to a folder that no other process writes to.

    Args:
        folder: where to; made if it does not exist. What a killed process left unfinished in it is
            deleted at once.
        keep: how many checkpoints stay usable; older ones are deleted.
        logs: files to flush to disk before a checkpoint takes effect, because ``extra`` says
            something about them.
        release: whether the states that are saved, and their copies, give up the memory of rows
            that are on the disk, and read them there. Files of rows that a state may read are not
            deleted.
    """

    def __init__(
        self, folder: Path, keep: int = 2, logs: Sequence[Path] = (), *, release: bool = False
    ):
        if keep < 1:
            raise InputError(
                f"The number of checkpoints to keep must be at least 1. Received: {keep}. 2 lets a "
                f"run survive the loss of its newest."
            )
        self.folder = Path(folder)
        self.keep = keep
        self.logs = tuple(logs)
        self.release = release
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._pending: _Snapshot | None = None
        self._failure: tuple[int, Exception] | None = None
        self._writing = False
        self._closed = False
        # What follows is the thread's own.
        self._next_number = 0
        self._kept: list[Manifest] = []
        self._row_files: list[RowFile] = []
        self._delete(_leftovers(self.folder))

    def save(self, state: "State", extra: Mapping[str, Any]) -> None:
        """Has the state written in the background; it may be passed to ``next`` at once.

        While a write is under way one more save waits, which a newer one replaces.

        Args:
            state: what to save.
            extra: a few values that JSON can hold, given back by :func:`load_latest`.

        Raises:
            CheckpointError: an earlier save failed; this one is not begun.
        """
        snapshot = _Snapshot(
            int(state.round_num),
            {name: list(tensors) for name, tensors in state.server.items()},
            state.clients.copy(),
            json.loads(json.dumps(dict(extra), allow_nan=False)),
        )
        with self._changed:
            self._raise_failure()
            if self._closed:
                raise ValueError("This CheckpointWriter is closed; make a new one.")
            self._pending = snapshot
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
                self._thread.start()
                atexit.register(self._finish)  # for a program that ends without close()

    def flush(self) -> None:
        """Waits until everything saved is on the disk.

        Raises:
            CheckpointError: a save failed that nobody has been told of.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._pending is None and not self._writing)
            self._raise_failure()

    def close(self) -> None:
        """``flush``, for the last time."""
        self._finish()
        atexit.unregister(self._finish)
        self.flush()

    def _finish(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _raise_failure(self) -> None:
        if self._failure is None:
            return
        (round_num, error), self._failure = self._failure, None
        if isinstance(error, CheckpointError):  # rows that could not be read
            raise error
        if isinstance(error, OSError):
            reason = f"{error.filename or self.folder}: {error.strerror or error}"
        else:
            reason = f"{type(error).__name__}: {error}"
        if self._kept:
            good = f"The last good one is that after {self._kept[-1].round_num} rounds"
            how = "it goes on from there"
        else:
            good, how = "There is no earlier one", "it starts over"
        raise CheckpointError(
            f"Could not write the checkpoint after {round_num} rounds: {reason}. {good} in "
            f"{self.folder}. Make room or make the folder writable, then give the same command "
            f"again: {how}."
        ) from error

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending is not None or self._closed)
                snapshot, self._pending = self._pending, None
                self._writing = snapshot is not None
            if snapshot is None:
                return
            failure = None
            try:
                self._write(snapshot)
            except Exception as error:
                failure = snapshot.round_num, error
            with self._changed:
                self._failure = failure or self._failure
                self._writing = False
                self._changed.notify_all()
            del snapshot  # frees its tensors and rows

    def _write(self, snapshot: _Snapshot) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._next_number:
            self._survey(snapshot.clients.origin)
        plan = self._plan(snapshot.clients)
        try:
            self._add(snapshot, plan)
        except OSError as error:
            if error.errno not in _NO_ROOM or not plan.moved:
                raise
            self._add(snapshot, self._plan(snapshot.clients, moving=False))

    def _plan(self, clients: ClientStore, *, moving: bool = True) -> compaction.Plan:
        there = [f for f in self._row_files if has_its_size(self.folder, f.file)]
        row_bytes = rows.row_bytes(sum(clients.lengths.values()))
        return compaction.plan(there, clients.stamps, row_bytes, moving=moving)

    def _add(self, snapshot: _Snapshot, plan: compaction.Plan) -> None:
        """Adds a checkpoint, and deletes what is no longer kept."""
        number, self._next_number = self._next_number, self._next_number + 1
        try:
            row_files = self._write_rows(snapshot.clients, plan, number)
            manifest = Manifest(
                number,
                snapshot.round_num,
                snapshot.extra,
                layout_of(snapshot.server),
                dict(snapshot.clients.lengths),
                self._write_server(snapshot.server, number),
                [row_file.file for row_file in row_files],
            )
            for log in self.logs:
                files.sync_file(log)
            files.sync_folder(self.folder)
            files.write_atomically(self.folder / manifest.name, encode(manifest))
        except BaseException:
            self._delete(lambda name: file_number(name) == number)
            raise
        self._row_files = row_files
        self._kept = [*self._kept, manifest][-self.keep :]
        if self.release and plan.written:
            self._release(snapshot.clients, row_files[-1].file, plan.written)
        needed = {file.name for kept in self._kept for file in kept.files}
        needed.update(kept.name for kept in self._kept)
        self._delete(lambda name: name not in needed and not is_in_use(self.folder / name))

    def _release(self, clients: ClientStore, file: DataFile, positions: Sequence[int]) -> None:
        """Lets rows be read from where they now are."""
        index = rows.read_index(self.folder, file, sum(clients.lengths.values()))
        source = rows_on_disk(self.folder, file, index)
        for position in positions:
            clients.release(position, source)

    def _survey(self, origin: object) -> None:
        """Finds what an earlier process left: checkpoints to count as kept, rows to go on with.

        The rows themselves are not read again: there may be many, and until the first checkpoint is
        written a kill takes the run back to where it began.
        """
        broken: frozenset[int] = frozenset()
        if isinstance(origin, Origin) and origin.folder == self.folder.resolve():
            broken, self._row_files = origin.broken, origin.row_files
        self._kept = []
        for number in sorted({*manifest_numbers(self.folder)} - broken, reverse=True):
            with contextlib.suppress(BrokenError, CheckpointError):
                manifest = read_manifest(self.folder, number)
                if len(self._kept) < self.keep and self._seems_intact(manifest):
                    self._kept.insert(0, manifest)
        used = [file_number(name) for name in os.listdir(self.folder)]
        self._next_number = 1 + max((number for number in used if number is not None), default=0)

    def _seems_intact(self, manifest: Manifest) -> bool:
        return is_intact(self.folder, manifest.server) and all(
            has_its_size(self.folder, file) for file in manifest.clients
        )

    def _write_server(self, server: Mapping[str, Sequence[tf.Tensor]], number: int) -> DataFile:
        digest = hashlib.sha256()
        with files.AtomicFile(self.folder / f"server-{number:08d}.bin") as file:
            for tensors in server.values():
                for tensor in tensors:
                    data = as_bytes(np.asarray(tensor))
                    digest.update(data)
                    file.write(data)
        return DataFile(file.path.name, file.num_bytes, digest.hexdigest())

    def _write_rows(
        self, clients: ClientStore, plan: compaction.Plan, number: int
    ) -> list[RowFile]:
        """Writes the rows of a plan; gives all files of the checkpoint."""
        if not plan.written:
            return plan.kept
        path = self.folder / f"clients-{number:08d}.bin"
        file = rows.write(path, clients, plan.written)
        return [*plan.kept, RowFile(file, {p: clients.stamps[p] for p in plan.written})]

    def _delete(self, condition: Callable[[str], bool]) -> None:
        """Deletes files of ours, manifests before what they refer to.

        What cannot be deleted is no reason to stop: it is tried again after the next checkpoint.
        """
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(self.folder) if file_number(name) is not None]
            for name in sorted(filter(condition, names), key=lambda name: "checkpoint" not in name):
                with contextlib.suppress(OSError):
                    os.unlink(self.folder / name)


def _leftovers(folder: Path) -> Callable[[str], bool]:
    """Whether a file of ours is of a checkpoint that was never finished."""
    last = 0
    with contextlib.suppress(OSError):
        last = max(manifest_numbers(folder), default=0)
    return lambda name: name.endswith(".tmp") or (file_number(name) or 0) > last
