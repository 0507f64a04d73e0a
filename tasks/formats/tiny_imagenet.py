"""Tiny ImageNet (200 classes, 64 x 64) from tiny-imagenet-200.zip or the folder it extracts to.

Source: http://cs231n.stanford.edu/tiny-imagenet-200.zip. The published test images have no labels,
so that the validation images serve as the test set, as in the papers that use this data set.
"""

import os
import re
import stat
import struct
import threading
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np

from tasks.formats.files import PathLike, bad_file, decode_text, opened, read_bytes, reason
from tasks.formats.images import Read, stored
from tf_fedsam.errors import InputError

FOLDER = "tiny-imagenet-200"
MAX_ARCHIVE_BYTES = 2 << 30  # published: 248 MB
MAX_MEMBERS = 1_000_000  # published: 120,609
MAX_DIRECTORY_BYTES = 1 << 26  # of the zip's own list of its members; published: about 15 MB
MAX_IMAGE_BYTES = 1 << 22
MAX_IMAGE_PIXELS = 1 << 20
MAX_TEXT_BYTES = 1 << 24

_SUFFIXES = (".jpeg", ".jpg", ".png")

Reference = tuple[str, int]


@dataclass(frozen=True)
class Index:
    """What the data set holds; nothing is decoded yet.

    Attributes:
        source: the archive or the folder.
        train: (file, label) of each training image; the file's name is relative to the data set's
            folder, such as "train/n01443537/images/n01443537_0.JPEG".
        test: the same for the validation images.
        wnids: the WordNet id of each class, in the order of wnids.txt.
        class_names: the words of each class, from words.txt; its WordNet id where it has none.
    """

    source: Path
    train: tuple[Reference, ...]
    test: tuple[Reference, ...]
    wnids: tuple[str, ...]
    class_names: tuple[str, ...]


def index(path: PathLike) -> Index:
    """Lists the images and labels of an archive, its extracted folder, or a folder with either.

    Raises:
        InputError: a missing or damaged file, a class that wnids.txt does not name, a class without
            images, or validation images and annotations that do not match.
    """
    with _source(path) as source:
        return _index(source)


def load(path: PathLike, size: int = 64) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Decodes all images; grey ones become RGB.

    Returns:
        x_train uint8 [n, size, size, 3], y_train int32 [n], x_test, y_test.

    Raises:
        InputError: as `index`, or an image that cannot be read, by its name.
    """
    with _source(path) as source:
        found = _index(source)
        arrays = []
        for part in (found.train, found.test):
            images = stored(_numbered(source, part), len(part), size, max_pixels=MAX_IMAGE_PIXELS)
            arrays += [images.in_memory(), np.asarray([label for _, label in part], np.int32)]
    return arrays[0], arrays[1], arrays[2], arrays[3]


def readers(path: PathLike, found: Index) -> tuple[Read, Read]:
    """Read the training and the test images of an `index` by their numbers.

    An archive is opened once and stays open as long as one of them is in use.
    """
    stack = ExitStack()
    source = stack.enter_context(_source(path))
    weakref.finalize(source, stack.close)
    return _numbered(source, found.train), _numbered(source, found.test)


def holds(path: PathLike) -> bool:
    """Whether the archive or its folder is there, complete or not."""
    return os.path.isfile(path) or any(
        os.path.exists(Path(path, name))
        for name in ("wnids.txt", f"{FOLDER}/wnids.txt", f"{FOLDER}.zip")
    )


def _numbered(source: "_Source", references: Sequence[Reference]) -> Read:
    def read(number: int) -> tuple[bytes, str]:
        name = references[number][0]
        return source.read(name, MAX_IMAGE_BYTES), source.shown(name)

    return read


class _Source(Protocol):
    """A folder or an archive; names are relative to the data set's folder, with slashes."""

    path: Path
    names: frozenset[str]

    def shown(self, name: str) -> str: ...

    def read(self, name: str, max_bytes: int) -> bytes: ...


