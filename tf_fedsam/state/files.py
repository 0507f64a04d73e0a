"""Files that a kill, a full disk or a power cut leaves whole: the old content or the new one."""

import contextlib
import errno
import hashlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self

from tf_fedsam.errors import InputError

_BINARY = getattr(os, "O_BINARY", 0)
_CHUNK_BYTES = 1 << 20


class AtomicFile:
    """A file written beside its name; flushed and renamed into place if the block ends well.

    The folder's own entry is flushed by :func:`sync_folder`, once for any number of files.

    Attributes:
        num_bytes: bytes written so far.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        self.num_bytes = 0
        self._beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.tmp")
        self._descriptor = -1

    def __enter__(self) -> Self:
        with _naming(self.path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
            self._descriptor = os.open(self._beside, flags, 0o666)
        return self

    def write(self, data: bytes | memoryview) -> None:
        """Adds bytes; a memory view must be one of single bytes."""
        with _naming(self.path):
            _write_all(self._descriptor, data)
        self.num_bytes += len(data)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _naming(self.path):
            try:
                try:
                    if error is None:
                        os.fsync(self._descriptor)
                finally:
                    os.close(self._descriptor)
                if error is None:
                    os.replace(self._beside, self.path)
            except BaseException:
                self._discard()
                raise
            if error is not None:
                self._discard()

    def _discard(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._beside)


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces the file's content; when it returns, the new content is on the disk."""
    with AtomicFile(path) as file:
        file.write(data)
    sync_folder(Path(path).parent)


def append_line(path: Path, text: str, *, sync: bool = True) -> int:
    """Appends one line as a whole, and gives the file's new size.

    Args:
        path: the file; made if it does not exist.
        text: the line without its end.
        sync: flush it to the disk. A log that is cut back to the size recorded in a checkpoint can
            leave that to the checkpoint.
    """
    if "\n" in text or "\r" in text:
        raise ValueError(f"A line must not contain a line break. Received: {text!r}.")
    with _naming(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            data = f"{text}\n".encode()
            try:
                _write_all(descriptor, data)
                if sync:
                    os.fsync(descriptor)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)  # no half line, and nobody was told of a whole
                raise
            return size + len(data)
        finally:
            os.close(descriptor)


class LogChecksum:
    """Size and checksum of a log that grows, to be recorded in a checkpoint.

    A call reads what was added since the one before, so a long log costs no more than a short one.

    Args:
        path: the log; it may be missing as long as it is empty.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        self._size = 0
        self._digest = hashlib.sha256()

    def __call__(self) -> tuple[int, str]:
        """Bytes in the log, and the SHA-256 of them."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as stream:
            stream.seek(self._size)
            while data := stream.read(_CHUNK_BYTES):
                self._digest.update(data)
                self._size += len(data)
        return self._size, self._digest.hexdigest()


def cut_back(path: Path, size: int, sha256: str | None = None) -> None:
    """Cuts a log back to a size it once had.

    Args:
        path: the log; it may be missing if it was empty.
        size: bytes to keep. A shorter log is refused: lines that must be there are lost.
        sha256: checksum of what is kept, if it is known (see :class:`LogChecksum`). Another content
            is refused.
    """
    path = Path(path)
    received = path.stat().st_size if path.exists() else 0
    if received < size:
        raise InputError(
            f"Received: {path} with {received} bytes. Expected: at least the {size} bytes it had "
            f"at the last checkpoint. It was cut or replaced: put it back, or start over in an "
            f"empty folder."
        )
    if sha256 is not None and _sha256(path, size) != sha256:
        raise InputError(
            f"Received: {path} with another content than it had at the last checkpoint, in the "
            f"first {size} bytes. It was changed: put it back, or start over in an empty folder."
        )
    if received > size:
        with _naming(path):
            descriptor = os.open(path, os.O_RDWR | _BINARY)
            try:
                os.ftruncate(descriptor, size)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _sha256(path: Path, size: int) -> str:
    """Checksum of the first bytes of a file that has them, or is missing and empty."""
    digest = hashlib.sha256()
    if size:
        with path.open("rb") as stream:
            for start in range(0, size, _CHUNK_BYTES):
                digest.update(stream.read(min(_CHUNK_BYTES, size - start)))
    return digest.hexdigest()


def checksum(path: Path) -> str:
    """SHA-256 of a file's content, or of the names and contents of all files in a folder."""
    if not path.is_dir():
        return _sha256(path, path.stat().st_size if path.exists() else 0)
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(path)}\0{checksum(file)}\0".encode(errors="replace"))
    return digest.hexdigest()


def sync_file(path: Path) -> None:
    """Flushes to the disk what was written to a file by whomever; it may be missing."""
    with contextlib.suppress(FileNotFoundError), _naming(path):
        descriptor = os.open(path, os.O_RDWR | _BINARY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Flushes a folder's entries, so that a power cut does not undo a rename."""
    if os.name == "nt":  # Windows has no such call; NTFS journals its renames
        return
    with _naming(folder):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
                raise
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:  # one call writes at most 2 GiB, and less if the disk is nearly full
        rest = rest[os.write(descriptor, rest) :]


@contextlib.contextmanager
def _naming(path: Path):
    """Names the file in errors of calls that know only its descriptor."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
