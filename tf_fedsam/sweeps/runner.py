"""Runs the cells of a sweep, each in a process of its own, and keeps count.

A cell is a run, whose folder makes it safe to start again at any time: what is complete is left
alone, what was cut goes on, and what another process is working on is waited for.
The processes are not of the terminal's group: a signal goes to the sweep alone, which passes it on
once. If the sweep is killed, its cells run to their end, and the next call finds them.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tf_fedsam.errors import InputError
from tf_fedsam.runs import interrupts
from tf_fedsam.runs.exits import BAD_INPUT
from tf_fedsam.runs.folder import LOCK_FILE
from tf_fedsam.state.files import write_atomically
from tf_fedsam.state.lock import RunLock
from tf_fedsam.sweeps.cells import Cell

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
STOPPED = "stopped"  # by the user; the next call goes on with it
ELSEWHERE = "in use"  # by a process that is not of this sweep
POLL_SECONDS, LOOK_SECONDS = 0.1, 2.0
_TAIL_BYTES, _TAIL_LINES = 4000, 8


@dataclasses.dataclass
class Job:
    """What is known about a cell.

    Attributes:
        cell: the cell.
        args: of Python, for its process.
        log: what its processes print.
        status: one of the words above.
        attempts: processes started in this call.
        exit_code: of the last of them.
        seconds: that they took.
        error: its last lines, if it failed.
        first_round: rounds that were there when this call began.
        last_round: rounds that are there, once it is done: fewer than were wanted if it stopped
            early.
    """

    cell: Cell
    args: Sequence[str]
    log: pathlib.Path
    status: str = WAITING
    attempts: int = 0
    exit_code: int | None = None
    seconds: float = 0.0
    error: str = ""
    first_round: int = 0
    last_round: int = 0

    @property
    def command(self) -> str:
        """What can be typed to run the cell alone."""
        return f"python {shlex.join(self.args)}"

    def describe(self) -> dict[str, Any]:
        """For ``sweep.json``."""
        cell = self.cell
        return {
            "folder": cell.name,
            "status": self.status,
            "algo": cell.algo,
            "dataset": cell.dataset,
            "seed": cell.seed,
            "varied": dict(cell.varied),
            "rounds": cell.rounds,
            "command": self.command,
            "log": str(pathlib.Path(self.log.parent.name) / self.log.name),
            "attempts": self.attempts,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 1),
            "error": self.error,
        }


class Process(Protocol):
    """What the runner needs of a started cell."""

    def poll(self) -> int | None: ...

    def send_signal(self, sig: int, /) -> None: ...

    def kill(self) -> None: ...


class Display:
    """Shows how it goes; this one shows nothing."""

    def ended(self, job: Job) -> None:
        """A job is done, failed or in use elsewhere."""

    def update(self, jobs: Sequence[Job], stopping: bool) -> None:
        """Called often."""

    def close(self) -> None:
        """Nothing more comes."""


def start(args: Sequence[str], log: pathlib.Path, environment: Mapping[str, str]) -> Process:
    """A process of Python that prints into a log."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *args],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )


class Runner:
    """Runs jobs, some at a time.

    Args:
        cells: what to run.
        out: folder of the sweep.
        arguments: of Python, for the process of a cell.
        num_jobs: processes at a time.
        retries: how often a cell that failed is started again.
        gpus: values of CUDA_VISIBLE_DEVICES, which cells with devices=auto get in turn; none: as it
            is.
        environment: variables of the processes, beside those of this one.
        about: what else ``sweep.json`` says.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        out: pathlib.Path,
        arguments: Callable[[Cell], Sequence[str]],
        *,
        num_jobs: int = 1,
        retries: int = 0,
        gpus: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        about: Mapping[str, Any] | None = None,
    ):
        self._out, self._retries, self._gpus = out, retries, gpus
        self._environment, self._about = dict(environment or {}), dict(about or {})
        self._free = list(range(num_jobs))
        self._running: dict[int, tuple[Job, Process, float, int]] = {}
        self._looked = 0.0
        self.jobs = [
            Job(cell, tuple(arguments(cell)), out / "logs" / f"{cell.name}.log") for cell in cells
        ]
        for job in self.jobs:
            if job.cell.is_complete():
                job.status = DONE

    def run(self, display: Display) -> None:
        """Until nothing is left to do, or a signal; all processes have then ended."""
        (self._out / "logs").mkdir(parents=True, exist_ok=True)
        for job in self.jobs:
            job.first_round = job.last_round = num_rounds(job.cell)
        self._write()
        with interrupts.noted() as stop:
            try:
                self._loop(display, stop)
            except KeyboardInterrupt:  # the second signal
                self._end_all(display, stop)
            except BaseException:
                self._end_all(Display(), stop)  # it may be the display that does not work
                raise
        for job in self.jobs:
            if job.status in (WAITING, ELSEWHERE):
                job.status = STOPPED
        self._write()

    def _loop(self, display: Display, stop: interrupts.Request) -> None:
        told = False
        while True:
            self._collect(display, stop)
            if stop.made and not told:
                told = True
                self._signal(signal.SIGTERM)
            if not stop.made:
                self._look_elsewhere()
                self._fill(display)
            open_jobs = any(job.status in (WAITING, ELSEWHERE) for job in self.jobs)
            if not self._running and (stop.made or not open_jobs):
                return
            display.update(self.jobs, stop.made)
            time.sleep(POLL_SECONDS)

    def _end_all(self, display: Display, stop: interrupts.Request) -> None:
        """The processes do not outlive an error, nor a second signal, which ends them at once."""
        stop.made = True
        self._signal(signal.SIGTERM)
        try:
            while self._running:
                self._collect(display, stop)
                time.sleep(POLL_SECONDS)
        except BaseException:
            for _, process, _, _ in self._running.values():
                process.kill()
            raise

    def _signal(self, number: int) -> None:
        # SIGTERM, since a shell starts background jobs with SIGINT ignored, which they inherit.
        for _, process, _, _ in self._running.values():
            with contextlib.suppress(OSError):
                process.send_signal(number)

    def _fill(self, display: Display) -> None:
        """Starts what waits while there is room."""
        for job in self.jobs:
            if not self._free:
                return
            if job.status != WAITING:
                continue
            if job.cell.is_complete():  # by a process that was waited for
                job.status = DONE
                self._changed(job, display)
            elif in_use(job.cell.run.path):
                job.status = ELSEWHERE
                self._changed(job, display)
            else:
                self._start(job)

    def _start(self, job: Job) -> None:
        slot = self._free.pop(0)
        environment = dict(self._environment)
        if self._gpus and job.cell.resolved.devices == "auto":
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[slot % len(self._gpus)]
        with job.log.open("ab") as log:
            log.write(f"$ {job.command}\n".encode())
            begins = log.tell()
        process = start(job.args, job.log, environment)
        job.status, job.attempts = RUNNING, job.attempts + 1
        self._running[slot] = (job, process, time.monotonic(), begins)
        self._write()

    def _collect(self, display: Display, stop: interrupts.Request) -> None:
        """Takes in what has ended."""
        for slot, (job, process, began, log_begins) in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            del self._running[slot]
            self._free = sorted([*self._free, slot])
            job.exit_code, job.error = code, ""
            job.seconds += time.monotonic() - began
            if code == 0 and job.cell.is_complete():
                job.status = DONE
            elif stop.made:
                job.status = STOPPED
            elif code == BAD_INPUT and in_use(job.cell.run.path):
                job.status = ELSEWHERE
            elif code != BAD_INPUT and job.attempts <= self._retries:
                job.status = WAITING
            else:
                job.status, job.error = FAILED, last_lines(job.log, log_begins)
            self._changed(job, display)

    def _look_elsewhere(self) -> None:
        """Whether the processes that hold folders have ended."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        for job in self.jobs:
            if job.status == ELSEWHERE and not in_use(job.cell.run.path):
                job.status = WAITING

    def _changed(self, job: Job, display: Display) -> None:
        self._write()
        if job.status == DONE:
            job.last_round = num_rounds(job.cell)
        if job.status != WAITING:
            display.ended(job)

    def _write(self) -> None:
        content = {**self._about, "cells": [job.describe() for job in self.jobs]}
        write_atomically(self._out / "sweep.json", (json.dumps(content, indent=1) + "\n").encode())


def in_use(folder: pathlib.Path) -> bool:
    """Whether a process holds a run folder."""
    if not (folder / LOCK_FILE).exists():
        return False
    try:
        with RunLock(folder):
            return False
    except InputError as error:
        return isinstance(error.__cause__, BlockingIOError)


def num_rounds(cell: Cell) -> int:
    """Rounds in a cell's log."""
    record = last_record(cell)
    return 0 if record is None else int(record.get("round", 0))


def last_record(cell: Cell) -> dict[str, Any] | None:
    """The last round of a log that may be being written, with the last accuracy there was."""
    try:
        with cell.run.rounds_file.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - (1 << 20)))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    found: dict[str, Any] | None = None
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except ValueError:
            break  # cut by where reading began
        found = record if found is None else found
        if record.get("test_accuracy") is not None:
            return found | {"test_accuracy": record["test_accuracy"]}
    return found


def last_lines(log: pathlib.Path, begins: int) -> str:
    """The end of what a process printed."""
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(begins, file.tell() - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-_TAIL_LINES:])