class _Folder:
    def __init__(self, path: Path):
        self.path = path
        names: list[str] = []

        def stop(error: OSError) -> None:
            raise bad_file(
                error.filename or path, reason(error), "a readable folder", "Check permissions."
            )

        for folder, _, files in os.walk(path, onerror=stop):
            relative = os.path.relpath(folder, path).replace(os.sep, "/")
            names += files if relative == "." else [f"{relative}/{file}" for file in files]
        self.names = frozenset(names)

    def shown(self, name: str) -> str:
        return str(self.path / name)

    def read(self, name: str, max_bytes: int) -> bytes:
        return read_bytes(self.path / name, max_bytes)


class _Archive:
    def __init__(self, path: Path, archive: zipfile.ZipFile):
        self.path = path
        self._archive = archive
        self._lock = threading.Lock()  # ZipFile counts its open members without one
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise bad_file(path, f"{len(members):,} members", f"at most {MAX_MEMBERS:,}")
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in members:
            name = member.filename
            parts = name.replace("\\", "/").split("/")
            if name.startswith(("/", "\\")) or ".." in parts:
                raise bad_file(
                    path,
                    f"member {name[:100]!r}, which leads out of the archive",
                    "members below one folder",
                    "Do not use this archive; download it from its publisher.",
                )
            if name.endswith("/"):
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                raise bad_file(
                    path,
                    f"member {name[:100]!r}, a symbolic link",
                    "regular files only",
                    "Do not use this archive; download it from its publisher.",
                )
            name = name.removeprefix(f"{FOLDER}/")
            if name in self._members:
                raise bad_file(path, f"member {name[:100]!r} twice", "each member once")
            self._members[name] = member
        self.names = frozenset(self._members)

    def shown(self, name: str) -> str:
        return f"{self.path}: {name}"

    def read(self, name: str, max_bytes: int) -> bytes:
        member = self._members[name]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise bad_file(
                self.shown(name), f"compression type {member.compress_type}", "stored or deflated"
            )
        with self._lock, _zip_errors(self.shown(name)), self._archive.open(member) as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise bad_file(
                self.shown(name), f"more than {max_bytes:,} bytes", "a file of published size"
            )
        if len(data) != member.file_size:
            raise bad_file(
                self.shown(name), f"{len(data):,} bytes", f"{member.file_size:,}, as listed"
            )
        return data


class _SmallReads:
    """A file that refuses to read much at once, as `ZipFile` does with a huge list of members."""

    def __init__(self, path: Path, file: BinaryIO):
        self._path = path
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, count: int = -1) -> bytes:
        if count > MAX_DIRECTORY_BYTES:
            raise bad_file(
                self._path,
                f"a list of members of {count:,} bytes",
                f"at most {MAX_DIRECTORY_BYTES:,} bytes",
            )
        return self._file.read(count)


@contextmanager
def _zip_errors(name: object) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        OSError,
        ValueError,
        RuntimeError,  # encrypted members; NotImplementedError is one too
        IndexError,
        OverflowError,
        MemoryError,
    ) as error:
        raise bad_file(name, f"a damaged zip archive ({reason(error)})", f"{FOLDER}.zip") from None


@contextmanager
def _source(path: PathLike) -> Iterator[_Source]:
    given = Path(path)
    if os.path.isdir(given):
        for folder in (given, given / FOLDER):
            if os.path.isfile(folder / "wnids.txt"):
                yield _Folder(folder)
                return
        if not os.path.isfile(given / f"{FOLDER}.zip"):
            raise bad_file(
                given,
                "a folder without wnids.txt",
                f"the folder {FOLDER!r} or {FOLDER + '.zip'!r}",
                "Put the publisher's archive into this folder, or give the archive's own path.",
            )
        given = given / f"{FOLDER}.zip"
    with opened(given) as (file, size):
        if size > MAX_ARCHIVE_BYTES:
            raise bad_file(given, f"{size:,} bytes", f"at most {MAX_ARCHIVE_BYTES:,} bytes")
        with _zip_errors(given):
            archive = zipfile.ZipFile(cast(BinaryIO, _SmallReads(given, file)))
        with archive:
            yield _Archive(given, archive)


