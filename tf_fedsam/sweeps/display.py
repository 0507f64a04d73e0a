"""What a user sees of a sweep while it runs.

A line for each cell that has ended; below it, on a terminal, the state of the running ones, drawn
again in place, and elsewhere a line a minute.
"""

import shutil
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from tf_fedsam import text
from tf_fedsam.sweeps.cells import Cell
from tf_fedsam.sweeps.runner import (
    DONE,
    ELSEWHERE,
    FAILED,
    RUNNING,
    STOPPED,
    WAITING,
    Display,
    Job,
    last_record,
)

DRAW_SECONDS, HEARTBEAT_SECONDS = 0.5, 60.0
_BAR = 20


class Lines(Display):
    """For a log: ended cells, and a line a minute."""

    def __init__(self, width: int, stream: TextIO | None = None):
        self._width, self._stream = width, stream or sys.stdout
        self._began = self._shown = time.monotonic()

    def ended(self, job: Job) -> None:
        self._print(ended_line(job, self._width))

    def update(self, jobs: Sequence[Job], stopping: bool) -> None:
        now = time.monotonic()
        if now - self._shown >= HEARTBEAT_SECONDS:
            self._shown = now
            running = [f"{name} {rest}" for name, rest in running_cells(jobs)]
            shown = "; ".join(running[:4]) + (" ..." if len(running) > 4 else "")
            self._print(f"{status_line(jobs, now - self._began, stopping)}; {shown}")

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class Live(Display):
    """For a terminal: ended cells, and below them the running ones, drawn again and again."""

    def __init__(self, width: int, stream: TextIO | None = None):
        self._width, self._stream = width, stream or sys.stdout
        self._began, self._drawn, self._height = time.monotonic(), 0.0, 0

    def ended(self, job: Job) -> None:
        self._replace([ended_line(job, self._width)], 0)
        self._drawn = 0.0

    def update(self, jobs: Sequence[Job], stopping: bool) -> None:
        now = time.monotonic()
        if now - self._drawn < DRAW_SECONDS:
            return
        self._drawn = now
        columns, rows = shutil.get_terminal_size()
        cells = running_cells(jobs)
        shown = cells[: max(1, rows - 4)]
        lines = ["", status_line(jobs, now - self._began, stopping)]
        lines += [f"        {name:<{self._width}}  {rest}" for name, rest in shown]
        if len(shown) < len(cells):
            lines.append(f"        ... and {len(cells) - len(shown)} more")
        self._replace([line[: columns - 1] for line in lines], len(lines))

    def close(self) -> None:
        """Leaves the ended cells alone on the screen."""
        self._replace([], 0)

    def _replace(self, lines: Sequence[str], height: int) -> None:
        """Writes over the block that was drawn last; the last ``height`` lines are the next."""
        back = f"\x1b[{self._height}F\x1b[J" if self._height else ""
        self._stream.write(back + "".join(f"{line}\n" for line in lines))
        self._stream.flush()
        self._height = height


def make(cells: Sequence[Cell]) -> Display:
    """What suits the place that standard output goes to."""
    width = max(len(cell.name) for cell in cells)
    return Live(width) if sys.stdout.isatty() else Lines(width)


def status_line(jobs: Sequence[Job], elapsed: float, stopping: bool) -> str:
    """How many cells are in which state, and how long it will take."""
    count = {status: sum(job.status == status for job in jobs) for status in _ORDER}
    words = [f"{count[DONE]} of {len(jobs)} cells done"]
    words += [f"{count[s]} {s}" for s in _ORDER if s != DONE and count[s]]
    words[-1] += f"   {_about(elapsed)} so far"
    if stopping:
        return f"{', '.join(words)}, stopping after the rounds under way"
    left = seconds_left(jobs, elapsed)
    return ", ".join(words) + ("" if left is None else f", about {_about(left)} to go")


def _about(seconds: float) -> str:
    return text.duration(seconds) if seconds >= 60 else f"{seconds:.0f} s"


_ORDER = (DONE, RUNNING, WAITING, ELSEWHERE, FAILED, STOPPED)


def seconds_left(jobs: Sequence[Job], elapsed: float) -> float | None:
    """From the rounds of this call, which all cells are taken to need the same time for."""
    made = left = 0
    for job in jobs:
        if job.status in (DONE, FAILED, STOPPED):
            made += job.last_round - job.first_round if job.status == DONE else 0
            continue
        record = last_record(job.cell)
        there = 0 if record is None else int(record["round"])
        made += max(0, there - job.first_round)
        left += max(0, job.cell.rounds - there)
    return left * elapsed / made if made else None


def running_cells(jobs: Sequence[Job]) -> list[tuple[str, str]]:
    """Names of the running cells, and how far they are."""
    cells = []
    for job in jobs:
        if job.status != RUNNING:
            continue
        record = last_record(job.cell)
        if record is None:
            cells.append((job.cell.name, "starting"))
            continue
        number, rounds = record["round"], job.cell.rounds
        full = _BAR * number // rounds
        bar = "#" * full + "." * (_BAR - full)
        words = f"{bar}  round {number}/{rounds}"
        accuracy = record.get("test_accuracy")
        cells.append((job.cell.name, words + (f"  {accuracy:.2%}" if accuracy is not None else "")))
    return cells


def ended_line(job: Job, width: int = 0) -> str:
    """One line about a cell that has ended, its name padded to a width."""
    line = f"{job.status:<8}{job.cell.name:<{width}}"
    if job.status == ELSEWHERE:
        return f"{line}  by another process, for which the sweep waits"
    record = last_record(job.cell)
    if record is not None:
        of = "" if job.status == DONE else f" of {job.cell.rounds}"
        line += f"  {record['round']}{of} rounds"
        if record.get("test_accuracy") is not None:
            line += f"  {record['test_accuracy']:.2%}"
    if job.status == FAILED:
        line += f"  {exit_words(job.exit_code)}, see {job.log}"
    return f"{line}  {text.duration(job.seconds)}"


def exit_words(code: int | None) -> str:
    """An exit code for people."""
    if code is not None and code < 0:
        often = " (often: out of memory)" if code == -9 else ""
        return f"killed by signal {-code}{often}"
    return f"exit code {code}"
