"""How it is measured: how often, where, and in processes of their own."""

from __future__ import annotations  # of what is loaded later

import contextlib
import dataclasses
import json
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tf_fedsam import devices, text
from tf_fedsam.lazy import tf


@dataclasses.dataclass(frozen=True)
class How:
    """What flags say.

    Attributes:
        repeats: measured rounds of each; the median counts.
        devices: as for a run.
        only: some of the methods or models; all if empty.
        works: that methods are measured on.
        workers: machines that a plan is for.
        microbatch: as for a run, of models.
        remat: as for a run, of transformers.
        deterministic: whether a process of its own takes deterministic ops.
    """

    repeats: int = 5
    devices: str = "auto"
    only: Sequence[str] = ()
    works: Sequence[str] = ("W1", "W2")
    workers: int = 100
    microbatch: int | None = None
    remat: bool = False
    deterministic: bool = False

    def strategy(self) -> tf.distribute.Strategy:
        """Makes the devices, and says which."""
        made = devices.make_strategy(self.devices)
        text.say(f"devices: {', '.join(made.extended.worker_devices)}\n")
        return made


@contextlib.contextmanager
def elsewhere(*args: str) -> Iterator[Callable[[], Any]]:
    """Work in its own process; each call asks for one answer."""
    command = ["-m", "launch.bench", *args]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
        ) as process,
    ):

        def ask() -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(b"\n")
            line = process.stdout.readline()
            if line:
                return json.loads(line)
            code = process.wait()
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
            reason = said[-1] if said else "it said nothing"
            if code == -signal.SIGKILL:
                reason = "it was killed, most likely because the machine ran out of memory"
            raise ChildProcessError(f"{shlex.join(command)} failed: {reason}")

        try:
            yield ask
        finally:
            process.kill()


def medians(measured: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Runs all in turn, after one unmeasured round each."""
    for run in measured.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(repeats):
        for name, run in measured.items():
            seconds[name].append(run())
    return {name: float(np.median(values)) for name, values in seconds.items()}


def least(measured: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """The least seconds of each, run in turn."""
    runs = [{name: run() for name, run in measured.items()} for _ in range(repeats)]
    return {name: min(run[name] for run in runs) for name in measured}
