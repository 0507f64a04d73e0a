"""Commands that are shown work as they are typed; flags of a description."""

import os
import pathlib
import sys

import pytest

from launch.command_line import commands


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An environment in a folder of its own, with two programs, which is the one that runs."""
    folder = tmp_path / "project/.venv/bin"
    folder.mkdir(parents=True)
    for name in ("python", "tensorboard"):
        (folder / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    return folder


def test_an_active_environment(environment, monkeypatch):
    monkeypatch.setenv("PATH", f"{environment}{os.pathsep}/usr/bin")
    for command in ("python -m launch.report runs --out=r.html", "tensorboard --logdir=runs"):
        assert commands.shown(command) == command


def test_one_that_is_not_active(environment, monkeypatch, tmp_path):
    """By the path from here; from elsewhere by the whole path."""
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.chdir(tmp_path / "project")
    assert commands.shown("python -m launch.main") == ".venv/bin/python -m launch.main"
    assert commands.shown("tensorboard --logdir=x") == ".venv/bin/tensorboard --logdir=x"
    monkeypatch.chdir(tmp_path)
    assert commands.shown("python") == "project/.venv/bin/python"
    monkeypatch.chdir(environment)
    assert commands.shown("python") == "python" or commands.shown("python") == "./python"
    monkeypatch.chdir("/")
    assert pathlib.Path("/", commands.shown("python")) == environment / "python"


def test_programs_that_the_environment_does_not_have(environment, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    assert commands.shown("ls -l") == "ls -l"


def test_it_is_the_program_that_runs():
    program = commands.shown("python")
    found = program if os.sep in program else __import__("shutil").which(program)
    assert os.path.samefile(os.path.dirname(found), os.path.dirname(sys.executable))
