"""Checkpoints: the state of training on disk, written in the background.

A checkpoint is a manifest, ``checkpoint-<number>.json``, which names the files it is made of with
their sizes and checksums:

    server-<number>.bin     the server's tensors, one after another, in the manifest's order
    clients-<number>.bin    positions of some clients (int64), then their rows (float32)

Files hold plain numbers in the machine's byte order, so that reading them runs no code, and are
never changed. A checkpoint adds one file with the rows that changed since the one before and goes
on using the older files; a client's row is that of the last file, in the manifest's order, that has
one. Rows move to the new file when two thirds of their own are out of date, or when there are too
many files. So a checkpoint takes at most three times the room of the clients' state, and rows are
moved at half the rate at which they change, or a little more if the cohorts are small.

Each file is written beside its name, flushed and renamed into place, the manifest last: a kill or
a power cut at any moment leaves the checkpoints before it untouched.
"""

import atexit
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import tensorflow as tf

from tf_fedsam.errors import InputError
from tf_fedsam.state import files
from tf_fedsam.state.client_store import ClientStore

if TYPE_CHECKING:
    from tf_fedsam.process import State

FORMAT = f"tf_fedsam checkpoint 1, {sys.byteorder} endian"
MAX_ROW_FILES = 32
_CHUNK_BYTES = 1 << 24
_MANIFEST = re.compile(r"checkpoint-([0-9]{8,})\.json")
_DATA = re.compile(r"(?:server|clients)-[0-9]{8,}\.bin")
_OURS = re.compile(
    r"\.?(?:checkpoint|server|clients)-([0-9]{8,})\.(?:json|bin)(?:\.[0-9a-f]{8}\.tmp)?"
)

