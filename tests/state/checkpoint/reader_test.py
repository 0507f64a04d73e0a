"""Reading: exactly what was written, or an explanation."""

import contextlib
import re
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings

from tests.state.checkpoint import states
from tests.state.checkpoint.saving import (
    CORRUPTIONS,
    THREE_SAVED,
    expected,
    flip,
    listing,
    load,
    save,
    three_states,
    unexpected,
)
from tests.state.checkpoint.states import fresh
from tf_fedsam.process import State
from tf_fedsam.state.checkpoint import CheckpointError, CheckpointWriter, load_latest
from tf_fedsam.state.client_store import ClientStore


def test_no_checkpoint(tmp_path):
    assert load(tmp_path) is None
    assert load(tmp_path / "missing") is None
    CheckpointWriter(tmp_path / "never").close()
    assert not (tmp_path / "never").exists()


def test_restored_vectors_are_in_the_order_of_the_fresh_state(tmp_path):
    state = three_states()[0]
    backwards = State(1, dict(reversed(state.server.items())), state.clients)
    with CheckpointWriter(tmp_path) as writer:
        save(writer, backwards)
    assert load(tmp_path) == expected(state)


def test_a_folder_that_is_a_file_is_explained(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="Not a directory"):
        load(tmp_path / "file")


def outcome(folder, result) -> int | None:
    """Rounds of the checkpoint that is loaded, which must be exact; None if there is none."""
    try:
        found = load(folder, lambda message: None)
    except CheckpointError:
        return None
    assert found == expected(result[found[0]["round"] - 1])
    return found[0]["round"]


# What files of rows survive: one of the two copies of the index is hit, or nothing at all.
AT_AN_END = ("one byte short", "one byte long", "first byte", "last byte")


def survives(name, corruption) -> bool:
    """Whether a damaged file is read as if nothing had happened to it, with or without a word."""
    one_row = ("clients-00000002.bin", "clients-00000003.bin")  # and its spare, in the first half
    return name.startswith("clients") and (
        corruption in (*AT_AN_END, "middle byte") or (corruption == "half" and name in one_row)
    )


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("name", ["checkpoint-00000003.json", "server-00000003.bin",
                                  "clients-00000003.bin"])  # fmt: skip
def test_a_corrupted_checkpoint_is_named_and_the_one_before_is_used(saved, name, corruption):
    folder, (_, second, third) = saved
    warnings = []
    CORRUPTIONS[corruption](folder / name)
    found = load(folder, warnings.append)
    assert found == expected(third if survives(name, corruption) else second)
    if (name[:10], corruption) == ("checkpoint", "missing"):
        assert not warnings  # as if it had not been written
    elif name.startswith("clients") and corruption in AT_AN_END:
        assert not warnings
    else:
        assert len(warnings) == 1
        assert name in warnings[0]
        assert str(folder) in warnings[0]


@pytest.mark.parametrize("corruption", sorted(CORRUPTIONS))
@pytest.mark.parametrize("name", ["clients-00000001.bin", "clients-00000002.bin"])
def test_rows_that_both_checkpoints_need_are_restored_or_named(saved, name, corruption):
    folder, (_, _, third) = saved
    CORRUPTIONS[corruption](folder / name)
    warnings = []
    if survives(name, corruption):
        assert load(folder, warnings.append) == expected(third)
        return
    with pytest.raises(CheckpointError, match="None of the checkpoints") as caught:
        load(folder, warnings.append)
    assert len(warnings) == 2
    assert str(caught.value).count(name) == 2
    assert "delete the folder to start over" in str(caught.value)
    if corruption == "half":  # 90 bytes behind the index of 6 * 40 and a spare row: in the third
        assert f"clients 2, 3, 4, 5 (counted from 0) in {name}" in str(caught.value)


# Where the rows of three_states() are, and which of the checkpoints after 2 and 3 rounds need them.
ROWS = [
    ("clients-00000001.bin", 0, ()),
    ("clients-00000001.bin", 1, (2,)),
    *(("clients-00000001.bin", client, (2, 3)) for client in (2, 3, 4, 5)),
    ("clients-00000002.bin", 0, (2, 3)),
    ("clients-00000003.bin", 1, (3,)),
]


