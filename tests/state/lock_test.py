"""One process a run folder."""

import os
import platform
import re
import subprocess
import sys

import pytest

import tf_fedsam
from tf_fedsam.errors import InputError
from tf_fedsam.state.lock import RunLock

# A package without its __init__ saves the import of TensorFlow.
HOLDER = f"""
import sys, types
sys.modules["tf_fedsam"] = types.ModuleType("tf_fedsam")
sys.modules["tf_fedsam"].__path__ = {list(tf_fedsam.__path__)!r}
from tf_fedsam.state.lock import RunLock
with RunLock(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of the folder ``run``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def _refusal(folder) -> str:
    with pytest.raises(InputError) as caught, RunLock(folder):
        pass
    return str(caught.value)


def test_a_second_process_is_told_who_holds_the_folder(tmp_path, holder):
    for _ in range(2):
        assert f"in use by process {holder.pid} on host {platform.node()}" in _refusal(
            tmp_path / "run"
        )
    with RunLock(tmp_path / "another run"):
        pass
    holder.stdin.close()
    assert holder.wait() == 0
    with RunLock(tmp_path / "run"):
        pass


def test_a_killed_process_does_not_hold_the_lock(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / "run" / ".lock").read_text().split()[0] == str(holder.pid)
    with RunLock(tmp_path / "run"):
        assert re.search(f"by process {os.getpid()} ", _refusal(tmp_path / "run"))


def test_the_lock_ends_with_the_block(tmp_path):
    def fail_inside():
        with RunLock(tmp_path):
            assert str(os.getpid()) in _refusal(tmp_path)
            raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail_inside()
    assert os.listdir(tmp_path) == [".lock"]


def test_a_folder_that_cannot_be_written_to_is_explained(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert re.match(r"Cannot write to the folder .*: .*\. Make it writable", _refusal(folder))


def test_a_file_system_without_locks_is_explained(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("tf_fedsam.state.lock._try_lock", fail)
    assert re.match(r"Cannot lock the folder .*: No locks available\. Choose", _refusal(tmp_path))


def test_a_torn_lock_file_is_no_error(tmp_path):
    (tmp_path / ".lock").write_bytes(b"\xff\xfe torn and more")
    with RunLock(tmp_path):
        (tmp_path / ".lock").write_bytes(b"\xff")
        assert "process unknown on host unknown" in _refusal(tmp_path)
