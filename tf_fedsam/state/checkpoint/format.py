"""What a checkpoint is made of: the names of its files, the manifest, the checksums.

A checkpoint is a manifest, ``checkpoint-<number>.json``, which names the files it is made of with
their sizes and checksums:

    server-<number>.bin     the server's tensors, one after another, in the manifest's order
    clients-<number>.bin    rows of some clients (see ``rows.py``)

Files hold plain numbers in the machine's byte order, so that reading them runs no code, and are
never changed. A checkpoint adds one file with the rows that changed since the one before and goes
on using the older files; a client's row is that of the last file, in the manifest's order, that has
one. What becomes of rows that are out of date is in ``compaction.py``.

Each file is written beside its name, flushed and renamed into place, the manifest last: a kill or
a power cut at any moment leaves the checkpoints before it untouched. Every row has its own
checksum, and a damaged one is restored from the rest of its file if that is whole; if it cannot be,
it is missed only by the checkpoints that need it.

Older formats are still read: 1 had one checksum a file of rows (see ``rows_1.py``), 2 had nothing
to restore rows from.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf

from tf_fedsam.errors import CheckpointError

FORMATS = {
    version: f"tf_fedsam checkpoint {version}, {sys.byteorder} endian" for version in (1, 2, 3)
}
VERSION = 3
_CHUNK_BYTES = 1 << 24
_MANIFEST = re.compile(r"checkpoint-([0-9]{8,})\.json")
_DATA = re.compile(r"(?:server|clients)-[0-9]{8,}\.bin")
_OURS = re.compile(
    r"\.?(?:checkpoint|server|clients)-([0-9]{8,})\.(?:json|bin)(?:\.[0-9a-f]{8}\.tmp)?"
)

Layout = dict[str, list[list[Any]]]


class BrokenError(Exception):
    """A file of a checkpoint is missing or not what was written."""


@dataclasses.dataclass(frozen=True)
class DataFile:
    """A data file as it must be.

    Attributes:
        name: in the folder.
        num_bytes: its size.
        sha256: checksum of the file; of a file of rows that of its index.
        num_spare: spare rows in a file of rows.
    """

    name: str
    num_bytes: int
    sha256: str
    num_spare: int = 0


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a checkpoint is made of.

    Attributes:
        number: of the manifest, larger than that of every checkpoint before it.
        round_num: the state's next round.
        extra: what the caller gave.
        layout: for each of the server's vectors its name and the dtype and shape of its tensors.
        client_layout: names and lengths of the vectors in a client's row.
        server: the file of the server's vectors.
        clients: the files of the clients' rows, a later one's row before an earlier one's.
        version: of the format.
    """

    number: int
    round_num: int
    extra: dict[str, Any]
    layout: Layout
    client_layout: dict[str, int]
    server: DataFile
    clients: list[DataFile]
    version: int = VERSION

    @property
    def name(self) -> str:
        return manifest_name(self.number)

    @property
    def files(self) -> list[DataFile]:
        return [self.server, *self.clients]


def manifest_name(number: int) -> str:
    return f"checkpoint-{number:08d}.json"


def file_number(name: str) -> int | None:
    """Number of the checkpoint that a file was made for; None if the file is not one of ours."""
    match = _OURS.fullmatch(name)
    return int(match[1]) if match else None


def manifest_numbers(folder: Path) -> list[int]:
    """Numbers of the checkpoints there are, intact or not."""
    try:
        matches = [_MANIFEST.fullmatch(name) for name in os.listdir(folder)]
    except FileNotFoundError:
        return []
    return [int(match[1]) for match in matches if match]


def layout_of(server: Mapping[str, Sequence[tf.Tensor]]) -> Layout:
    return {
        name: [[tensor.dtype.name, list(tensor.shape)] for tensor in tensors]
        for name, tensors in server.items()
    }


