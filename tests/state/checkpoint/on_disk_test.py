"""Rows that stay on the disk: the same numbers, without the memory."""

import dataclasses
import gc
import threading

import numpy as np
import pytest

from tests.state.checkpoint import states
from tests.state.checkpoint.resume_test import NUM_CLIENTS, advance, after
from tests.state.checkpoint.resume_test import fresh as fresh_large
from tests.state.checkpoint.saving import expected, flip, listing, save, three_states, unexpected
from tests.state.checkpoint.states import content, fresh
from tf_fedsam.state.checkpoint import CheckpointError, CheckpointWriter, load_latest, rows
from tf_fedsam.state.checkpoint.on_disk import is_in_use, rows_on_disk
from tf_fedsam.state.client_store import ClientStore


def load_on_disk(folder, like=None, warn=unexpected):
    return load_latest(folder, like or fresh(), warn, on_disk=True)[0]


def test_a_file_is_in_use_as_long_as_somebody_may_read_it(tmp_path):
    clients = ClientStore(states.LENGTHS)
    states.scatter(clients, [3, 5], 1)
    file = rows.write(tmp_path / "clients-00000001.bin", clients, [5, 3])
    source = rows_on_disk(tmp_path, file, rows.read_index(tmp_path, file, 9))
    other = ClientStore(states.LENGTHS)
    other.refer(3, source)
    other.refer(5, source)
    for position in (3, 5):
        for name, vector in clients.row(position).items():
            assert other.row(position)[name].tobytes() == vector.tobytes()
    assert rows_on_disk(tmp_path, file, rows.read_index(tmp_path, file, 9)) is source
    del source
    assert is_in_use(tmp_path / file.name)
    assert not is_in_use(tmp_path / "clients-00000002.bin")
    del other
    gc.collect()
    assert not is_in_use(tmp_path / file.name)


def test_saved_rows_are_read_from_the_disk(tmp_path):
    """Also by those who hold copies of the state, and what is saved next."""
    result = three_states()
    before = [expected(state) for state in result]
    copies = [state.copy() for state in result]
    with CheckpointWriter(tmp_path, release=True) as writer:
        for state, wanted in zip(result, before, strict=True):
            assert state.clients.bytes_in_memory > 0
            save(writer, state)
            assert state.clients.bytes_in_memory == 0
            assert expected(state) == wanted
    assert [expected(state) for state in copies] == before
    assert sum(state.clients.bytes_in_memory for state in copies) == 0
    loaded = load_on_disk(tmp_path)
    assert loaded.clients.bytes_in_memory == 0
    assert expected(loaded) == before[-1]
    assert loaded.clients.num_bytes == 6 * 9 * 4


def test_without_it_rows_stay_in_memory(tmp_path):
    state = three_states()[0]
    with CheckpointWriter(tmp_path) as writer:
        save(writer, state)
    assert state.clients.bytes_in_memory == state.clients.num_bytes


@pytest.mark.parametrize("keep", [1, 2])
def test_any_run_is_as_in_memory(tmp_path, keep):
    """Rows move from file to file and files go, while all but a cohort are on the disk."""
    state, wanted = fresh_large(), fresh_large()
    writer = CheckpointWriter(tmp_path, keep, release=True)
    for number in range(1, 41):
        state, wanted = advance(state), advance(wanted)
        every = np.arange(NUM_CLIENTS)
        np.testing.assert_array_equal(
            state.clients.gather(every)[0]["c"].view(np.uint32),
            wanted.clients.gather(every)[0]["c"].view(np.uint32),
        )
        writer.save(state, {})
        if number % 3:
            writer.flush()
        if number % 10 == 0:  # as after a restart
            writer.close()
            state, writer = (
                load_on_disk(tmp_path, fresh_large()),
                CheckpointWriter(tmp_path, keep, release=True),
            )
    writer.close()
    assert content(state) == content(wanted) == content(after(40))
    assert state.clients.bytes_in_memory == 0
    num_rows = sum(path.stat().st_size for path in tmp_path.glob("clients-*")) / 10_080
    assert num_rows < (2 + keep) * NUM_CLIENTS  # files do go


