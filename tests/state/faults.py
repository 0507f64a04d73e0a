"""A disk that fails: stands in for ``os`` in the modules that write files."""

import errno
import os

from tf_fedsam.state import checkpoint, files

CHANGES = ("open", "write", "fsync", "ftruncate", "replace", "unlink")


class FailingDisk:
    """Passes everything on to ``os`` but fails at one of the calls that change the disk.

    Args:
        fail_at: number of the call that fails, from 1; never if larger than their number.
        names: the calls that count.
        code: errno of the failure.
        killed: fail at every call from there on, as if the process had been killed: whatever it
            tries to clean up has no effect.
    """

    def __init__(self, fail_at, names=CHANGES, code=errno.ENOSPC, killed=False):
        self.fail_at, self.names, self.code, self.killed = fail_at, names, code, killed
        self.calls: list[str] = []

    @property
    def failed(self):
        return len(self.calls) >= self.fail_at

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in CHANGES:
            return real

        def call(*args, **kwargs):
            if self.killed and self.failed:
                raise OSError(self.code, os.strerror(self.code))
            if name in self.names:
                self.calls.append(name)
                if len(self.calls) == self.fail_at:
                    if name == "write":  # what fits is written
                        os.write(args[0], args[1][: len(args[1]) // 2])
                    raise OSError(self.code, os.strerror(self.code))
            return real(*args, **kwargs)

        return call

    def install(self, monkeypatch):
        for module in (files, checkpoint):
            monkeypatch.setattr(module, "os", self)
        return self
