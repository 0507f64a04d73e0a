"""Two workers on loopback: the result of one process with two devices, whatever happens to them."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from absl.testing import flagsaver

from launch import main
from tests.launch.running import records, toy_file

ROOT = pathlib.Path(__file__).parents[2]
ROUNDS = 60
pytestmark = [pytest.mark.no_cover, pytest.mark.usefixtures("usual_signals")]

# BatchNorm and dropout, so that statistics and random numbers are shared, too.
MODEL = """
import keras

def make(input_shape, num_classes):
    return keras.Sequential([
        keras.Input(input_shape), keras.layers.Dense(6), keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.2), keras.layers.Dense(num_classes),
    ])
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Workers:
    """Two processes of one run, worker 0 the chief."""

    def __init__(self, folder: pathlib.Path, *args: str, own: tuple[str, ...] = ()):
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        self.processes = []
        usual = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
        for index in range(2):
            place = {
                "cluster": {"worker": addresses},
                "task": {"type": "worker", "index": index},
            }
            command = [sys.executable, "-m", "launch.main", "--strategy=multi_worker"]
            command += ["--devices=cpu:1", *args, *(own if index else ())]
            self.processes.append(
                subprocess.Popen(
                    # Each its own folder: only that of the chief is written to.
                    [*command, f"--output_dir={folder}{index or ''}"],
                    env={**usual, "TF_CONFIG": json.dumps(place)},
                    cwd=ROOT,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            )
        self.folder = folder

    def wait_for_round(self, number: int) -> None:
        log = self.folder / "rounds.jsonl"
        for _ in range(600):
            if log.exists() and log.read_text().count("\n") >= number:
                return
            assert self.processes[0].poll() is None, self.processes[0].communicate()
            time.sleep(0.1)
        raise AssertionError(f"round {number} was not reached")

    def end(self) -> tuple[list[int], list[str], list[str]]:
        """Exit codes, what was printed, what was printed as an error."""
        told = [process.communicate(timeout=120) for process in self.processes]
        codes = [process.returncode for process in self.processes]
        return codes, [out for out, _ in told], [err for _, err in told]


def weights(folder: pathlib.Path) -> list[bytes]:
    with np.load(folder / "final_weights.npz") as found:
        return [found[name].tobytes() for name in sorted(found.files)]


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """The settings of the runs, and the folder of one process's with two devices."""
    folder = tmp_path_factory.mktemp("problem")
    model = folder / "network.py"
    model.write_text(MODEL)
    args = [
        *("--dataset=npz", f"--data_file={toy_file(folder)}", f"--model={model}:make"),
        *("--partition=given", "--participation=0.75", f"--rounds={ROUNDS}", "--eval_every=20"),
        *("--algo=scaffold", "--relaxed_init=0.1", "--nesterov=0.5", "--local_epochs=2"),
    ]
    alone = folder / "alone"
    with flagsaver.flagsaver():
        assert main.run([*args, "--devices=cpu:2", f"--output_dir={alone}"]) == 0
    return args, alone


def test_as_one_process_whatever_happens(problem, tmp_path):
    """Asked to stop, killed, gone on with: in the end bit for bit what one process gives."""
    args, alone = problem
    folder = tmp_path / "run"

    workers = Workers(folder, *args)
    workers.wait_for_round(5)
    workers.processes[1].send_signal(signal.SIGTERM)  # asking one asks all
    codes, printed, _ = workers.end()
    assert codes == [1, 1]
    done = len(records(folder))
    assert 5 <= done < ROUNDS
    assert all(f"Stopped after round {done} of {ROUNDS}" in out for out in printed)

    workers = Workers(folder, *args)
    workers.wait_for_round(done + 5)
    began = time.monotonic()
    workers.processes[1].kill()
    codes, _, errors = workers.end()
    assert codes == [1, -signal.SIGKILL]
    assert time.monotonic() - began < 60
    assert errors[0].startswith("error: Worker 1 of 2 does not answer any more")
    assert "is intact. Give the same command on every worker again." in errors[0]
    assert "Traceback" not in errors[0]

    codes, printed, _ = Workers(folder, *args).end()
    assert codes == [0, 0]
    assert "Going on after round" in printed[0]
    assert printed[1] == ""
    assert not pathlib.Path(f"{folder}1").exists()  # the other worker writes nothing
    assert weights(folder) == weights(alone)
    both = records(folder), records(alone)
    told = [[(r["train_loss"], r.get("test_accuracy")) for r in each] for each in both]
    assert told[0] == told[1]
    # 4 SCAFFOLD vectors are added up (mean, total, two of the diagnostics); 2 replicas' ring takes
    # (2 - 1) / 2 of the bytes of a sum round twice, and of the rows of all clients once.
    size = 5 * 6 + 6 + 2 * 6 + 6 * 3 + 3
    summed = 4 * (4 * size + 2 * 6 + 3 * 6)
    assert both[0][-1]["network_bytes"] == summed + 4 * 3 * 2 * size / 2

    more = [a for a in args if not a.startswith("--rounds")] + [f"--rounds={ROUNDS + 2}"]
    with flagsaver.flagsaver():  # on another number of workers
        assert main.run([*more, "--devices=cpu:2", f"--output_dir={folder}"]) == 0
    assert len(records(folder)) == ROUNDS + 2


def test_workers_that_differ(problem, tmp_path):
    args, _ = problem
    workers = Workers(tmp_path / "run", *args, own=("--lr=0.5",))
    codes, _, errors = workers.end()
    assert codes == [2, 2]
    for error in errors:
        assert error.startswith("error: Worker 1 is not like worker 0: lr: 0.5 and not ")
    assert not (tmp_path / "run").exists()


def test_a_chief_that_cannot_begin(problem, tmp_path):
    args, _ = problem
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "letter.txt").write_text("mine")
    codes, _, errors = Workers(folder, *args).end()
    assert codes == [2, 2]
    assert "holds files that are not of a run" in errors[0]
    assert errors[1].startswith("error: Worker 0 could not go on: ")
