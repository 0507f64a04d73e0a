"""Paths that a user gives."""

import os
import pathlib

import pytest
from absl.testing import flagsaver

from launch import landscape, partition, report
from tests.launch.running import run, toy_args, toy_file
from tf_fedsam import paths
from tf_fedsam.errors import InputError


def test_home(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert paths.expanded("~/x") == pathlib.Path("/somewhere/x")
    with pytest.raises(InputError, match=r"~nobody-of-that-name.*no such user"):
        paths.expanded("~nobody-of-that-name/x")


def test_names_that_no_disk_can_have(tmp_path):
    with pytest.raises(InputError, match=r"too long.*300 of them in one part"):
        paths.expanded(tmp_path / ("x" * 300))
    with pytest.raises(InputError, match="too long"):
        paths.expanded(f"{tmp_path}{'/y' * 5000}")
    with pytest.raises(InputError, match="no name can have"):
        paths.expanded(f"{tmp_path}/a\0b")
    assert paths.expanded(tmp_path / "x" / "y") == tmp_path / "x" / "y"


@pytest.mark.parametrize("command", [report, landscape, partition])
def test_no_command_ends_in_a_traceback(command, capsys, tmp_path):
    data = [f"--data_file={toy_file(tmp_path)}", "--dataset=npz", "--partition=given"]
    inputs = data if command is partition else [tmp_path]
    for name in ("x" * 300, "x\0", "none/x.html"):
        with flagsaver.flagsaver():
            assert command.run([*map(str, inputs), f"--out={tmp_path / name}"]) == 2
        assert capsys.readouterr().err.startswith("error: ")


def test_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="no ordinary file"):
        paths.regular(tmp_path / "pipe")
    assert paths.regular(tmp_path / "nothing") == tmp_path / "nothing"
    assert paths.regular(tmp_path) == tmp_path


@pytest.mark.parametrize(
    "flag",
    [
        *("data_file", "init_weights", "client_schedule", "config", "from_config", "output_dir"),
        *("algo", "model", "callback", "flagfile"),
    ],
)
def test_no_flag_hangs_or_ends_in_a_traceback(flag, capsys, tmp_path):
    """A user that is not there, a pipe that nobody writes to, a name that is too long."""
    args = toy_args(tmp_path)
    if flag == "client_schedule":
        args.append("--sampling=schedule")
    if flag == "from_config":
        args = []
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / "pipe.yaml")
    suffix = ".yaml" if flag == "config" else ".py"
    name = ":Name" if flag in ("algo", "model", "callback") else ""
    for value in ("~nobody-of-that-name/x", str(tmp_path / "pipe"), "x" * 300):
        result = run(capsys, *args, f"--{flag}={value}{suffix}{name}")
        assert result.code == 2, result.err
        assert result.err.startswith("error: ")
