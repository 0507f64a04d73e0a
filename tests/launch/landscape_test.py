"""The launcher that draws loss surfaces: flags, messages, interruptions."""

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from absl.testing import flagsaver

from launch import landscape as launcher
from launch import main
from tests.analysis.landscape import made_runs
from tf_fedsam.analysis.landscape.loss import LossFunction

pytestmark = pytest.mark.no_cover


def draw(capsys, *args):
    """Exit code, standard output and standard error."""
    code = launcher.run([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs that are only read."""
    return made_runs.make(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def runs(made, tmp_path):
    """Copies that a test may write to."""
    for name in made_runs.NAMES:
        shutil.copytree(made / name, tmp_path / name)
    return tmp_path


def numbers_of(path, run):
    """[points, columns] of a run's rows, without the run."""
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["run"] == str(run)]
    return np.asarray([list(row.values())[1:] for row in rows], float)


def test_what_a_user_reads(capsys, runs):
    """Flags before and behind the folders; every flag has an effect."""
    out, avg, sam = runs / "out", runs / "avg", runs / "sam"
    args = ["--grid=5", "--span=0.5", avg, sam, "--between", "--on=test", "--seed=3"]
    args += ["--examples=10", "--batch_size=4", "--notensorboard", f"--out={out}"]
    code, said, err = draw(capsys, *args)
    assert (code, err) == (0, "")
    result = json.loads((out / "landscape.json").read_text())
    assert result["settings"] == {
        "grid": 5,
        "span": 0.5,
        "dimensions": [1, 2],
        "between": True,
        "on": "test",
        "examples": 10,
        "seed": 3,
        "num_classes": 3,
        "ring_radius": 0.25,
    }
    assert "mean over 10 of 12 test examples" in said
    assert f"{result['runs'][1]['ring']:.4f}" in said
    assert f"{result['between'][0]['barrier']:.4f}" in said
    first, second, place = (shlex.quote(str(path)) for path in (avg, sam, out))
    assert f"launch.report {first} {second} --landscape={place} --out=report.html" in said
    pictures = [entry["file"] for entry in result["pictures"]]
    assert pictures == ["contour.png", "surface.png", "line.png", "between.png"]
    for name in (*pictures, "surface_2d.csv", "line_1d.csv", "between.csv", "landscape.json"):
        assert str(out / name) in " ".join(said.split())  # lines are wrapped at spaces
        assert (out / name).exists()
    assert not list(avg.glob("*.landscape"))

    code, said, err = draw(capsys, avg, "--grid=3", "--dimensions=1", f"--out={runs / 'line'}")
    assert (code, err) == (0, "")
    assert not (runs / "line" / "contour.png").exists()
    assert "all 40 training examples" in said  # the flags of before are forgotten


@pytest.mark.usefixtures("usual_signals")
def test_an_interrupted_command_goes_on(capsys, runs, monkeypatch):
    base = [runs / "avg", runs / "sam", "--grid=5", "--notensorboard", f"--out={runs / 'cut'}"]
    original, calls = LossFunction.__call__, []

    def counted(self, plane, points):
        if len(calls) >= 4:
            os.kill(os.getpid(), signal.SIGTERM)
        calls.append(len(points))
        return original(self, plane, points)

    with monkeypatch.context() as patch:
        patch.setattr(LossFunction, "__call__", counted)
        code, _, err = draw(capsys, *base)
    assert code == 1
    assert "Interrupted. The same command goes on" in err
    assert not (runs / "cut" / "landscape.json").exists()
    code, said, _ = draw(capsys, *base)
    assert code == 0
    assert f"{sum(calls[:4])} points are known" in said


def test_killed_at_any_moment(capsys, runs):
    """SIGKILL while it computes; the same command ends with the same table."""
    base = [str(runs / "avg"), "--grid=41", "--dimensions=2", "--notensorboard"]
    out = runs / "killed"
    process = subprocess.Popen(
        [sys.executable, "-m", "launch.landscape", *base, f"--out={out}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    began = time.monotonic()
    while not list((out / "points").glob("*.npz")) and time.monotonic() - began < 120:
        assert process.poll() is None, process.stdout.read().decode()
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (out / "landscape.json").exists()
    code, said, _ = draw(capsys, *base, f"--out={out}")
    assert code == 0
    known = int(re.search(r"([\d,]+) points are known", said)[1].replace(",", ""))
    assert 0 < known < 41 * 41
    assert draw(capsys, *base, f"--out={runs / 'whole'}")[0] == 0
    tables = [numbers_of(runs / f / "surface_2d.csv", runs / "avg") for f in ("killed", "whole")]
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-5)


def test_runs_that_are_not_complete(capsys, runs):
    (runs / "avg" / "summary.json").unlink()
    code, said, err = draw(capsys, runs / "avg", f"--out={runs / 'o'}")
    assert (code, said) == (2, "")
    assert "is not complete: summary.json" in err
    command = shlex.split(err.strip().splitlines()[-1])
    assert command[:3] == ["python", "-m", "launch.main"]
    with flagsaver.flagsaver():  # and what it says works
        assert main.run(command[3:]) == 0
    capsys.readouterr()
    assert draw(capsys, runs / "avg", "--grid=3", f"--out={runs / 'o'}")[0] == 0


def test_runs_that_cannot_be_compared(capsys, runs):
    code, said, err = draw(capsys, runs / "avg", runs / "own", f"--out={runs / 'o'}")
    assert (code, said) == (2, "")
    assert "different architectures" in err
    assert "each with its own --out." in err


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ([], "Received no run folder"),
        (["RUN", "RUN"], "Received twice"),
        (["RUN", "--grid=2"], "--grid must be an odd number, 3 to 501"),
        (["RUN", "--grid=20"], "Received: 20"),
        (["RUN", "--grid=999999"], "Received: 999999"),
        (["RUN", "--grid=x"], "grid"),
        (["RUN", "--span=0"], "--span must be a finite number above 0"),
        (["RUN", "--span=nan"], "--span must be a finite number above 0"),
        (["RUN", "--examples=0"], "--examples must be at least 1"),
        (["RUN", "--batch_size=0"], "--batch_size must be at least 1"),
        (["RUN", "--seed=-1"], "--seed must be at least 0"),
        (["RUN", "--dimensions=3"], "--dimensions must be 1, 2 or 1,2"),
        (["RUN", "--dimensions="], "--dimensions must be 1, 2 or 1,2"),
        (["RUN", "--on=validation"], "train|test"),
        (["RUN", "--between"], "--between needs two runs"),
        (["RUN", "--gird=3"], "gird"),
        (["RUN/nothing"], "is not a run folder"),
        (["RUN", "--out=RUN"], "not of a loss surface"),
        (["RUN", "--out=RUN/config.json"], "is a file"),
    ],
)
def test_bad_input(capsys, made, flags, part):
    before = sorted(os.listdir(made / "avg"))
    code, out, err = draw(capsys, *(flag.replace("RUN", str(made / "avg")) for flag in flags))
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert part in err
    assert sorted(os.listdir(made / "avg")) == before


def test_help(capsys):
    code, out, _ = draw(capsys, "--help")
    assert code == 0
    for name in ("grid", "span", "between", "examples", "tensorboard"):
        assert f"  --{name}=" in out
