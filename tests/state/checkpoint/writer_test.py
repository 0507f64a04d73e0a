"""Checkpoints: exact, incremental, and no more of them than asked for."""

import json
import os
import shutil
import tempfile
import threading
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from tests.state.checkpoint import save_loop, states
from tests.state.checkpoint.saving import (
    THREE_SAVED,
    expected,
    extra_of,
    flip,
    listing,
    load,
    save,
    three_states,
    unexpected,
)
from tests.state.checkpoint.states import content, fresh, scatter
from tf_fedsam.errors import InputError
from tf_fedsam.process import State
from tf_fedsam.state import files
from tf_fedsam.state.checkpoint import CheckpointWriter, compaction, load_latest
from tf_fedsam.state.client_store import ClientStore


def test_round_trip_is_exact_to_the_bit(tmp_path):
    for state in three_states():
        with CheckpointWriter(tmp_path) as writer:  # each time as after a restart
            save(writer, state)
        assert load(tmp_path) == expected(state)
        assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_methods_without_client_state(tmp_path):
    state = State(4, states.server(4), ClientStore({}))
    with CheckpointWriter(tmp_path) as writer:
        save(writer, state)
    found = load_latest(tmp_path, State(0, states.server(1), ClientStore({})), unexpected)
    assert content(found[0]) == content(state)
    assert listing(tmp_path) == ["checkpoint-00000001.json", "server-00000001.bin"]


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


def newest_rows(folder) -> list[dict]:
    """The files of rows that the newest manifest names."""
    manifest = json.loads(sorted(folder.glob("checkpoint-*"))[-1].read_bytes())
    return manifest["checkpoint"]["clients"]


def test_only_rows_that_changed_are_written(saved):
    folder, _ = saved
    assert listing(folder) == THREE_SAVED
    # A row: twice its position (8 bytes) and its checksum (32), and 6 + 3 numbers of 4 bytes. One
    # spare row a file.
    sizes = [(folder / f"clients-0000000{i}.bin").stat().st_size for i in (1, 2, 3)]
    assert sizes == [6 * 116 + 36, 116 + 36, 116 + 36]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("cohort_size", [1, 5, 20])
def test_bytes_written_follow_the_cohort_not_the_number_of_clients(
    tmp_path, monkeypatch, cohort_size, restart
):
    monkeypatch.setattr(compaction, "MOVED_BYTES", 0)
    num_clients, length, num_saves = 200, 250, 60
    row_bytes = 80 + 4 * length
    generator = np.random.default_rng(0)
    clients = ClientStore({"c": length})
    server = {"weights": [tf.zeros(1)]}

    def change(positions):
        rows = generator.standard_normal((len(positions), length)).astype(np.float32)
        clients.scatter(positions, {"c": rows}, np.ones(len(positions), bool))

    def loaded() -> ClientStore:
        start = State(0, server, ClientStore({"c": length}))
        found = load_latest(tmp_path, start, unexpected)[0].clients
        every = np.arange(num_clients)
        np.testing.assert_array_equal(found.gather(every)[0]["c"], clients.gather(every)[0]["c"])
        return found

    change(np.arange(num_clients))
    writer = CheckpointWriter(tmp_path, keep=1)
    writer.save(State(0, server, clients), {})
    writer.flush()
    num_rows = 0
    for i in range(1, num_saves + 1):
        if restart:
            writer.close()
            clients, writer = loaded(), CheckpointWriter(tmp_path, keep=1)
        change(generator.choice(num_clients, cohort_size, replace=False))
        writer.save(State(i, server, clients), {})
        writer.flush()
        file = newest_rows(tmp_path)[-1]
        num_new = (file["num_bytes"] - file["num_spare"] * 4 * length) // row_bytes
        assert (tmp_path / f"clients-{i + 1:08d}.bin").stat().st_size == file["num_bytes"]
        assert num_new <= 2 * cohort_size  # as many are moved as changed
        num_rows += num_new
        on_disk = sum(path.stat().st_size for path in tmp_path.glob("clients-*"))
        assert on_disk <= 3 * num_clients * row_bytes
    writer.close()
    loaded()
    assert num_rows <= 1.4 * cohort_size * num_saves


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
    flip(folder / "server-00000003.bin", 0)
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
@given(operations=OPERATIONS, on_disk=st.booleans())
def test_any_history_is_saved_exactly(operations, on_disk):
    """Also if rows are left on the disk, which then must not lose any."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        patch.setattr(compaction, "MAX_SMALL_FILES", 4)
        writer = CheckpointWriter(folder, release=on_disk)
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
                found = load_latest(folder, fresh(), unexpected, on_disk=on_disk)
                if found and argument:
                    state = found[0]
                writer = CheckpointWriter(folder, release=on_disk)
            elif not on_disk:
                rows = sorted(folder.glob("clients-*"))
                if argument < len(rows):
                    rows[argument].unlink()
            save(writer, state)
            assert load(folder) == expected(state)
            row_files = newest_rows(folder)
            assert len(row_files) <= 4
            num_bytes = sum(file["num_bytes"] - 36 * file["num_spare"] for file in row_files)
            assert num_bytes <= 2 * 116 * len(state.clients)
        writer.close()
