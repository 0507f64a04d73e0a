"""Kills and disks that fail while a checkpoint is written."""

import contextlib
import errno
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.state.checkpoint import save_loop
from tests.state.checkpoint.saving import expected, listing, load, save, three_states
from tests.state.checkpoint.states import content, fresh
from tests.state.faults import FailingDisk
from tf_fedsam.state.checkpoint import CheckpointError, CheckpointWriter


def _saved_twice(folder, result):
    writer = CheckpointWriter(folder)
    for state in result[:2]:
        save(writer, state)
    return writer


def test_a_kill_at_any_step_leaves_the_old_or_the_new_checkpoint(tmp_path):
    result = three_states()
    outcomes = []
    for fail_at in itertools.count(1):
        folder = tmp_path / str(fail_at)
        writer = _saved_twice(folder, result)
        disk = FailingDisk(fail_at, killed=True)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(CheckpointError):
            disk.install(patch)
            save(writer, result[2])
        outcomes.append(load(folder))
        assert outcomes[-1] in (expected(result[1]), expected(result[2]))
        writer.close()
        # The next process goes on and leaves nothing of the dead one behind.
        with CheckpointWriter(folder) as writer:
            save(writer, result[2])
            save(writer, result[2])
        assert load(folder) == expected(result[2])
        assert len(os.listdir(folder)) == 5  # two manifests, two of the server, one of the clients
        shutil.rmtree(folder)
        if not disk.failed:
            break
    assert disk.calls.count("fsync") == 5  # three files, and the folder before and after the last
    assert outcomes[0] == expected(result[1])
    assert outcomes.index(expected(result[2])) == 1 + max(
        i for i, outcome in enumerate(outcomes) if outcome == expected(result[1])
    )


def test_a_kill_at_any_step_of_the_first_save_leaves_nothing_or_all(tmp_path):
    state = three_states()[0]
    for fail_at in itertools.count(1):
        folder = tmp_path / str(fail_at)
        disk = FailingDisk(fail_at, killed=True)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(CheckpointError):
            disk.install(patch)
            with CheckpointWriter(folder) as writer:
                save(writer, state)
        assert load(folder) in (None, expected(state))
        if not disk.failed:
            break
    assert fail_at > 20


@pytest.mark.parametrize(
    ("code", "reason"), [(errno.ENOSPC, "No space left"), (errno.EROFS, "Read-only file system")]
)
def test_a_disk_that_fails_is_reported_and_the_last_checkpoint_stays(tmp_path, code, reason):
    result = three_states()
    for fail_at in itertools.count(1):
        folder = tmp_path / str(fail_at)
        writer = _saved_twice(folder, result)
        before = listing(folder)
        disk = FailingDisk(fail_at, names=("open", "write", "fsync", "replace"), code=code)
        with pytest.MonkeyPatch.context() as patch:
            disk.install(patch)
            writer.save(result[2], {})
            while writer._writing or writer._pending is not None:
                time.sleep(0.001)
        if not disk.failed:
            writer.close()
            break
        with pytest.raises(CheckpointError) as caught:  # the next call is told, whichever it is
            writer.save(result[2], {}) if fail_at % 2 else writer.flush()
        message = str(caught.value)
        assert message.startswith(f"Could not write the checkpoint after 3 rounds: {folder}")
        assert reason in message
        assert "The last good one is that after 2 rounds" in message
        assert "give the same command again" in message
        assert listing(folder) == before
        assert load(folder) == expected(result[1])
        # When there is room again it goes on.
        save(writer, result[2])
        assert load(folder) == expected(result[2])
        assert listing(folder)[:2] == ["checkpoint-00000002.json", "checkpoint-00000004.json"]
        writer.close()
        shutil.rmtree(folder)
    assert fail_at > 20


def test_a_failure_is_told_once_and_by_close_too(tmp_path):
    (tmp_path / "file").write_text("x")
    writer = CheckpointWriter(tmp_path / "file" / "below")
    writer.save(three_states()[0], {})
    with pytest.raises(CheckpointError, match="There is no earlier one") as caught:
        writer.close()
    assert "Not a directory" in str(caught.value)
    assert isinstance(caught.value.__cause__, NotADirectoryError)
    writer.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_sigkill_in_a_loop_of_saves(tmp_path):
    """Each process resumes what the one before left; none of it is ever wrong or lost."""
    generator = random.Random(1)
    folder = tmp_path / "run"
    reached = 0
    with subprocess.Popen(
        [sys.executable, "-m", "tests.state.checkpoint.save_loop", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": ""},
    ) as parent:
        for kills in itertools.count():
            if kills >= 5 and (reached or kills == 50):
                break
            parent.stdin.write("\n")
            parent.stdin.flush()
            pid = int(parent.stdout.readline())
            time.sleep((1 + kills // 5) * generator.uniform(0.005, 0.1))  # longer if nothing comes
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)  # until it is gone
            found = load(folder)
            if found is None:
                assert reached == 0
                continue
            assert found[0]["round"] >= reached
            reached = found[0]["round"]
            state = fresh()
            for _ in range(reached):
                state = save_loop.advance(state)
            assert found == (content(state), save_loop.extra(state))
        parent.stdin.close()
        assert parent.wait() == 0
    assert reached > 0
