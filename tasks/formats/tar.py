"""Reads members of a tar archive in place, forward only, without extracting anything.

Not `tarfile`: until its fixes of 2024 and 2025, which the user's Python may lack, a negative offset
or a long pax header could keep it busy for ever (CVE-2025-8194, CVE-2024-6232). Here every step
moves forward, and no size is trusted before it is compared with a limit.
"""

from collections.abc import Callable, Iterator
from typing import BinaryIO

from tasks.formats.files import (
    CHUNK_BYTES,
    PathLike,
    bad_file,
    gunzip,
    is_gzip,
    opened,
    shown,
)

MAX_ARCHIVE_BYTES = 1 << 29  # after decompression; the largest published CIFAR archive has 186 MB
MAX_MEMBER_BYTES = 1 << 28

_BLOCK_BYTES = 512
_REGULAR = b"0\x007"
_FOLDER = b"5"
# Long names and extended attributes of the member that follows. None of the wanted names is long
# enough to need them, so they are skipped.
_ANNOTATIONS = b"xgLK"
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a named pipe",
    b"S": "a sparse file",
}


def read_members(path: PathLike, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """The content of every wanted regular member of a .tar or .tar.gz, by its name.

    Raises:
        InputError: not a tar archive, damaged or cut short, a member that is a link or a device or
            whose name leads out of the archive, two members of one name, or sizes beyond the limit.
    """
    found: dict[str, bytes] = {}
    with opened(path) as (file, _):
        stream = _Forward(path, gunzip(file) if is_gzip(file) else file)
        for name, size in _headers(path, stream):
            if not is_wanted(name):
                stream.skip(_padded(size))
                continue
            if size > MAX_MEMBER_BYTES:
                raise bad_file(
                    path,
                    f"member {shown(name)} of {size:,} bytes",
                    f"at most {MAX_MEMBER_BYTES:,} bytes",
                )
            if name in found:
                raise bad_file(path, f"member {shown(name)} twice", "each member once")
            found[name] = stream.take(size)
            stream.skip(_padded(size) - size)
        stream.drain()
    return found


class _Forward:
    """A stream that is read once, from start to end, and never beyond the archive limit."""

    def __init__(self, path: PathLike, file: BinaryIO):
        self._path = path
        self._file = file
        self._left = MAX_ARCHIVE_BYTES

    def take(self, count: int) -> bytes:
        data = self.take_at_most(count)
        if len(data) != count:
            raise bad_file(self._path, "an archive that ends inside a member", "a complete archive")
        return data

    def take_at_most(self, count: int) -> bytes:
        if count > self._left:
            raise bad_file(
                self._path,
                f"more than {MAX_ARCHIVE_BYTES:,} bytes after decompression",
                "an archive of the published size",
            )
        data = self._file.read(count)
        self._left -= len(data)
        return data

    def skip(self, count: int) -> None:
        while count:
            count -= len(self.take(min(count, CHUNK_BYTES)))

    def drain(self) -> None:
        """Reads to the end, which makes gzip compare its checksum."""
        while self.take_at_most(min(CHUNK_BYTES, self._left + 1)):
            pass


def _headers(path: PathLike, stream: _Forward) -> Iterator[tuple[str, int]]:
    """Yields (name, size) of each regular member; the consumer moves the stream past its data."""
    while header := stream.take_at_most(_BLOCK_BYTES):
        if len(header) != _BLOCK_BYTES:
            raise bad_file(path, "an archive that ends inside a header", "a complete archive")
        if not any(header):
            return
        checksum = sum(header) - sum(header[148:156]) + 8 * ord(" ")
        if _octal(header[148:156]) != checksum:
            raise bad_file(path, "a tar header with a wrong checksum", "a .tar.gz or .tar archive")
        size = _octal(header[124:136])
        if size is None:
            raise bad_file(path, "a tar header without a valid size", "a .tar.gz or .tar archive")
        kind = header[156:157]
        name = _text(header[:100])
        if header[257:262] == b"ustar" and header[262:263] == b"\0" and header[345]:
            name = f"{_text(header[345:500])}/{name}"
        if kind in _ANNOTATIONS:
            stream.skip(_padded(size))
            continue
        if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
            raise bad_file(
                path,
                f"member {shown(name)}, which leads out of the archive",
                "members below one folder",
                "Do not use this archive; download it from its publisher.",
            )
        if kind in _FOLDER or name.endswith("/"):
            stream.skip(_padded(size))
        elif kind in _REGULAR:
            yield name.removeprefix("./"), size
        else:
            raise bad_file(
                path,
                f"member {shown(name)}, {_KINDS.get(kind, f'of unknown type {kind!r}')}",
                "regular files only",
                "Do not use this archive; download it from its publisher.",
            )


def _padded(size: int) -> int:
    return size + -size % _BLOCK_BYTES


def _octal(field: bytes) -> int | None:
    digits = field.strip(b" \0")
    return None if digits.strip(b"01234567") else int(digits or b"0", 8)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
