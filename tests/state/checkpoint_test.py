"""Checkpoints: exact, incremental, and whole whatever happens."""

import contextlib
import errno
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings

from tests.state import save_loop, states
from tests.state.faults import FailingDisk
from tests.state.states import content, fresh, scatter
from tf_fedsam.errors import InputError
from tf_fedsam.process import State
from tf_fedsam.state import checkpoint, files
from tf_fedsam.state.checkpoint import CheckpointError, CheckpointWriter, load_latest
from tf_fedsam.state.client_store import ClientStore


@pytest.fixture(scope="module", autouse=True)
def no_flush():
    """A killed process loses nothing that it has written: tests need not wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def unexpected(message):
    raise AssertionError(f"warned: {message}")


def load(folder, warn=unexpected):
    """Content and extra of what is loaded."""
    found = load_latest(folder, fresh(), warn)
    return found and (content(found[0]), found[1])


def three_states() -> list[State]:
    """The states after 1, 2 and 3 rounds: six clients, then one of them changed, then another."""
    clients = ClientStore(states.LENGTHS)
    result = []
    for round_num, changed in enumerate([range(6), [0], [1]], 1):
        scatter(clients, list(changed), round_num)
        result.append(State(round_num, states.server(round_num), clients.copy()))
    return result


def extra_of(state) -> dict:
    return {"log_bytes": 10 * state.round_num}


def expected(state):
    return content(state), extra_of(state)


def save(writer, state):
    writer.save(state, extra_of(state))
    writer.flush()


@pytest.fixture
def saved(tmp_path):
    """A folder with the checkpoints after 2 and 3 rounds, and the three states."""
    result = three_states()
    with CheckpointWriter(tmp_path / "saved") as writer:
        for state in result:
            save(writer, state)
    return tmp_path / "saved", result


def listing(folder):
    return sorted(os.listdir(folder))


THREE_SAVED = [
    "checkpoint-00000002.json",
    "checkpoint-00000003.json",
    "clients-00000001.bin",
    "clients-00000002.bin",
    "clients-00000003.bin",
    "server-00000002.bin",
    "server-00000003.bin",
]


# Round trip


def test_no_checkpoint(tmp_path):
    assert load(tmp_path) is None
    assert load(tmp_path / "missing") is None
    CheckpointWriter(tmp_path / "never").close()
    assert not (tmp_path / "never").exists()


def test_round_trip_is_exact_to_the_bit(tmp_path):
    for state in three_states():
        with CheckpointWriter(tmp_path) as writer:  # each time as after a restart
            save(writer, state)
        assert load(tmp_path) == expected(state)
        assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_restored_vectors_are_in_the_order_of_the_fresh_state(tmp_path):
    state = three_states()[0]
    backwards = State(1, dict(reversed(state.server.items())), state.clients)
    with CheckpointWriter(tmp_path) as writer:
        save(writer, backwards)
    assert load(tmp_path) == expected(state)


def test_methods_without_client_state(tmp_path):
    state = State(4, states.server(4), ClientStore({}))
    with CheckpointWriter(tmp_path) as writer:
        save(writer, state)
    found = load_latest(tmp_path, State(0, states.server(1), ClientStore({})), unexpected)
    assert content(found[0]) == content(state)
    assert listing(tmp_path) == ["checkpoint-00000001.json", "server-00000001.bin"]


def test_large_files_are_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_CHUNK_BYTES", 80)  # two rows of 4 * 9 bytes
    state = three_states()[0]
    for _ in range(2):
        with CheckpointWriter(tmp_path) as writer:
            save(writer, state)
        assert load(tmp_path) == expected(state)


def test_extra_comes_back_and_must_be_json(tmp_path):
    state = three_states()[0]
    with CheckpointWriter(tmp_path) as writer:
        writer.save(state, {"a": [1, 2.5, None, "ü"], "b": {"c": True}})
        for bad in ({"a": object()}, {"a": float("nan")}):
            with pytest.raises((TypeError, ValueError)):
                writer.save(state, bad)
    assert load(tmp_path)[1] == {"a": [1, 2.5, None, "ü"], "b": {"c": True}}


def test_training_goes_on_with_the_store_that_is_being_saved(tmp_path, monkeypatch):
    """The snapshot is that of the call, however late it is written."""
    state, gate = three_states()[0], threading.Event()
    wanted = expected(state)
    write = CheckpointWriter._write
    monkeypatch.setattr(CheckpointWriter, "_write", lambda *args: gate.wait() and write(*args))
    with CheckpointWriter(tmp_path) as writer:
        writer.save(state, extra_of(state))
        scatter(state.clients, [0, 9], 99)
        state.server["weights"][0] = tf.zeros([2, 3])
        gate.set()
    assert load(tmp_path) == wanted


def test_one_save_waits_and_a_newer_one_takes_its_place(tmp_path, monkeypatch):
    begun, gate, written = threading.Event(), threading.Event(), []
    write = CheckpointWriter._write

    def slow_write(writer, snapshot):
        begun.set()
        assert gate.wait(20)
        written.append(snapshot.round_num)
        write(writer, snapshot)

    monkeypatch.setattr(CheckpointWriter, "_write", slow_write)
    first, second, third = three_states()
    writer = CheckpointWriter(tmp_path)
    writer.save(first, extra_of(first))
    assert begun.wait(20)
    writer.save(second, extra_of(second))
    writer.save(third, extra_of(third))
    gate.set()
    writer.close()
    assert written == [1, 3]
    assert load(tmp_path) == expected(third)


def test_a_closed_writer_takes_nothing_and_leaves_no_thread(tmp_path):
    state, before = three_states()[0], set(threading.enumerate())
    writer = CheckpointWriter(tmp_path)
    save(writer, state)
    assert len(set(threading.enumerate()) - before) == 1
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        save(writer, state)
    assert not set(threading.enumerate()) - before


def test_logs_are_flushed_before_the_manifest(tmp_path, monkeypatch):
    order = []
    real_sync, real_write = files.sync_file, files.write_atomically
    monkeypatch.setattr(files, "sync_file", lambda path: (order.append(path), real_sync(path)))
    monkeypatch.setattr(
        files, "write_atomically", lambda *args: (order.append(args[0]), real_write(*args))
    )
    log = tmp_path / "rounds.jsonl"
    files.append_line(log, "{}", sync=False)
    with CheckpointWriter(tmp_path / "c", logs=[log, tmp_path / "missing"]) as writer:
        save(writer, three_states()[0])
    assert order == [log, tmp_path / "missing", tmp_path / "c" / "checkpoint-00000001.json"]


# What is written, and what is kept


def test_only_rows_that_changed_are_written(saved):
    folder, _ = saved
    assert listing(folder) == THREE_SAVED
    # A row: its position (8 bytes) and 6 + 3 numbers of 4 bytes.
    sizes = [(folder / f"clients-0000000{i}.bin").stat().st_size for i in (1, 2, 3)]
    assert sizes == [6 * 44, 44, 44]


@pytest.mark.parametrize("cohort_size", [1, 5, 20])
def test_bytes_written_follow_the_cohort_not_the_number_of_clients(tmp_path, cohort_size):
    num_clients, length, num_saves = 200, 250, 60
    row_bytes = 8 + 4 * length
    generator = np.random.default_rng(0)
    clients = ClientStore({"c": length})

    def change(positions):
        rows = generator.standard_normal((len(positions), length)).astype(np.float32)
        clients.scatter(positions, {"c": rows}, np.ones(len(positions), bool))

    change(np.arange(num_clients))
    server = {"weights": [tf.zeros(1)]}
    num_rows = 0
    with CheckpointWriter(tmp_path, keep=1) as writer:
        writer.save(State(0, server, clients), {})
        writer.flush()
        for i in range(1, num_saves + 1):
            change(generator.choice(num_clients, cohort_size, replace=False))
            writer.save(State(i, server, clients), {})
            writer.flush()
            num_rows += (tmp_path / f"clients-{i + 1:08d}.bin").stat().st_size // row_bytes
            on_disk = sum(path.stat().st_size for path in tmp_path.glob("clients-*"))
            num_files = len(list(tmp_path.glob("clients-*")))
            # A file stays while a third of it is up to date.
            assert on_disk <= 3 * num_clients * row_bytes
            assert num_files <= checkpoint.MAX_ROW_FILES
    # Moved: half as many rows as change, and with cohorts of 1 those of small files merged.
    assert num_rows <= 2.2 * cohort_size * num_saves
    fresh_state = State(0, server, ClientStore({"c": length}))
    found = load_latest(tmp_path, fresh_state, unexpected)[0].clients
    every = np.arange(num_clients)
    np.testing.assert_array_equal(found.gather(every)[0]["c"], clients.gather(every)[0]["c"])


@pytest.mark.parametrize("keep", [1, 2, 4])
def test_the_newest_checkpoints_stay_usable(tmp_path, keep):
    result = []
    state = fresh()
    with CheckpointWriter(tmp_path, keep) as writer:
        for _ in range(7):
            state = save_loop.advance(state)
            result.append(expected(state))
            save(writer, state)
    manifests = [name for name in listing(tmp_path) if name.startswith("checkpoint")]
    assert len(manifests) == keep
    for name, wanted in zip(reversed(manifests), reversed(result), strict=False):
        assert load(tmp_path) == wanted
        (tmp_path / name).unlink()
    assert load(tmp_path) is None


def test_keep_must_be_positive(tmp_path):
    with pytest.raises(InputError, match=r"at least 1\. Received: 0"):
        CheckpointWriter(tmp_path, keep=0)


def test_a_resumed_run_counts_only_intact_checkpoints_as_kept(saved):
    folder, (_, second, third) = saved
    _flip(folder / "server-00000003.bin", 0)
    with CheckpointWriter(folder) as writer:
        save(writer, third)
    assert [name for name in listing(folder) if name.startswith("checkpoint")] == [
        "checkpoint-00000002.json",
        "checkpoint-00000004.json",
    ]
    assert load(folder) == expected(third)
    (folder / "checkpoint-00000004.json").unlink()
    assert load(folder) == expected(second)


def test_foreign_files_are_left_alone(saved):
    folder, (_, _, third) = saved
    for name in ("notes.txt", "server-1.bin", "checkpoint-00000001.json.bak"):
        (folder / name).write_text("mine")
    (folder / ".server-00000007.bin.0123abcd.tmp").write_text("left by a killed process")
    with CheckpointWriter(folder) as writer:
        save(writer, third)
    left = set(listing(folder))
    assert {"notes.txt", "server-1.bin", "checkpoint-00000001.json.bak"} < left
    assert not [name for name in left if name.endswith(".tmp")]
    assert load(folder) == expected(third)


def test_a_file_deleted_during_the_run_is_made_good(saved, tmp_path):
    result = saved[1]
    folder = tmp_path / "other"
    for vanish in ("clients-00000001.bin", "clients-00000002.bin", "all"):
        with CheckpointWriter(folder) as writer:
            save(writer, result[0])
            save(writer, result[1])
            if vanish == "all":
                shutil.rmtree(folder)
            else:
                (folder / vanish).unlink()
            save(writer, result[2])
        assert load(folder) == expected(result[2])
        shutil.rmtree(folder)


def test_a_client_that_is_gone_does_not_come_back(tmp_path):
    two = fresh()
    scatter(two.clients, [0, 1], 1)
    three = two.copy()
    scatter(three.clients, [2], 2)
    with CheckpointWriter(tmp_path) as writer:
        save(writer, three)  # one file with the rows of all three
        save(writer, two)
    assert load(tmp_path) == expected(two)


def test_going_back_and_forth_does_not_pile_up_rows(tmp_path):
    here, there = fresh(), fresh()
    scatter(here.clients, [0, 1, 2], 1)
    scatter(there.clients, [0, 1, 2], 2)
    with CheckpointWriter(tmp_path, keep=1) as writer:
        for state in [here, there] * 5:
            save(writer, state)
            assert load(tmp_path) == expected(state)
            assert len(list(tmp_path.glob("clients-*"))) == 1


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("train"), st.sets(st.integers(0, 9), min_size=1, max_size=4)),
        st.tuples(st.just("mark"), st.none()),
        st.tuples(st.just("go back"), st.none()),
        st.tuples(st.just("start over"), st.none()),
        st.tuples(st.just("restart"), st.booleans()),
        st.tuples(st.just("lose"), st.integers(0, 5)),
    ),
    min_size=5,
    max_size=25,
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(operations=OPERATIONS)
def test_any_history_is_saved_exactly(operations):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        patch.setattr(checkpoint, "MAX_ROW_FILES", 4)
        writer = CheckpointWriter(folder)
        state = marked = fresh()
        for i, (operation, argument) in enumerate(operations):
            if operation == "train":
                scatter(state.clients, sorted(argument), i)
                state = State(state.round_num + 1, states.server(i), state.clients)
            elif operation == "mark":
                marked = state.copy()
            elif operation == "go back":
                state = marked.copy()
            elif operation == "start over":
                state = fresh()
            elif operation == "restart":
                writer.close()
                found = load_latest(folder, fresh(), unexpected)
                if found and argument:
                    state = found[0]
                writer = CheckpointWriter(folder)
            else:
                rows = sorted(folder.glob("clients-*"))
                if argument < len(rows):
                    rows[argument].unlink()
            save(writer, state)
            assert load(folder) == expected(state)
            manifest = json.loads(sorted(folder.glob("checkpoint-*"))[-1].read_bytes())
            row_files = manifest["checkpoint"]["clients"]
            assert len(row_files) <= 4
            assert sum(file["num_bytes"] for file in row_files) <= 3 * 44 * len(state.clients)
        writer.close()


# Faults while writing


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


def test_a_folder_that_is_a_file_is_explained(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="Not a directory"):
        load(tmp_path / "file")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_sigkill_in_a_loop_of_saves(tmp_path):
    """Each process resumes what the one before left; none of it is ever wrong or lost."""
    generator = random.Random(1)
    folder = tmp_path / "run"
    reached = 0
    with subprocess.Popen(
        [sys.executable, "-m", "tests.state.save_loop", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": ""},
    ) as parent:
        for _ in range(5):
            parent.stdin.write("\n")
            parent.stdin.flush()
            pid = int(parent.stdout.readline())
            time.sleep(generator.uniform(0.005, 0.1))
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


# Faults found when reading


def _flip(path, offset, mask=0x40):
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


def _as_folder(path):
    path.unlink()
    path.mkdir()


CORRUPTIONS = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "one byte short": lambda path: os.truncate(path, path.stat().st_size - 1),
    "one byte long": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "first byte": lambda path: _flip(path, 0),
    "middle byte": lambda path: _flip(path, path.stat().st_size // 2),
    "last byte": lambda path: _flip(path, -1),
    "a folder": _as_folder,
    "a broken link": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "missing": os.unlink,
}


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("name", ["checkpoint-00000003.json", "server-00000003.bin",
                                  "clients-00000003.bin"])  # fmt: skip
def test_a_corrupted_checkpoint_is_named_and_the_one_before_is_used(saved, name, corruption):
    folder, (_, second, _) = saved
    warnings = []
    CORRUPTIONS[corruption](folder / name)
    assert load(folder, warnings.append) == expected(second)
    if (name[:10], corruption) == ("checkpoint", "missing"):
        assert not warnings  # as if it had not been written
    else:
        assert len(warnings) == 1
        assert name in warnings[0]
        assert str(folder) in warnings[0]


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("name", ["clients-00000001.bin", "clients-00000002.bin"])
def test_a_corrupted_file_that_both_checkpoints_use_is_named(saved, name, corruption):
    folder, _ = saved
    CORRUPTIONS[corruption](folder / name)
    warnings = []
    with pytest.raises(CheckpointError, match="None of the checkpoints") as caught:
        load(folder, warnings.append)
    assert len(warnings) == 2
    assert str(caught.value).count(name) == 2
    assert "delete the folder to start over" in str(caught.value)


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_mutated_files_never_give_wrong_numbers(saved, data):
    folder, (_, second, third) = saved
    with tempfile.TemporaryDirectory() as mutated_name:
        mutated = Path(mutated_name)
        shutil.copytree(folder, mutated, dirs_exist_ok=True)
        for _ in range(data.draw(st.integers(1, 3))):
            path = mutated / data.draw(st.sampled_from(THREE_SAVED))
            mutant = bytearray(path.read_bytes())
            start = data.draw(st.integers(0, len(mutant)))
            stop = start + data.draw(st.sampled_from([0, 1, 1, 1, 8, 10**6]))
            mutant[start:stop] = data.draw(st.binary(max_size=8))
            path.write_bytes(mutant)
        warnings = []
        with contextlib.suppress(CheckpointError):
            found = load(mutated, warnings.append)
            assert found in (expected(second), expected(third))
            assert bool(warnings) == (found == expected(second))
        # A run that goes on from there is not disturbed by what is left.
        with CheckpointWriter(mutated) as writer:
            save(writer, third)
        assert load(mutated) == expected(third)


# Manifests that somebody made


def _forge(path, change):
    """Changes a manifest and makes its checksum right again."""
    document = json.loads(path.read_bytes())
    document["checkpoint"] = change(document["checkpoint"])
    document["sha256"] = checkpoint._checksum(document["checkpoint"])
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/passwd", "../saved/server-00000003.bin", "server-00000003.bin/../x", "..", "",
     "server-00000003.bin\n", "server-0000000٣.bin", "sub/server-00000003.bin", None, 3],
)  # fmt: skip
@pytest.mark.parametrize("role", ["server", "clients"])
def test_a_manifest_never_leads_out_of_the_folder(saved, name, role):
    folder, (_, second, _) = saved
    original = (folder / "server-00000003.bin").read_bytes()
    (folder.parent / "x").write_bytes(original)

    def change(body):
        entry = body["server"] if role == "server" else body["clients"][0]
        entry["name"] = name
        return body

    _forge(folder / "checkpoint-00000003.json", change)
    warnings = []
    assert load(folder, warnings.append) == expected(second)
    assert "checkpoint-00000003.json: it " in warnings[0]
    with CheckpointWriter(folder, keep=1) as writer:
        save(writer, second)
    assert (folder.parent / "x").read_bytes() == original


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4) | st.sampled_from(["float32", "weights", "server-00000002.bin"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)  # fmt: skip


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_forged_manifests_never_crash(saved, data):
    folder, _ = saved
    path = folder / "checkpoint-00000003.json"
    original = path.read_bytes()

    def change(node):
        below = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(below))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
            change(node[key])
        elif data.draw(st.booleans()):
            node[key] = data.draw(JSON)
        else:
            del node[key]
        return node

    _forge(path, change)
    try:
        # What is forged with care loads, as what it says; else the one before or an explanation.
        with contextlib.suppress(CheckpointError):
            assert load(folder, lambda message: None)[0]["round"] >= 0
    finally:
        path.write_bytes(original)


def test_deep_and_huge_json_is_torn(saved):
    folder, (_, second, _) = saved
    for text in ("[" * 10**5, "1" * 10**4, '{"checkpoint": 1e999, "sha256": ""}', "null", "[]"):
        (folder / "checkpoint-00000003.json").write_text(text)
        warnings = []
        assert load(folder, warnings.append) == expected(second)
        assert "torn or corrupted" in warnings[0]


ANOTHER_WEIGHTS = "Received: weights {}. Expected: weights {}"


@pytest.mark.parametrize(
    ("change", "lengths", "message"),
    [
        (lambda: {"more": []}, states.LENGTHS, "the server's vectors differ. Received: ['weights'"),
        (
            lambda: {"weights": [tf.zeros([3, 2]), tf.zeros([2])]},
            states.LENGTHS,
            ANOTHER_WEIGHTS.format(
                [["float32", [2, 3]], ["float32", [2]]], [["float32", [3, 2]], ["float32", [2]]]
            ),
        ),
        (
            lambda: {"weights": [tf.zeros([2, 3], tf.float64), tf.zeros([2])]},
            states.LENGTHS,
            ANOTHER_WEIGHTS.format(
                [["float32", [2, 3]], ["float32", [2]]], [["float64", [2, 3]], ["float32", [2]]]
            ),
        ),
        (dict, {}, "the clients' vectors differ. Received: ['dual', 'last']. Expected: []"),
        (dict, {"dual": 6, "last": 4}, "Received: last 3. Expected: last 4"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(saved, change, lengths, message):
    folder, _ = saved
    other = State(0, {**fresh().server, **change()}, ClientStore(lengths))
    with pytest.raises(CheckpointError, match=re.escape(message)) as caught:
        load_latest(folder, other, unexpected)
    assert "checkpoint-00000003.json is of another model or algorithm" in str(caught.value)


def test_a_checkpoint_of_another_format_is_refused(saved):
    folder, _ = saved
    _forge(folder / "checkpoint-00000003.json", lambda body: {**body, "format": "something else"})
    with pytest.raises(CheckpointError, match="has an unknown format"):
        load(folder)