def checksum(body: Any) -> str:
    text = json.dumps(body, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def encode(manifest: Manifest) -> bytes:
    body = {
        "format": FORMATS[manifest.version],
        "round_num": manifest.round_num,
        "extra": manifest.extra,
        "layout": list(manifest.layout.items()),
        "client_layout": list(manifest.client_layout.items()),
        "server": dataclasses.asdict(manifest.server),
        "clients": [dataclasses.asdict(file) for file in manifest.clients],
    }
    return json.dumps({"sha256": checksum(body), "checkpoint": body}, indent=1).encode()


def read_manifest(folder: Path, number: int) -> Manifest:
    path = folder / manifest_name(number)
    try:
        if not path.is_file():
            raise BrokenError("it is not a file")
        document = json.loads(path.read_bytes())
        body = document["checkpoint"]
        intact = document["sha256"] == checksum(body)
    except OSError as error:
        raise BrokenError(f"it cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BrokenError("it is torn or corrupted") from error
    if not intact:
        raise BrokenError("it is corrupted (its checksum differs)")
    # From here on it is as somebody wrote it, but that may have been anybody.
    form = body.get("format") if isinstance(body, dict) else None
    version = next((version for version, name in FORMATS.items() if name == form), None)
    if version is None:
        raise CheckpointError(
            f"{path} has an unknown format. Received: {form!r}. Expected: {FORMATS[VERSION]!r} or "
            f"an older one. Go on with the version of the program and the kind of machine that "
            f"wrote it, or delete the folder to start over."
        )
    try:
        manifest = Manifest(
            number,
            body["round_num"],
            body["extra"],
            dict(body["layout"]),
            dict(body["client_layout"]),
            DataFile(**body["server"]),
            [DataFile(**file) for file in body["clients"]],
            version,
        )
        valid = (
            _is_count(manifest.round_num)
            and isinstance(manifest.extra, dict)
            and all(map(_is_count, manifest.client_layout.values()))
            and all(_is_count(f.num_bytes) and isinstance(f.sha256, str) for f in manifest.files)
            and all(_is_count(f.num_spare) for f in manifest.files)
        )
        foreign = [f.name for f in manifest.files if not _DATA.fullmatch(f.name)]
    except (ValueError, TypeError, KeyError) as error:
        raise BrokenError("it lacks what a manifest must have") from error
    if foreign:
        raise BrokenError(f"it refers to {foreign[0]!r}, which is no file of a checkpoint")
    if not valid:
        raise BrokenError("it holds values that no manifest can have")
    return manifest


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


@contextlib.contextmanager
def reading(folder: Path, file: DataFile) -> Iterator[Callable[[int], bytes]]:
    """A function that reads the next bytes; at the end they must prove to be those written."""
    path = folder / file.name
    digest = hashlib.sha256()
    with opened(folder, file) as stream:
        if path.stat().st_size != file.num_bytes:
            raise BrokenError(
                f"{file.name} has {path.stat().st_size} bytes instead of {file.num_bytes}"
            )

        def read(num_bytes: int) -> bytes:
            data = stream.read(num_bytes)
            if len(data) != num_bytes:
                raise BrokenError(f"{file.name} is too short")
            digest.update(data)
            return data

        yield read
    if digest.hexdigest() != file.sha256:
        raise BrokenError(f"{file.name} is corrupted (its checksum differs)")


def is_intact(folder: Path, file: DataFile) -> bool:
    """Whether a file is there, byte for byte as it was written."""
    try:
        with reading(folder, file) as read:
            for start in range(0, file.num_bytes, _CHUNK_BYTES):
                read(min(_CHUNK_BYTES, file.num_bytes - start))
    except BrokenError:
        return False
    return True


@contextlib.contextmanager
def opened(folder: Path, file: DataFile) -> Iterator[BinaryIO]:
    """The file, to be read; what the disk refuses is broken."""
    path = folder / file.name
    try:
        if not path.is_file():
            raise BrokenError(f"{file.name} is missing")
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise BrokenError(f"{file.name} cannot be read ({error.strerror})") from error


def has_its_size(folder: Path, file: DataFile) -> bool:
    """Whether nobody has deleted or cut it since."""
    try:
        return os.stat(folder / file.name).st_size == file.num_bytes
    except OSError:
        return False


def as_bytes(array: np.ndarray) -> memoryview:
    """The numbers of an array, one after another."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