def test_going_back_to_a_copy(tmp_path):
    """Its files stay as long as it may read them, and go afterwards."""
    state = after(5)
    wanted = content(state)
    with CheckpointWriter(tmp_path, 1, release=True) as writer:
        save(writer, state)
        marked = state.copy()
        while state.round_num < 60:
            state = advance(state)
            save(writer, state)
        assert "clients-00000001.bin" in listing(tmp_path)
        assert content(marked) == wanted
        assert marked.clients.bytes_in_memory == 0
        save(writer, marked)
        assert content(load_on_disk(tmp_path, fresh_large())) == wanted
        del state, marked
        save(writer, after(60))
        assert len(listing(tmp_path)) == 3  # manifest, server, rows
    assert content(load_on_disk(tmp_path, fresh_large())) == content(after(60))


def test_training_reads_while_rows_are_written_and_moved(tmp_path):
    """What is read never depends on how far the writer is."""
    state, wanted = fresh_large(), fresh_large()
    failures = []

    def read():
        every = np.arange(NUM_CLIENTS)
        try:
            while not done.is_set():
                matrices, seen = copies[-1].clients.gather(every)
                assert seen.all()
                assert np.isin(matrices["c"].view(np.uint32)[:, -1], known[-1]).all()
        except Exception as error:  # whatever it is must come out in the test
            failures.append(error)

    done = threading.Event()
    with CheckpointWriter(tmp_path, 1, release=True) as writer:
        state, wanted = advance(state), advance(wanted)
        copies = [state.copy()]
        known = [state.clients.gather(np.arange(NUM_CLIENTS))[0]["c"].view(np.uint32)[:, -1]]
        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(40):
            state, wanted = advance(state), advance(wanted)
            writer.save(state, {})
        done.set()
        reader.join()
    assert not failures
    assert content(state) == content(wanted)


def test_damage_is_found_when_a_run_goes_on_and_when_a_row_is_read(tmp_path):
    result = three_states()
    with CheckpointWriter(tmp_path, release=True) as writer:
        for state in result:
            save(writer, state)
    state, path = load_on_disk(tmp_path), tmp_path / "clients-00000001.bin"
    flip(path, 240 + 36 * 3)  # the row of client 2
    assert expected(state) == expected(three_states()[2])  # restored
    flip(path, 240)  # the spare row
    with pytest.raises(CheckpointError, match=r"client 2 .* in clients-00000001\.bin are damaged"):
        state.clients.gather(np.array([1, 2]))
    assert state.clients.gather(np.array([1, 3]))[1].all()
    with (
        CheckpointWriter(tmp_path / "elsewhere") as writer,  # which has to read all rows
        pytest.raises(CheckpointError, match="Cannot read what a client keeps"),
    ):
        save(writer, state)
    warnings = []
    with pytest.raises(CheckpointError, match="None of the checkpoints"):
        load_on_disk(tmp_path, warn=warnings.append)
    with CheckpointWriter(tmp_path, release=True) as writer:
        changed = dataclasses.replace(state, round_num=4)
        states.scatter(changed.clients, [2], 4)  # so that nobody needs it
        save(writer, changed)
    assert expected(load_on_disk(tmp_path)) == expected(changed)


def test_a_restored_row_is_in_memory_until_it_is_saved(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        save(writer, three_states()[2])
    flip(tmp_path / "clients-00000001.bin", 240 + 36)
    warnings = []
    state = load_on_disk(tmp_path, warn=warnings.append)
    assert len(warnings) == 1
    assert state.clients.bytes_in_memory == 36
    with CheckpointWriter(tmp_path, release=True) as writer:
        save(writer, state)
    assert state.clients.bytes_in_memory == 0
    assert expected(load_on_disk(tmp_path)) == expected(three_states()[2])