Layout = dict[str, list[list[Any]]]


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, or none can be read; the message says how to go on."""


class _BrokenError(Exception):
    """A file of a checkpoint is missing or not what was written."""


@dataclasses.dataclass(frozen=True)
class _File:
    """A data file as it must be."""

    name: str
    num_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class _Manifest:
    """What a checkpoint is made of.

    Attributes:
        number: of the manifest, larger than that of every checkpoint before it.
        round_num: the state's next round.
        extra: what the caller gave.
        layout: for each of the server's vectors its name and the dtype and shape of its tensors.
        client_layout: names and lengths of the vectors in a client's row.
        server: the file of the server's vectors.
        clients: the files of the clients' rows, a later one's row before an earlier one's.
    """

    number: int
    round_num: int
    extra: dict[str, Any]
    layout: Layout
    client_layout: dict[str, int]
    server: _File
    clients: list[_File]

    @property
    def name(self) -> str:
        return _manifest_name(self.number)

    @property
    def files(self) -> list[_File]:
        return [self.server, *self.clients]


@dataclasses.dataclass(frozen=True)
class _Snapshot:
    """A state to be saved, which training leaves alone."""

    round_num: int
    server: dict[str, list[tf.Tensor]]
    clients: ClientStore
    extra: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class _RowFile:
    """A file of rows and, for each client in it, which row of the client it is."""

    file: _File
    stamps: dict[int, int]


class CheckpointWriter:
    """Writes checkpoints to a folder that no other process writes to.

    Args:
        folder: where to; made if it does not exist.
        keep: how many checkpoints stay usable; older ones are deleted.
        logs: files to flush to disk before a checkpoint takes effect, because ``extra`` says
            something about them.
    """

    def __init__(self, folder: Path, keep: int = 2, logs: Sequence[Path] = ()):
        if keep < 1:
            raise InputError(
                f"The number of checkpoints to keep must be at least 1. Received: {keep}. 2 lets a "
                f"run survive the loss of its newest."
            )
        self.folder = Path(folder)
        self.keep = keep
        self.logs = tuple(logs)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._pending: _Snapshot | None = None
        self._failure: tuple[int, Exception] | None = None
        self._writing = False
        self._closed = False
        # What follows is the thread's own.
        self._next_number = 0
        self._kept: list[_Manifest] = []
        self._row_files: list[_RowFile] = []

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
            self._survey()
        number, self._next_number = self._next_number, self._next_number + 1
        try:
            row_files = self._write_rows(snapshot.clients, number)
            manifest = _Manifest(
                number,
                snapshot.round_num,
                snapshot.extra,
                _layout(snapshot.server),
                dict(snapshot.clients.lengths),
                self._write_server(snapshot.server, number),
                [row_file.file for row_file in row_files],
            )
            for log in self.logs:
                files.sync_file(log)
            files.sync_folder(self.folder)
            files.write_atomically(self.folder / manifest.name, _encode(manifest))
        except BaseException:
            self._delete(lambda name: _number(name) == number)
            raise
        self._row_files = row_files
        self._kept = [*self._kept, manifest][-self.keep :]
        needed = {file.name for kept in self._kept for file in kept.files}
        needed.update(kept.name for kept in self._kept)
        self._delete(lambda name: name not in needed)

    def _survey(self) -> None:
        """Finds what an earlier process left, so that intact checkpoints count as kept."""
        intact: list[_Manifest] = []
        known: dict[_File, bool] = {}
        for number in sorted(_numbers(self.folder), reverse=True):
            if len(intact) == self.keep:
                break
            with contextlib.suppress(_BrokenError, CheckpointError):
                manifest = _read_manifest(self.folder, number)
                for file in manifest.files:
                    if file not in known:
                        known[file] = _is_intact(self.folder, file)
                if all(known[file] for file in manifest.files):
                    intact.insert(0, manifest)
        self._kept = intact
        used = [_number(name) for name in os.listdir(self.folder)]
        self._next_number = 1 + max((number for number in used if number is not None), default=0)

    def _write_server(self, server: Mapping[str, Sequence[tf.Tensor]], number: int) -> _File:
        with files.AtomicFile(self.folder / f"server-{number:08d}.bin") as file:
            for tensors in server.values():
                for tensor in tensors:
                    file.write(_bytes(np.asarray(tensor)))
        return _File(file.path.name, file.num_bytes, file.sha256)

    def _write_rows(self, clients: ClientStore, number: int) -> list[_RowFile]:
        """Writes the rows that no file to be kept has; gives all files of the checkpoint."""
        row_files = self._files_to_keep(clients.stamps)
        on_disk: dict[int, int] = {}
        for row_file in row_files:
            on_disk.update(row_file.stamps)
        stamps = {p: s for p, s in clients.stamps.items() if on_disk.get(p) != s}
        if not stamps:
            return row_files
        with files.AtomicFile(self.folder / f"clients-{number:08d}.bin") as file:
            file.write(_bytes(np.fromiter(stamps, np.int64, len(stamps))))
            for position in stamps:
                row = clients.row(position)
                for name in clients.lengths:
                    file.write(_bytes(np.asarray(row[name], np.float32)))
        written = _File(file.path.name, file.num_bytes, file.sha256)
        return [*row_files, _RowFile(written, stamps)]

    def _files_to_keep(self, stamps: Mapping[int, int]) -> list[_RowFile]:
        """The files of rows worth going on with; what is up to date in the others is to move."""
        kept = [
            row_file
            for row_file in self._row_files
            if row_file.stamps.keys() <= stamps.keys()  # none of its clients is gone
            and 3 * sum(stamps[p] == stamp for p, stamp in row_file.stamps.items())
            >= len(row_file.stamps)
            and self._has_its_size(row_file.file)
        ]
        if len(kept) >= MAX_ROW_FILES:
            largest = sorted(kept, key=lambda row_file: len(row_file.stamps), reverse=True)
            kept = [row_file for row_file in kept if row_file in largest[: MAX_ROW_FILES // 2]]
        return kept

    def _has_its_size(self, file: _File) -> bool:
        """Whether nobody has deleted or cut it since."""
        try:
            return os.stat(self.folder / file.name).st_size == file.num_bytes
        except OSError:
            return False

    def _delete(self, condition: Callable[[str], bool]) -> None:
        """Deletes files of ours, manifests before what they refer to.

        What cannot be deleted is no reason to stop: it is tried again after the next checkpoint.
        """
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(self.folder) if _number(name) is not None]
            for name in sorted(filter(condition, names), key=lambda name: "checkpoint" not in name):
                with contextlib.suppress(OSError):
                    os.unlink(self.folder / name)


def load_latest(
    folder: Path, fresh: "State", warn: Callable[[str], None]
) -> "tuple[State, dict[str, Any]] | None":
    """The newest intact checkpoint: its state, bit for bit, and its ``extra``.

    Args:
        folder: where the checkpoints are.
        fresh: the state before round 0, which says what the vectors must look like.
        warn: told of each newer checkpoint that is broken.

    Returns:
        None if there is no checkpoint.

    Raises:
        CheckpointError: there are checkpoints, but none is intact; or the newest intact one is of
            another model or algorithm.
    """
    folder = Path(folder)
    try:
        numbers = _numbers(folder)
    except OSError as error:
        raise CheckpointError(
            f"Cannot look for checkpoints in {folder}: {error.strerror}. Make it a readable "
            f"folder, or choose another one."
        ) from error
    broken = []
    for number in sorted(numbers, reverse=True):
        try:
            manifest = _read_manifest(folder, number)
            _check_fit(folder, manifest, fresh)
            state = dataclasses.replace(
                fresh,
                round_num=manifest.round_num,
                server=_read_server(folder, manifest, fresh),
                clients=_read_clients(folder, manifest),
            )
        except _BrokenError as error:
            broken.append(f"{_manifest_name(number)}: {error}.")
            warn(f"Cannot use a checkpoint in {folder}: {broken[-1]} Looking for the one before.")
        else:
            return state, manifest.extra
    if broken:
        raise CheckpointError(
            f"None of the checkpoints in {folder} can be used. {' '.join(broken)} Put the files "
            f"back from a copy, or delete the folder to start over."
        )
    return None


def _manifest_name(number: int) -> str:
    return f"checkpoint-{number:08d}.json"


def _number(name: str) -> int | None:
    """Number of the checkpoint that a file was made for; None if the file is not one of ours."""
    match = _OURS.fullmatch(name)
    return int(match[1]) if match else None


def _numbers(folder: Path) -> list[int]:
    """Numbers of the checkpoints there are, intact or not."""
    try:
        matches = [_MANIFEST.fullmatch(name) for name in os.listdir(folder)]
    except FileNotFoundError:
        return []
    return [int(match[1]) for match in matches if match]


def _layout(server: Mapping[str, Sequence[tf.Tensor]]) -> Layout:
    return {
        name: [[tensor.dtype.name, list(tensor.shape)] for tensor in tensors]
        for name, tensors in server.items()
    }


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _checksum(body: Any) -> str:
    text = json.dumps(body, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _encode(manifest: _Manifest) -> bytes:
    body = {
        "format": FORMAT,
        "round_num": manifest.round_num,
        "extra": manifest.extra,
        "layout": list(manifest.layout.items()),
        "client_layout": list(manifest.client_layout.items()),
        "server": dataclasses.asdict(manifest.server),
        "clients": [dataclasses.asdict(file) for file in manifest.clients],
    }
    return json.dumps({"sha256": _checksum(body), "checkpoint": body}, indent=1).encode()


def _read_manifest(folder: Path, number: int) -> _Manifest:
    path = folder / _manifest_name(number)
    try:
        if not path.is_file():
            raise _BrokenError("it is not a file")
        document = json.loads(path.read_bytes())
        body = document["checkpoint"]
        intact = document["sha256"] == _checksum(body)
    except OSError as error:
        raise _BrokenError(f"it cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _BrokenError("it is torn or corrupted") from error
    if not intact:
        raise _BrokenError("it is corrupted (its checksum differs)")
    # From here on it is as somebody wrote it, but that may have been anybody.
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has an unknown format. Expected: {FORMAT!r}. Go on with the version of the "
            f"program and the kind of machine that wrote it, or delete the folder to start over."
        )
    try:
        manifest = _Manifest(
            number,
            body["round_num"],
            body["extra"],
            dict(body["layout"]),
            dict(body["client_layout"]),
            _File(**body["server"]),
            [_File(**file) for file in body["clients"]],
        )
        valid = (
            _is_count(manifest.round_num)
            and isinstance(manifest.extra, dict)
            and all(map(_is_count, manifest.client_layout.values()))
            and all(_is_count(f.num_bytes) and isinstance(f.sha256, str) for f in manifest.files)
        )
        foreign = [f.name for f in manifest.files if not _DATA.fullmatch(f.name)]
    except (ValueError, TypeError, KeyError) as error:
        raise _BrokenError("it lacks what a manifest must have") from error
    if foreign:
        raise _BrokenError(f"it refers to {foreign[0]!r}, which is no file of a checkpoint")
    if not valid:
        raise _BrokenError("it holds values that no manifest can have")
    return manifest


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _check_fit(folder: Path, manifest: _Manifest, fresh: "State") -> None:
    """Refuses a checkpoint of another model or algorithm."""
    pairs: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
        ("the server's vectors", manifest.layout, _layout(fresh.server)),
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


@contextlib.contextmanager
def _reading(folder: Path, file: _File) -> Iterator[Callable[[int], bytes]]:
    """A function that reads the next bytes; at the end they must prove to be those written."""
    path = folder / file.name
    digest = hashlib.sha256()
    try:
        if not path.is_file():
            raise _BrokenError(f"{file.name} is missing")
        if path.stat().st_size != file.num_bytes:
            raise _BrokenError(
                f"{file.name} has {path.stat().st_size} bytes instead of {file.num_bytes}"
            )
        with path.open("rb") as stream:

            def read(num_bytes: int) -> bytes:
                data = stream.read(num_bytes)
                if len(data) != num_bytes:
                    raise _BrokenError(f"{file.name} is too short")
                digest.update(data)
                return data

            yield read
    except OSError as error:
        raise _BrokenError(f"{file.name} cannot be read ({error.strerror})") from error
    if digest.hexdigest() != file.sha256:
        raise _BrokenError(f"{file.name} is corrupted (its checksum differs)")


def _is_intact(folder: Path, file: _File) -> bool:
    try:
        with _reading(folder, file) as read:
            for start in range(0, file.num_bytes, _CHUNK_BYTES):
                read(min(_CHUNK_BYTES, file.num_bytes - start))
    except _BrokenError:
        return False
    return True


def _read_server(folder: Path, manifest: _Manifest, fresh: "State") -> dict[str, list[tf.Tensor]]:
    """The server's vectors of a checkpoint that has been found to fit."""
    layout = _layout(fresh.server)
    server: dict[str, list[tf.Tensor]] = {name: [] for name in layout}
    with _reading(folder, manifest.server) as read:
        for name in manifest.layout:
            for dtype_name, shape in layout[name]:
                dtype = np.dtype(tf.as_dtype(dtype_name).as_numpy_dtype)
                data = read(dtype.itemsize * int(np.prod(shape, dtype=np.int64)))
                array = np.frombuffer(data, np.uint8).view(dtype).reshape(shape)
                server[name].append(tf.constant(array))
    return server


def _read_clients(folder: Path, manifest: _Manifest) -> ClientStore:
    store = ClientStore(manifest.client_layout)
    lengths = manifest.client_layout
    ends = dict(zip(lengths, itertools.accumulate(lengths.values()), strict=True))
    width = sum(lengths.values())
    for file in manifest.clients:
        num_rows, rest = divmod(file.num_bytes, 8 + 4 * width)
        if rest:
            raise _BrokenError(f"{file.name} does not consist of whole rows")
        with _reading(folder, file) as read:
            positions = np.frombuffer(read(8 * num_rows), np.int64)
            num_at_once = max(1, _CHUNK_BYTES // (4 * max(width, 1)))
            for start in range(0, num_rows, num_at_once):
                some = positions[start : start + num_at_once]
                rows = np.frombuffer(read(4 * width * len(some)), np.float32)
                rows = rows.reshape(len(some), width)
                parts = {name: rows[:, end - lengths[name] : end] for name, end in ends.items()}
                store.scatter(some, parts, np.ones(len(some), bool))
    return store
