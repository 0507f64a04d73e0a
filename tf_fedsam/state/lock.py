"""One process a run folder, with a lock that ends with its process."""

import contextlib
import errno
import os
import platform
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tf_fedsam.errors import InputError

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        # A byte far behind the text, which must stay readable for the one who is refused.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class RunLock:
    """Keeps other processes out of a run folder while the block runs.

    The operating system frees the lock when the process ends, however it ends. The file ``.lock``
    stays: deleting it would let two processes lock two files of the same name.
    """

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self._descriptor = -1

    def __enter__(self) -> Self:
        path = self.folder / ".lock"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise InputError(
                f"Cannot write to the folder {self.folder}: {error.strerror}. Make it writable or "
                f"choose another folder."
            ) from error
        try:
            _try_lock(descriptor)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()} {platform.node()}\n".encode())
        except OSError as error:
            os.lseek(descriptor, 0, os.SEEK_SET)
            holder = os.read(descriptor, 1000).decode(errors="replace").split()
            os.close(descriptor)
            raise self._refusal(error, holder) from error
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def _refusal(self, error: OSError, holder: list[str]) -> InputError:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
            return InputError(
                f"Cannot lock the folder {self.folder}: {error.strerror}. Choose a folder on a "
                f"file system that has room and can lock files."
            )
        pid, host = holder if len(holder) == 2 else ("unknown", "unknown")
        return InputError(
            f"The folder {self.folder} is in use by process {pid} on host {host}. Expected: one "
            f"process a folder. Wait until it ends, stop it, or choose another folder."
        )