@pytest.mark.parametrize(("name", "client", "needed_by"), ROWS)
def test_a_damaged_row_is_restored_or_a_loss_to_those_who_need_it(saved, name, client, needed_by):
    folder, result = saved
    original = (folder / name).read_bytes()
    num_rows = len(original) // 116
    spare = 40 * num_rows
    start = spare + 36 * (1 + (client if num_rows > 1 else 0))
    for offset in range(start, start + 36):
        flip(folder / name, offset, 1 << offset % 8)
        assert outcome(folder, result) == 3
        flip(folder / name, spare + offset % 36)
        assert outcome(folder, result) == max({2, 3} - {*needed_by}, default=None)
        (folder / name).write_bytes(original)


def test_restored_rows_are_told_and_written_again(saved):
    """So that the damage is over with the next checkpoint."""
    folder, (_, _, third) = saved
    flip(folder / "clients-00000001.bin", 240 + 36 * 5)
    warnings = []
    state = load_latest(folder, fresh(), warnings.append)[0]
    assert len(warnings) == 1
    assert "client 4 (counted from 0)" in warnings[0]
    assert str(folder / "clients-00000001.bin") in warnings[0]
    with CheckpointWriter(folder) as writer:
        save(writer, state)
    flip(folder / "clients-00000001.bin", 240)
    assert load(folder) == expected(third)
    assert (folder / "clients-00000004.bin").stat().st_size == 116 + 36


def test_a_damaged_index_is_a_loss_to_nobody(saved):
    folder, result = saved
    for name in sorted({name for name, *_ in ROWS}):
        original = (folder / name).read_bytes()
        size = 40 * (len(original) // 116)
        for offset in [*range(size), *range(len(original) - size, len(original))]:
            flip(folder / name, offset, 1 << offset % 8)
            assert outcome(folder, result) == 3
            (folder / name).write_bytes(original)
        flip(folder / name, 0)
        flip(folder / name, -1)
        assert outcome(folder, result) == (2 if name == "clients-00000003.bin" else None)
        (folder / name).write_bytes(original)


@pytest.mark.parametrize("name", ["checkpoint-00000002.json", "server-00000002.bin"])
def test_the_newest_does_not_need_the_others_files(saved, name):
    folder, result = saved
    original = (folder / name).read_bytes()
    for offset in range(0, len(original), 7):
        flip(folder / name, offset)
        assert load(folder) == expected(result[2])
    (folder / name).unlink()
    assert load(folder) == expected(result[2])


@pytest.mark.parametrize("name", ["checkpoint-00000003.json", "server-00000003.bin"])
def test_the_one_before_does_not_need_the_files_of_the_newest(saved, name):
    folder, result = saved
    original = (folder / name).read_bytes()
    for offset in range(0, len(original), 7):
        flip(folder / name, offset)
        found = outcome(folder, result)
        # White space and the like in a manifest may change without harm.
        assert found == 2 or (found == 3 and name.startswith("checkpoint"))
        (folder / name).write_bytes(original)


def test_after_damage_the_run_goes_on_without_the_damaged_rows(saved):
    """The checkpoint that was refused does not count as kept, and its rows are not used again."""
    folder, (_, second, third) = saved
    for offset in (60, 100):  # in the row and what it could be restored from
        flip(folder / "clients-00000003.bin", offset)
    state, _ = load_latest(folder, fresh(), lambda message: None)
    states.scatter(state.clients, [1], 3)
    with CheckpointWriter(folder) as writer:
        save(writer, State(3, third.server, state.clients))
    assert listing(folder) == [
        "checkpoint-00000002.json",
        "checkpoint-00000004.json",
        "clients-00000001.bin",
        "clients-00000002.bin",
        "clients-00000004.bin",
        "server-00000002.bin",
        "server-00000004.bin",
    ]
    assert load(folder) == expected(third)
    (folder / "checkpoint-00000004.json").unlink()
    assert load(folder) == expected(second)


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
            if found == expected(second):
                assert any("Looking for the one before" in message for message in warnings)
        # A run that goes on from there is not disturbed by what is left.
        with CheckpointWriter(mutated) as writer:
            save(writer, third)
        assert load(mutated) == expected(third)


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
