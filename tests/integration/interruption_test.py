"""Ctrl-C, SIGTERM and kills in the end phase: an end without a traceback, and the same result."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from absl.testing import flagsaver

from launch import main
from tests.integration.crashes import assert_as_if_never_killed
from tests.launch.main_test import log
from tests.launch.running import run, toy_args, toy_file
from tf_fedsam.runs import export, training
from tf_fedsam.runs.experiment import Experiment
from tf_fedsam.runs.training import Training

pytestmark = [pytest.mark.no_cover, pytest.mark.usefixtures("usual_signals")]


def files(folder):
    return {
        p.relative_to(folder): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file() and p.name != ".lock"
    }


def at_round(monkeypatch, round_num, action):
    """Does something at the end of a round, where an exception would hurt most."""
    one_round = Experiment.round

    def acting(experiment, state):
        result = one_round(experiment, state)
        if result[0].round_num == round_num:
            action()
        return result

    monkeypatch.setattr(Experiment, "round", acting)


def send(number, times=1):
    def action():
        for _ in range(times):
            os.kill(os.getpid(), number)
            time.sleep(0.01)

    return action


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The folder of an uninterrupted run, not to be changed, and its command line."""
    folder = tmp_path_factory.mktemp("original")
    args = [*toy_args(folder), "--algo=fedsmoo", "--rounds=5"]
    with flagsaver.flagsaver():
        assert main.run(args) == 0
    return folder / "run", args


@pytest.fixture
def finished(original, tmp_path):
    """A copy of the uninterrupted run, and its command line."""
    shutil.copytree(original[0], tmp_path / "copy")
    return tmp_path / "copy", [*original[1], f"--output_dir={tmp_path / 'copy'}"]


def test_signals_save_and_say_how_to_go_on(original, capsys, tmp_path, monkeypatch):
    """SIGTERM in round 2, Ctrl-C in round 4; no round is lost."""
    args = [*original[1], f"--output_dir={tmp_path / 'cut'}", "--checkpoint_every=100"]
    for round_num, number in ((2, signal.SIGTERM), (4, signal.SIGINT)):
        with monkeypatch.context() as patch:
            at_round(patch, round_num, send(number))
            result = run(capsys, *args)
        assert result.code == 1
        assert f"Stopped after round {round_num} of 5; everything is saved" in result.out
        assert "Go on with the same command:\n  python -m launch.main" in result.out
        assert result.err == ""
    assert run(capsys, *args).code == 0
    assert_as_if_never_killed(original[0], tmp_path / "cut")
    config = json.loads((tmp_path / "cut/config.json").read_text())
    assert [r["after_round"] for r in config["resumes"]] == [2, 4]


def test_a_second_signal_stops_at_once_and_spoils_nothing(original, capsys, tmp_path, monkeypatch):
    """It hits after the clients' vectors were changed, before the round is in the log."""
    args = [*original[1], f"--output_dir={tmp_path / 'cut'}"]
    with monkeypatch.context() as patch:
        at_round(patch, 3, send(signal.SIGINT, times=2))
        result = run(capsys, *args)
    assert result.code == 1
    assert "Stopped after round 2 of 5" in result.out
    assert run(capsys, *args).code == 0
    assert_as_if_never_killed(original[0], tmp_path / "cut")


@pytest.mark.parametrize("phase", ["_restore", "_finish"])
def test_signals_outside_of_the_rounds(phase, capsys, tmp_path, monkeypatch):
    args = [*toy_args(tmp_path), "--rounds=1"]
    real = getattr(Training, phase)

    def interrupted(*arguments):
        send(signal.SIGTERM)()
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Training, phase, interrupted)
        result = run(capsys, *args)
    assert result.code == 1
    assert "Interrupted. The same command goes on" in result.err
    assert "Traceback" not in result.err + result.out
    assert run(capsys, *args).code == 0


