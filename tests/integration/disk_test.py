"""A disk that is full, read-only or fails: a clear message, exit 1, the last checkpoint intact."""

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess

import pytest
import tensorflow as tf
from absl.testing import flagsaver

from launch import main
from tests.integration.crashes import assert_as_if_never_killed, curves
from tests.integration.interruption_test import at_round, send
from tests.launch.main_test import log
from tests.launch.running import image_files, run, toy_args
from tf_fedsam.runs import folder as run_folder
from tf_fedsam.runs.experiment import Experiment

ARGS = ["--algo=fedsmoo", "--rounds=5"]
pytestmark = [pytest.mark.no_cover, pytest.mark.usefixtures("usual_signals")]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The folder of a run on a disk that works, and its command line."""
    folder = tmp_path_factory.mktemp("original")
    args = [*toy_args(folder), *ARGS]
    with flagsaver.flagsaver():
        assert main.run(args) == 0
    return folder / "run", args


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True)
    except OSError:
        done = None
    if done is None or done.returncode:
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def stopped(result, *words):
    assert result.code == 1
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err + result.out
    for word in words:
        assert word in result.err


def test_full_disk(original, small_disk, capsys, monkeypatch):
    args = [*original[1], f"--output_dir={small_disk / 'run'}"]

    def fill():
        with (
            contextlib.suppress(OSError),
            open(small_disk / "filler", "wb", buffering=0) as filler,
        ):
            while filler.write(bytes(1 << 12)):
                pass

    with monkeypatch.context() as patch:
        at_round(patch, 3, fill)
        stopped(run(capsys, *args), "No space left on device", "same command")
    (small_disk / "filler").unlink()
    result = run(capsys, *args)
    assert result.code == 0, result.err
    assert "Going on after round" in result.out
    assert_as_if_never_killed(original[0], small_disk / "run")


def test_read_only_disk(original, small_disk, capsys, monkeypatch):
    args = [*original[1], f"--output_dir={small_disk / 'run'}"]

    def remount(how):
        subprocess.run(["mount", "-o", f"remount,{how}", str(small_disk)], check=True)

    with monkeypatch.context() as patch:
        at_round(patch, 3, send(signal.SIGTERM))
        assert run(capsys, *args).code == 1
    remount("ro")
    result = run(capsys, *args)
    assert result.code == 2  # found before any round
    assert "Cannot write to the folder" in result.err
    assert "Read-only file system" in result.err
    remount("rw")
    assert run(capsys, *args).code == 0
    assert_as_if_never_killed(original[0], small_disk / "run")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_log_that_cannot_be_written(code, original, capsys, tmp_path, monkeypatch):
    args = [*original[1], f"--output_dir={tmp_path / 'run'}"]
    real = run_folder.append_line

    def failing(path, text, **options):
        if json.loads(text)["round"] == 3:
            raise OSError(code, os.strerror(code), str(path))
        return real(path, text, **options)

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "append_line", failing)
        result = run(capsys, *args)
    words = f"rounds.jsonl: {os.strerror(code)}. The checkpoint after round 2 is intact"
    stopped(result, words)
    if code == errno.ENOSPC:
        assert run(capsys, *args).code == 0
        assert_as_if_never_killed(original[0], tmp_path / "run")


def test_tensorboard_that_cannot_be_written(original, capsys, tmp_path, monkeypatch):
    """The run ends well, says so once, and makes the curves later."""
    folder = tmp_path / "run"
    args = [*original[1], f"--output_dir={folder}"]

    def failing(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "no room\nin C++")

    with monkeypatch.context() as patch:
        patch.setattr(tf.summary.experimental, "write_raw_pb", failing)
        result = run(capsys, *args)
    assert (result.code, result.err) == (0, "")
    assert result.out.count("TensorBoard's files") == 1
    assert "no room. The run goes on without them" in result.out
    for path in folder.glob("events.out.tfevents.*"):
        path.unlink()
    monkeypatch.setattr(Experiment, "round", None)
    assert run(capsys, *args).code == 0
    assert curves(folder) == curves(original[0])


def test_results_that_cannot_be_written(original, capsys, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(original[0], folder)
    (folder / "summary.json").unlink()
    args = [*original[1], f"--output_dir={folder}"]

    def failing(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "no room\nin C++")

    monkeypatch.setattr(Experiment, "round", None)
    with monkeypatch.context() as patch:
        patch.setattr(tf.saved_model, "save", failing)
        stopped(run(capsys, *args), "saved_model", "no room")
    assert run(capsys, *args).code == 0
    assert_as_if_never_killed(original[0], folder)


def test_data_that_vanished(capsys, tmp_path, monkeypatch):
    """Images that are read round by round are gone in round 2, and there again later."""
    data, away = tmp_path / "images", tmp_path / "away"
    image_files(data, 16, 16)
    args = ["--dataset=image_folder", f"--data_dir={data}", "--stream=always", "--model=linear"]
    args += ["--partition=iid", "--num_clients=8", "--participation=0.13", "--rounds=6"]
    args += ["--devices=cpu:1", f"--output_dir={tmp_path / 'run'}"]
    monkeypatch.setattr("tf_fedsam.data.files.DEFAULT_CACHE_BYTES", 0)
    monkeypatch.setattr("tf_fedsam.runs.provenance.SAMPLED_IMAGES", 1)
    with monkeypatch.context() as patch:
        at_round(patch, 2, lambda: (data / "train").rename(away))
        result = run(capsys, *args)
    stopped(result, ".png", "The checkpoint after round", "is intact")
    result = run(capsys, *args)
    assert result.code == 2  # found before any round
    assert "Traceback" not in result.err
    away.rename(data / "train")
    assert run(capsys, *args).code == 0
    assert len(log(tmp_path / "run")) == 6