def _index(source: _Source) -> Index:
    wnids = _wnids(source)
    label_of = {wnid: label for label, wnid in enumerate(wnids)}
    train: list[Reference] = []
    in_val: set[str] = set()
    for name in sorted(source.names):
        parts = name.split("/")
        if parts[-1].startswith(".") or not name.lower().endswith(_SUFFIXES):
            continue
        if parts[0] == "train" and len(parts) == 4 and parts[2] == "images":
            if parts[1] not in label_of:
                raise bad_file(
                    source.shown(name), f"the class {parts[1]!r}", "a class that wnids.txt names"
                )
            train.append((name, label_of[parts[1]]))
        elif parts[:2] == ["val", "images"] and len(parts) == 3:
            in_val.add(parts[2])
    missing = sorted(set(range(len(wnids))) - {label for _, label in train})
    if missing:
        raise bad_file(
            source.path,
            f"no images in 'train/{wnids[missing[0]]}/images'"
            + (f" and {len(missing) - 1} other classes" if missing[1:] else ""),
            "images of every class that wnids.txt names",
        )
    return Index(
        source.path, tuple(train), _test(source, label_of, in_val), wnids, _words(source, wnids)
    )


def _text(source: _Source, name: str) -> str:
    if name not in source.names:
        raise bad_file(source.path, f"no file {name!r}", "all files of the published archive")
    return decode_text(source.read(name, MAX_TEXT_BYTES), source.shown(name))


def _wnids(source: _Source) -> tuple[str, ...]:
    wnids = tuple(_text(source, "wnids.txt").split())
    for wnid in wnids:
        if not re.fullmatch(r"[A-Za-z0-9_]+", wnid):
            raise bad_file(
                source.shown("wnids.txt"), f"the line {wnid[:40]!r}", "one WordNet id on each line"
            )
    if not wnids or len(set(wnids)) != len(wnids):
        raise bad_file(
            source.shown("wnids.txt"),
            "the same WordNet id twice" if wnids else "an empty file",
            "each WordNet id once",
        )
    return wnids


def _test(source: _Source, label_of: dict[str, int], images: set[str]) -> tuple[Reference, ...]:
    annotations = "val/val_annotations.txt"
    found: dict[str, int] = {}
    for number, line in enumerate(_text(source, annotations).splitlines(), start=1):
        if not line.strip():
            continue
        fields = line.split("\t")
        where = f"line {number}"
        if len(fields) < 2:
            raise bad_file(
                source.shown(annotations), f"{line[:60]!r} in {where}", "FILE<tab>CLASS<tab>..."
            )
        file, wnid = fields[0], fields[1].strip()
        if wnid not in label_of:
            raise bad_file(
                source.shown(annotations),
                f"the class {wnid[:40]!r} in {where}",
                "a class that wnids.txt names",
            )
        if file in found or file not in images:
            what = "annotated twice" if file in found else "that is not in val/images"
            raise bad_file(
                source.shown(annotations),
                f"the image {file[:60]!r} {what} ({where})",
                "one line for each image",
            )
        found[file] = label_of[wnid]
    left = sorted(images - found.keys())
    if left or not found:
        raise bad_file(
            source.shown(annotations),
            f"no line for {left[0]!r}" if left else "no lines",
            "one line for each image in val/images",
        )
    return tuple((f"val/images/{file}", label) for file, label in found.items())


def _words(source: _Source, wnids: tuple[str, ...]) -> tuple[str, ...]:
    words: dict[str, str] = {}
    if "words.txt" in source.names:
        for line in _text(source, "words.txt").splitlines():
            wnid, _, text = line.partition("\t")
            words[wnid] = text.strip()
    return tuple(words.get(wnid) or wnid for wnid in wnids)
