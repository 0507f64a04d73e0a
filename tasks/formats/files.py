"""Opening what a user points at: regular files only, bounded sizes, errors that name the file."""

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from tf_fedsam.errors import InputError

PathLike = str | os.PathLike[str]

DOWNLOAD_AGAIN = "Download it again from its publisher and compare the checksum."
CHUNK_BYTES = 1 << 20

# One deflate symbol yields at most 258 bytes and takes at least 2 bits (1032:1, zlib's own figure).
_MAX_DEFLATE_RATIO = 1032


def shown(name: object) -> str:
    """A file's name for a message: quoted, control characters escaped, of bounded length."""
    text = repr(os.fspath(name) if isinstance(name, os.PathLike) else str(name))
    return text if len(text) <= 300 else f"{text[:140]}...{text[-140:]}"


def bad_file(name: object, received: str, expected: str, fix: str = DOWNLOAD_AGAIN) -> InputError:
    """The error for a file or folder that cannot be used as it is."""
    return InputError(f"{shown(name)}: received {received}; expected {expected}. {fix}")


def reason(error: BaseException) -> str:
    """What an exception says, without its class hierarchy or a second copy of the path."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__)[:300]


@contextmanager
def opened(path: PathLike) -> Iterator[tuple[BinaryIO, int]]:
    """Opens a regular file and yields (file, size in bytes); what goes wrong is an `InputError`."""

    def nonblocking(name: str, flags: int) -> int:
        # Opening a named pipe would otherwise wait for a writer for ever.
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    try:
        file = open(path, "rb", opener=nonblocking)  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise bad_file(
            path, reason(error), "a readable file", "Check the path and its permissions."
        ) from None
    with file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise bad_file(
                path, "a device, pipe or socket", "a regular file", "Give the file itself."
            )
        try:
            yield cast(BinaryIO, file), info.st_size
        except (OSError, EOFError, zlib.error) as error:
            raise bad_file(path, f"damaged content ({reason(error)})", "a complete file") from None


def read_bytes(path: PathLike, max_bytes: int) -> bytes:
    """The whole content of a regular file of at most `max_bytes`."""
    with opened(path) as (file, size):
        if size > max_bytes:
            raise bad_file(path, f"{size:,} bytes", f"at most {max_bytes:,} bytes")
        data = file.read(size + 1)
        if len(data) != size:
            raise bad_file(
                path,
                f"{len(data):,} bytes of {size:,}",
                "a file that does not change while it is read",
                "Wait until it is completely written.",
            )
        return data


def is_gzip(file: BinaryIO) -> bool:
    """Whether an opened file starts as gzip does; the position is left at the start."""
    start = file.read(2)
    file.seek(0)
    return start == b"\x1f\x8b"


def gunzip(file: BinaryIO) -> BinaryIO:
    """The decompressed stream; its last read checks the length and CRC stored by gzip."""
    return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))


def max_gunzipped_bytes(num_stored_bytes: int) -> int:
    """No gzip file of this size can hold more than this."""
    return num_stored_bytes * _MAX_DEFLATE_RATIO


def read_into(file: BinaryIO, buffer: memoryview) -> int:
    """Fills `buffer` from `file` in chunks and returns the number of bytes obtained."""
    done = 0
    while done < len(buffer):
        chunk = file.read(min(CHUNK_BYTES, len(buffer) - done))
        if not chunk:
            break
        buffer[done : done + len(chunk)] = chunk
        done += len(chunk)
    return done


def decode_text(data: bytes, name: object) -> str:
    """UTF-8 text, with or without a byte-order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise bad_file(name, f"bytes that are not text ({error.reason})", "UTF-8 text") from None