@pytest.mark.skipif(not os.path.exists("/bin/sh"), reason="needs a shell")
def test_with_ctrl_c_ignored_sigterm_still_stops(original, tmp_path):
    """As started by a script in the background, or by many a CI: Ctrl-C is not for this process."""
    args = [*original[1], f"--output_dir={tmp_path / 'cut'}", "--rounds=100000"]
    process = subprocess.Popen(
        [
            "/bin/sh",
            "-c",
            'trap "" INT; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "launch.main",
            *args,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        before = num_rounds(tmp_path / "cut")
        while process.poll() is None and num_rounds(tmp_path / "cut") < before + 3:
            time.sleep(0.05)
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    done = num_rounds(tmp_path / "cut")
    assert (process.returncode, err) == (1, "")
    assert done >= 6  # three more after the SIGINT
    assert f"Stopped after round {done} of 100000; everything is saved" in out


def num_rounds(folder) -> int:
    return len(log(folder)) if (folder / "rounds.jsonl").exists() else 0


class KilledError(BaseException):
    """Stands for a kill at this point."""


def killed(*_, **__):
    raise KilledError


def test_kill_in_the_end_phase(original, finished, capsys, monkeypatch):
    """The same command completes the results without training; then it changes nothing."""
    folder, args = finished
    monkeypatch.setattr(Experiment, "round", killed)
    for owner, name in ((export, "save_weights"), (export, "save_model"), (training, "summarise")):
        (folder / "summary.json").unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, killed)
            with pytest.raises(KilledError):
                run(capsys, *args)
        assert not (folder / "summary.json").exists()
    # As if TensorFlow and Keras had been killed in the middle of writing.
    shutil.rmtree(folder / "saved_model")
    (folder / ".new.saved_model").mkdir()
    (folder / ".new.model.keras").write_bytes(b"half")
    assert run(capsys, *args).code == 0
    assert_as_if_never_killed(original[0], folder)
    before = files(folder)
    result = run(capsys, *args)
    assert result.code == 0
    assert "test accuracy" in result.out
    assert files(folder) == before


def test_going_on_with_a_finished_run_takes_its_results_away_first(finished, capsys, monkeypatch):
    """Stopped in between, it must not look complete with the results of fewer rounds."""
    folder, args = finished
    at_round(monkeypatch, 6, send(signal.SIGTERM))
    assert run(capsys, *args, "--rounds=8").code == 1
    assert not (folder / "summary.json").exists()
    assert len(log(folder)) == 6
    config = json.loads((folder / "config.json").read_text())
    assert config["settings"]["rounds"] == 8
    (resume,) = config["resumes"]
    assert resume["after_round"] == 5
    assert resume["changed_settings"] == {"rounds": [5, 8]}
    assert resume["versions"] == config["versions"]
    assert set(resume["source"]) == {"revision", "dirty", "fingerprint"}


def test_a_damaged_result_is_made_again(finished, capsys, monkeypatch):
    folder, args = finished
    (folder / "model.keras").unlink()
    (folder / "summary.json").write_text('{"rounds": ')
    monkeypatch.setattr(Experiment, "round", killed)
    assert run(capsys, *args).code == 0
    assert (folder / "model.keras").exists()
    assert json.loads((folder / "summary.json").read_text())["rounds"] == 5


def other_digit(line: str) -> str:
    """The line with another train_loss."""
    return re.sub(r'("train_loss": \d+\.)(\d)', lambda m: f"{m[1]}{(int(m[2]) + 1) % 10}", line)


def test_a_log_that_was_changed_is_refused(finished, capsys):
    folder, args = finished
    path = folder / "rounds.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for content, word in (
        (lines[1:], "its rounds are not 1 to 4"),
        (["[]\n", *lines[1:]], "is not a log"),
        ([*lines[:4], "{\n"], "is not a log"),
        (lines[:3], "It was cut or replaced"),
        ([*lines[:2], other_digit(lines[2]), *lines[3:]], "another content"),
    ):
        path.write_text("".join(content))
        result = run(capsys, *args, "--rounds=6")
        assert result.code == 2
        assert "rounds.jsonl" in result.err
        assert word in result.err


@pytest.mark.parametrize("changed", ["data", "init_weights", "algo"])
def test_other_content_under_the_same_name_is_refused(changed, capsys, tmp_path):
    """The settings are the same text, but what they name is not what it was."""
    args = [*toy_args(tmp_path), "--rounds=1"]
    init, own = tmp_path / "init.npz", tmp_path / "own.py"
    np.savez(init, w0=np.zeros((5, 3)), w1=np.zeros(3))
    own.write_text("from tf_fedsam.algorithms.fedavg import FedAvg\n\n\nclass Mine(FedAvg): ...\n")
    args += [f"--init_weights={init}", f"--algo={own}:Mine"]
    assert run(capsys, *args).code == 0
    if changed == "data":
        toy_file(tmp_path, x_test=np.ones((12, 5), np.float32))
    elif changed == "init_weights":
        np.savez(init, w0=np.ones((5, 3)), w1=np.zeros(3))
    else:
        own.write_text(own.read_text() + "\n# changed\n")
    result = run(capsys, *args, "--rounds=2")
    assert result.code == 2
    assert f"{changed}: " in result.err
    assert "Put back" in result.err
