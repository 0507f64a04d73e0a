"""A resumed run writes what an undisturbed one writes: kills cost time, but do not stop it."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tests.state.checkpoint.saving import unexpected
from tests.state.checkpoint.states import bits, content
from tests.state.faults import Disk, KillingDisk, SmallDisk, used
from tf_fedsam.process import State
from tf_fedsam.state.checkpoint import CheckpointError, CheckpointWriter, compaction, load_latest
from tf_fedsam.state.client_store import ClientStore

NUM_CLIENTS, COHORT, LENGTH = 60, 3, 2500
ROW = 2 * 40 + 4 * LENGTH
AROUND = 20_000  # the server's two numbers and the manifest, with room to spare


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch):
    """So that rows move as those of large models do: no more of them than changed."""
    monkeypatch.setattr(compaction, "MOVED_BYTES", 0)


def fresh() -> State:
    return State(0, {"weights": [tf.zeros(2)]}, ClientStore({"c": LENGTH}))


def advance(state: State) -> State:
    """All clients in the first round, then a few; a function of the round alone."""
    number = state.round_num
    cohort = np.arange(NUM_CLIENTS)
    if number:
        cohort = np.random.default_rng(number).choice(NUM_CLIENTS, COHORT, replace=False)
    rows = np.stack([bits(1000 * number + position, LENGTH) for position in cohort])
    state.clients.scatter(cohort, {"c": rows}, np.ones(len(cohort), bool))
    return State(number + 1, {"weights": [tf.constant(bits(number, 2))]}, state.clients)


def after(num_rounds: int) -> State:
    state = fresh()
    for _ in range(num_rounds):
        state = advance(state)
    return state


def load(folder) -> State:
    return load_latest(folder, fresh(), unexpected)[0]


def save(writer, state) -> None:
    writer.save(state, {})
    writer.flush()


def train(folder, num_rounds, state=None, **options) -> None:
    """Saves each of the first rounds, from this state on."""
    state = state or fresh()
    with CheckpointWriter(folder, **options) as writer:
        while state.round_num < num_rounds:
            state = advance(state)
            save(writer, state)


@pytest.mark.parametrize("keep", [1, 2, 4])
def test_the_first_checkpoint_after_a_resume_is_an_increment(tmp_path, keep):
    """To the byte that of a process that was not interrupted, moved rows among them."""
    num_moving = 0
    with CheckpointWriter(tmp_path / "whole", keep) as writer:
        state = fresh()
        for number in range(1, 60):
            state, sizes = advance(state), []
            resumed = advance(fresh() if number == 1 else load(tmp_path / "cut"))
            for case in ("whole", "cut"):
                with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
                    disk = Disk().install(patch)
                    if case == "whole":
                        save(writer, state)
                    else:
                        cut = stack.enter_context(CheckpointWriter(tmp_path / "cut", keep))
                        save(cut, resumed)
                    sizes.append(disk.num_bytes)
            assert sizes[0] == sizes[1]
            if number > 1:
                assert COHORT * ROW <= sizes[0] <= 2 * COHORT * ROW + AROUND
                num_moving += sizes[0] > COHORT * ROW + AROUND
            assert content(load(tmp_path / "cut")) == content(state)
    assert num_moving > 5
    assert AROUND < 3 * ROW  # else the count above counts nothing


def test_a_run_that_is_always_killed_in_its_first_checkpoints_gets_to_its_end(tmp_path):
    """No process lives to write the half of the clients' state; each gets a round further."""
    train(tmp_path, 1)
    num_processes, reached = 0, 1
    while reached < 30:
        disk = KillingDisk(2 * COHORT * ROW + AROUND)
        state = load(tmp_path)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(CheckpointError):
            disk.install(patch)
            train(tmp_path, 30, state)
        assert disk.num_bytes < NUM_CLIENTS * ROW / 4
        found = load(tmp_path)
        assert found.round_num > reached
        reached = found.round_num
        assert content(found) == content(after(reached))
        num_processes += 1
        # Two kept checkpoints and what the dead one left.
        assert used(tmp_path) <= 4 * NUM_CLIENTS * ROW
    assert num_processes > 10


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_what_a_killed_process_left_is_gone_before_anything_is_written(tmp_path, part):
    train(tmp_path, 5)
    before = sorted(path.name for path in tmp_path.iterdir())
    for _ in range(3):
        disk = KillingDisk(int(part * COHORT * ROW))
        state = load(tmp_path)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(CheckpointError):
            disk.install(patch)
            train(tmp_path, 6, state)
        assert disk.killed
        left = {path.name for path in tmp_path.iterdir()} - {*before}
        assert len(left) == 1
        CheckpointWriter(tmp_path).close()
        assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_finished_files_of_an_unfinished_checkpoint_go_too(tmp_path):
    train(tmp_path, 5)
    before = sorted(path.name for path in tmp_path.iterdir())
    for name in (
        "clients-00000006.bin",
        "server-00000006.bin",
        ".server-00000003.bin.0123abcd.tmp",
    ):
        (tmp_path / name).write_bytes(b"left")
    CheckpointWriter(tmp_path).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_room_for_one_increment_is_enough(tmp_path):
    """Rows that might move do not if there is no room for them."""
    train(tmp_path, 2, keep=1)
    for number in range(3, 40):
        state = load(tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            SmallDisk(tmp_path, used(tmp_path) + COHORT * ROW + AROUND).install(patch)
            train(tmp_path, number, state, keep=1)
        assert content(load(tmp_path)) == content(after(number))


def test_no_room_at_all_is_said_and_harms_nothing(tmp_path):
    train(tmp_path, 30)
    state, before = load(tmp_path), sorted(path.name for path in tmp_path.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        SmallDisk(tmp_path, used(tmp_path) + COHORT * ROW // 2).install(patch)
        with pytest.raises(CheckpointError, match="No space left on device"):
            train(tmp_path, 31, state)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert content(load(tmp_path)) == content(after(30))


def test_a_state_from_another_folder_is_written_as_a_whole(tmp_path):
    train(tmp_path / "here", 5)
    state = load(tmp_path / "here")
    train(tmp_path / "there", 6, state)
    assert content(load(tmp_path / "there")) == content(after(6))
    assert content(load(tmp_path / "here")) == content(after(5))


def test_the_same_state_may_go_on_twice(tmp_path):
    """What it was read from has been deleted by the first, so the second writes it anew."""
    train(tmp_path, 5)
    state = load(tmp_path)
    train(tmp_path, 60, state.copy())
    train(tmp_path, 6, state.copy())
    assert content(load(tmp_path)) == content(after(6))
    numbers = sorted(int(path.stem[-8:]) for path in tmp_path.glob("checkpoint-*"))
    assert numbers == [60, 61]  # of the first, which is intact, and of the second
