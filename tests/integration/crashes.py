"""Runs that are killed, and what must be the same afterwards."""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.launch.main_test import assert_same_run
from tests.launch.running import records

ROOT = pathlib.Path(__file__).parents[2]


class Server:
    """The launcher in processes of its own, without the wait for TensorFlow."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    def run(
        self,
        args: Sequence[str],
        *,
        kill_at: int = 0,
        from_checkpoint: bool = False,
        kill_after: float | None = None,
        measure: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        """Exit code, or minus the signal that ended it, and what it said on stderr.

        Args:
            args: the command line.
            kill_at: number of the call that changes the disk before which it is killed.
            from_checkpoint: count such calls from the first checkpoint of the process on.
            kill_after: seconds after which it is killed.
            measure: file that gets memory, threads and open files after each round.
        """
        with tempfile.NamedTemporaryFile("r") as output:
            request = {
                "args": list(args),
                "kill_at": kill_at,
                "from_checkpoint": from_checkpoint,
                "output": output.name,
            }
            if measure is not None:
                request["measure"] = str(measure)
            print(json.dumps(request), file=self._process.stdin, flush=True)
            pid = int(self._process.stdout.readline())
            timer = None
            if kill_after is not None:
                timer = threading.Timer(kill_after, _kill, [pid])
                timer.start()
            status = int(self._process.stdout.readline())
            if timer is not None:
                timer.cancel()
                timer.join()
            return status, output.read()

    def close(self) -> None:
        self._process.communicate()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Chain:
    """One run that is killed again and again.

    Attributes:
        num_kills: how often it really was; a run that ended before its time was not.
    """

    def __init__(self, server: Server, args: Sequence[str], folder: pathlib.Path):
        self._server, self._args, self._folder = server, [*args, f"--output_dir={folder}"], folder
        self.num_kills = 0

    def kill(self, **when) -> bool:
        """Whether it was killed; otherwise the run has ended by itself."""
        status, said = self._server.run(self._args, **when)
        assert status in (0, -signal.SIGKILL), said
        self.num_kills += status != 0
        return status != 0

    def end(self) -> None:
        status, said = self._server.run(self._args)
        assert (status, said) == (0, "")


def assert_as_if_never_killed(whole: pathlib.Path, cut: pathlib.Path) -> None:
    """Weights and log bit for bit, TensorBoard without gap or fork, nothing left over."""
    assert_same_run(whole, cut)
    rounds = [r["round"] for r in records(cut)]
    assert rounds == list(range(1, len(rounds) + 1))
    assert curves(cut) == curves(whole)
    # Names of event files have the time in them.
    names = lambda folder: sorted(p.name.partition("tfevents")[0] for p in folder.iterdir())  # noqa: E731
    assert names(cut) == names(whole)
    summaries = [json.loads((f / "summary.json").read_text()) for f in (whole, cut)]
    for summary in summaries:
        del summary["seconds"], summary["eval_seconds"]
    assert summaries[0] == summaries[1]
    initial = [(f / "initial_weights.npz").read_bytes() for f in (whole, cut)]
    assert initial[0] == initial[1]
    assert not [p for p in cut.rglob("*") if p.suffix == ".tmp" or p.name.startswith(".new")]


def curves(folder: pathlib.Path) -> dict[str, list]:
    """Every scalar of TensorBoard but the times, step by step."""
    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(e.step, e.tensor_proto.SerializeToString()) for e in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
        if "/" in tag and "seconds" not in tag and "_hparams_" not in tag
    }


def random_kills(chain: Chain, whole_seconds: float, number: int, generator: random.Random) -> None:
    """Kills at random moments of what is at most a whole run."""
    for _ in range(number):
        chain.kill(kill_after=generator.uniform(0.05, whole_seconds))


def timed(server: Server, args: Sequence[str]) -> float:
    began = time.monotonic()
    status, said = server.run(args)
    assert (status, said) == (0, "")
    return time.monotonic() - began
