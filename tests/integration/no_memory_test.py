"""A run whose memory is limited in its third round, which needs more than those before."""

import json
import subprocess
import sys

import numpy as np
import pytest

# As much as there is then, and ROOM bytes: what was freed before is still there to be used.
LIMIT = """
import os, resource
from tf_fedsam.runs.callbacks import Callback

class Limit(Callback):
    def on_round_begin(self, number):
        if number == 3 and "{room}":
            pages = int(open("/proc/self/statm").read().split()[0])
            size = pages * resource.getpagesize() + int("{room}")
            resource.setrlimit(resource.RLIMIT_AS, (size, size))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Four small clients and a large one, whose batch is of all its examples; it is in round 3."""
    folder = tmp_path_factory.mktemp("data")
    generator = np.random.default_rng(0)
    owner = np.repeat(np.arange(5), [20, 20, 20, 20, 12_000])
    x = generator.integers(0, 256, (len(owner), 10, 10, 1), dtype=np.uint8)
    y = generator.integers(0, 4, len(owner))
    arrays = {"x_train": x, "y_train": y, "x_test": x[:50], "y_test": y[:50], "client_id": owner}
    np.savez(folder / "data.npz", **arrays)
    (folder / "schedule.json").write_text(json.dumps([[0, 1], [2, 3], [0, 4], [0, 1]]))
    return folder


def train(data, folder, room):
    own = folder / "limit.py"
    own.write_text(LIMIT.format(room=room))
    args = [f"--data_file={data / 'data.npz'}", "--dataset=npz", "--partition=given"]
    args += ["--sampling=schedule", f"--client_schedule={data / 'schedule.json'}", "--rounds=4"]
    args += ["--model=mlp", "--hidden_units=8000", "--batch_size=12000", "--local_epochs=1"]
    args += ["--probes=none", "--export=none", "--devices=cpu:1", f"--callback={own}:Limit"]
    command = [sys.executable, "-m", "launch.main", *args, f"--output_dir={folder / 'run'}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("room", [0, 2**25, 2**27])
def test_one_message_and_an_intact_checkpoint(data, tmp_path, room):
    """The activations of the large client take 384 MB, those of others less than one."""
    done = train(data, tmp_path, room)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: A device ran out of memory. The checkpoint after round 2")
    assert "--microbatch=N" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = train(data, tmp_path, "")
    assert done.returncode == 0, done.stderr
    assert "Going on after round 2 of 4." in done.stdout
