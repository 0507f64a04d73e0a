"""Rounds with checkpoints, and with client state on the disk."""

from __future__ import annotations  # of what is loaded later

import contextlib
import pathlib
import tempfile
import time

import numpy as np

from launch.benchmarks import tables, works
from launch.benchmarks.measuring import How
from tf_fedsam.algorithms.registry import find


def checkpoints(how: How) -> None:
    """Rounds without and with a checkpoint, in turn; the ratio is the median over such pairs.

    Here a round with a checkpoint ends when that is on the disk, though training would go on
    meanwhile, so the ratio is an upper bound. How long training really waits stands beside it.
    """
    from tf_fedsam.state.checkpoint import CheckpointWriter

    strategy, rows = how.strategy(), []
    pathlib.Path("runs").mkdir(exist_ok=True)  # on the disk that runs are on
    for work, method in (("W1", "fedavg"), ("W2", "fedavg"), ("W1", "scaffold")):
        process = works.process_of(work, method, strategy, works.examples(work))
        state = process.initialize()
        seconds: dict[bool, list[float]] = {False: [], True: []}
        waits: list[float] = []
        with (
            tempfile.TemporaryDirectory(dir="runs") as folder,
            CheckpointWriter(pathlib.Path(folder)) as writer,
        ):
            for _ in range(1 + how.repeats):
                for saving, measured in seconds.items():
                    began = time.perf_counter()
                    state, _ = process.next(state, works.cohort_of(state.round_num))
                    if saving:
                        called = time.perf_counter()
                        writer.save(state, {})
                        waits.append(time.perf_counter() - called)
                        writer.flush()
                    measured.append(time.perf_counter() - began)
        without, with_ = (np.asarray(seconds[s][1:]) for s in (False, True))  # the first traces
        ratio = np.median(with_ / without)
        times = f"{np.median(without):.3f}", f"{np.median(with_):.3f}"
        wait = f"{1000 * np.median(waits):.2f} ms"
        rows.append((work, find(method).title, *times, f"{ratio:.3f}", wait))
    header = ("work", "method", "s a round", "with checkpoint", "ratio", "training waits")
    tables.show("checkpoints", header, rows)


def client_state(how: How) -> None:
    """Rounds of W1 with SCAFFOLD, in turn with its state in memory and on the disk.

    Each has a checkpoint, and ends when that is on the disk.
    """
    from tf_fedsam.state.checkpoint import CheckpointWriter

    process = works.process_of("W1", "scaffold", how.strategy(), works.examples("W1"))
    states = {where: process.initialize() for where in ("memory", "disk")}
    seconds: dict[str, list[float]] = {where: [] for where in states}
    pathlib.Path("runs").mkdir(exist_ok=True)
    unmeasured = works.NUM_CLIENTS // works.COHORT  # until most clients have a row
    with tempfile.TemporaryDirectory(dir="runs") as folder, contextlib.ExitStack() as stack:
        writers = {
            where: stack.enter_context(
                CheckpointWriter(pathlib.Path(folder) / where, release=where == "disk")
            )
            for where in states
        }
        for number in range(unmeasured + how.repeats):
            for where, state in states.items():
                began = time.perf_counter()
                upcoming = works.cohort_of(number + 1)
                states[where], _ = process.next(state, works.cohort_of(number), upcoming=upcoming)
                writers[where].save(states[where], {})
                writers[where].flush()
                seconds[where].append(time.perf_counter() - began)
    memory, disk = (np.asarray(seconds[where][unmeasured:]) for where in states)
    times = f"{np.median(memory):.3f}", f"{np.median(disk):.3f}"
    row = ("W1", find("scaffold").title, *times, f"{np.median(disk / memory):.3f}")
    tables.show("client_state", ("work", "method", "in memory", "on the disk", "ratio"), [row])
