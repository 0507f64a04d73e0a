"""Disks that fail: they stand in for ``os`` in the modules that write files."""

import errno
import os
from pathlib import Path

from tf_fedsam.state import files
from tf_fedsam.state.checkpoint import writer

CHANGES = ("open", "write", "fsync", "ftruncate", "replace", "unlink")


class Disk:
    """Passes everything on to ``os``, and counts.

    Attributes:
        num_bytes: bytes written.
    """

    def __init__(self):
        self.num_bytes = 0

    def before(self, name, args):
        """Called before each call that changes the disk, to let it fail."""

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in CHANGES:
            return real

        def call(*args, **kwargs):
            self.before(name, args)
            result = real(*args, **kwargs)
            self.num_bytes += result if name == "write" else 0
            return result

        return call

    def install(self, monkeypatch):
        for module in (files, writer):
            monkeypatch.setattr(module, "os", self)
        return self


def fail(code):
    raise OSError(code, os.strerror(code))


class FailingDisk(Disk):
    """Fails at one of the calls that change the disk.

    Args:
        fail_at: number of the call that fails, from 1; never if larger than their number.
        names: the calls that count.
        code: errno of the failure.
        killed: fail at every call from there on, as if the process had been killed: whatever it
            tries to clean up has no effect.
    """

    def __init__(self, fail_at, names=CHANGES, code=errno.ENOSPC, killed=False):
        super().__init__()
        self.fail_at, self.names, self.code, self.killed = fail_at, names, code, killed
        self.calls: list[str] = []

    @property
    def failed(self):
        return len(self.calls) >= self.fail_at

    def before(self, name, args):
        if self.killed and self.failed:
            fail(self.code)
        if name in self.names:
            self.calls.append(name)
            if len(self.calls) == self.fail_at:
                if name == "write":  # what fits is written
                    os.write(args[0], args[1][: len(args[1]) // 2])
                fail(self.code)


class KillingDisk(Disk):
    """As if the process were killed when it has written so many bytes."""

    def __init__(self, max_bytes):
        super().__init__()
        self.max_bytes, self.killed = max_bytes, False

    def before(self, name, args):
        if name == "write" and self.num_bytes + len(args[1]) > self.max_bytes and not self.killed:
            os.write(args[0], args[1][: self.max_bytes - self.num_bytes])
            self.killed = True
        if self.killed:
            fail(errno.EIO)


class SmallDisk(Disk):
    """Has no room for more than so many bytes in a folder."""

    def __init__(self, folder, max_bytes):
        super().__init__()
        self.folder, self.max_bytes = Path(folder), max_bytes

    def before(self, name, args):
        if name == "write":
            room = self.max_bytes - used(self.folder)
            if len(args[1]) > room:
                os.write(args[0], args[1][:room])
                fail(errno.ENOSPC)


def used(folder) -> int:
    """Bytes in a folder."""
    return sum(path.stat().st_size for path in Path(folder).iterdir())
