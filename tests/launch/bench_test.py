"""The benchmarks' command line; what they measure is no business of a test."""

import re
import subprocess

import pytest

from launch import bench


def refused(capsys, *args):
    assert bench.run(args) == 2
    printed, said = capsys.readouterr()
    assert printed == ""
    return said


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--nothing=1"], "nothing"),
        (["--repeats=0"], "--repeats must be at least 1. Received: 0"),
        (["--repeats=many"], "many"),
        (["--models", "--microbatch=-1"], "--microbatch must be at least 1. Received: -1"),
        (["--microbatch=2"], "--microbatch needs --models"),
        (["--models", "--algorithms"], "Received: --algorithms --models"),
        (["--models", "--only=fedsam,lenet5"], "Received: fedsam. Expected: linear, mlp"),
        (["--algorithms", "--only=lenet5"], "Received: lenet5. Expected: fedacg"),
        (["--only=lenet5"], "--only needs --algorithms or --models"),
        (["lenet5"], "Received: 'lenet5'"),
        (["--devices=tpu:1"], "tpu:1"),
    ],
)
def test_bad_input(capsys, args, words):
    assert words in refused(capsys, *args)


def test_help_lists_the_flags(capsys):
    assert bench.run(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"--{name}" in said or f"--[no]{name}" in said for name in bench.MODES)


def test_a_model(capsys):
    """In a process of its own, with both methods, in parts of a batch."""
    args = ["--models", "--only=linear", "--repeats=1", "--microbatch=8", "--devices=cpu:1"]
    assert bench.run(args) == 0
    row = capsys.readouterr().out.splitlines()[0]
    name, shape, batch, parameters, plain, sam, ratio, *peaks = re.split("  +", row)
    assert (name, shape, batch, parameters) == ("linear", "28x28x1", "32", "48,670")
    assert float(plain) > 0
    assert float(ratio) == pytest.approx(float(sam) / float(plain), rel=0.02)
    assert len(peaks) == 2


def test_work_that_dies(capsys, monkeypatch):
    """Its last words are told, the other models are measured, and the exit code says so."""
    monkeypatch.setitem(bench.NETWORKS, "broken", ("broken", (1,), 2, 1, 1))
    assert bench.run(["--models", "--only=broken", "--repeats=1", "--devices=cpu:1"]) == 1
    assert "--step_of=broken:fedavg" in capsys.readouterr().out


def test_work_that_is_killed(monkeypatch):
    """A process that ends by SIGKILL, as the kernel does it for want of memory."""
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    start = subprocess.Popen
    monkeypatch.setattr(
        "subprocess.Popen", lambda command, **o: start([command[0], "-c", code], **o)
    )
    with bench.elsewhere("--raw=W1") as work, pytest.raises(ChildProcessError, match="memory"):
        work()


@pytest.mark.parametrize("what", ["--raw=W1", "--serve=W1"])
def test_rounds_in_another_process(what):
    with bench.elsewhere(what, "--devices=cpu:1") as work:
        assert work() > 0
