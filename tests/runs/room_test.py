"""What a run may need is known before it begins."""

import dataclasses

import pytest
import tensorflow as tf

import tf_fedsam
from tests.launch.running import image_files, run, toy_args
from tests.runs.run_test import toy_config
from tf_fedsam import RunConfig
from tf_fedsam.data import files
from tf_fedsam.runs import room
from tf_fedsam.runs.experiment import Experiment


def test_estimate(tmp_path):
    """18 weights of 4 bytes; SCAFFOLD keeps one such vector for each of 4 clients."""
    experiment = tf_fedsam.build(toy_config(tmp_path, algo="scaffold", rounds=1, participation=0.5))
    state = experiment.initialize()
    found = room.estimate(experiment, state, tmp_path / "not/yet")
    assert found.data == 2 * ((40 + 12) * 5 * 4 + (40 + 12) * 8)  # once for the devices
    # One round of two of the clients: kept, gathered, and come back.
    assert found.client_state == (2 + 2 + 2) * 18 * 4
    server = 2 * 18 * 4  # weights and control
    replicas = experiment.process.engine.strategy.num_replicas_in_sync
    assert found.training == server + replicas * room.TRAINING_MODELS * 18 * 4
    assert found.memory == found.data + found.client_state + found.training
    # On the disk as many rows are out of date as are not, and a file of two has a spare one.
    assert found.saved == 3 * server + (2 * 2 + 3) * 18 * 4 + 5 * 18 * 4
    assert found.free_memory > 0
    assert found.free_disk > 0
    assert found.warnings() == []
    longer = toy_config(tmp_path, algo="scaffold", rounds=9, participation=0.5)
    again = room.estimate(tf_fedsam.build(longer), state, tmp_path)
    assert again.client_state == (4 + 2 + 2) * 18 * 4  # no more than all


def test_images_in_files(tmp_path, monkeypatch):
    """What is kept of 8 x 8 images: at most the cache, and as much that is prefetched."""
    image_files(tmp_path / "images", 5, 2)
    config = RunConfig(
        dataset="image_folder", data_dir=str(tmp_path / "images"), stream="always", model="linear",
        partition="iid", num_clients=2, rounds=1,
    ).resolve()  # fmt: skip
    experiment = tf_fedsam.build(config)
    found = room.estimate(experiment, experiment.initialize(), tmp_path)
    labels = sum(part.y.nbytes for part in (experiment.dataset.train, experiment.dataset.test))
    assert found.data == 2 * (10 + 4) * 8 * 8 * 3 + labels
    monkeypatch.setattr(files, "DEFAULT_CACHE_BYTES", 100)
    found = room.estimate(experiment, experiment.initialize(), tmp_path)
    assert found.data == 2 * 2 * 100 + labels


def test_the_limit_of_a_container(tmp_path):
    """1,000 bytes may be had, 900 are, 300 of them pages of files; or there is no limit."""
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 600\ninactive_file 300\n")
    assert list(room._left_by_limits(tmp_path)) == [400]
    (tmp_path / "memory.max").write_text("max\n")
    assert list(room._left_by_limits(tmp_path)) == []


def test_too_little():
    few = room.Room(10, 20, 30, 100, free_memory=59, free_disk=99)
    memory, disk = (words[0] for words in few.warnings())
    assert memory.startswith("Warning: the run may come to need 60 B of memory, and 59 B are free")
    assert disk.startswith("Warning: the run may come to need 100 B on the disk, and 99 B are free")
    assert dataclasses.replace(few, free_memory=60, free_disk=100).warnings() == []
    assert dataclasses.replace(few, free_memory=None, free_disk=None).warnings() == []
    assert "of 59 B free" in few.row()


def test_it_is_told(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda: 100)
    result = run(capsys, *toy_args(tmp_path), "--algo=scaffold")
    assert result.code == 0
    assert "may need" in result.out
    assert "--num_clients" in result.out


@pytest.mark.parametrize(
    "error", [tf.errors.ResourceExhaustedError(None, None, "x"), MemoryError()]
)
def test_no_memory_is_left(error, capsys, tmp_path, monkeypatch):
    one_round = Experiment.round

    def full(experiment, state):
        if state.round_num == 1:
            raise error
        return one_round(experiment, state)

    monkeypatch.setattr(Experiment, "round", full)
    result = run(capsys, *toy_args(tmp_path))
    assert result.code == 1
    assert result.err.startswith("error: A device ran out of memory.")
    assert "after round 1 is intact" in result.err
    assert "--microbatch=N" in result.err
    monkeypatch.setattr(Experiment, "round", one_round)
    assert run(capsys, *toy_args(tmp_path)).code == 0


@pytest.mark.parametrize(
    ("given", "free", "expected"),
    [
        ({"client_state": "disk"}, 10**12, True),
        ({"client_state": "memory"}, 1, False),
        ({}, 2 * 2 * 72, False),  # two clients of 18 numbers take half of it
        ({}, 2 * 2 * 72 - 1, True),
        ({}, None, False),
        ({"algo": "fedavg"}, 0, False),
    ],
)
def test_client_state_goes_to_the_disk_if_it_is_too_much(
    tmp_path, monkeypatch, given, free, expected
):
    monkeypatch.setattr(room, "free_memory", lambda: free)
    config = toy_config(tmp_path, **{"algo": "scaffold", "rounds": 1, **given})
    assert room.on_disk(tf_fedsam.build(config)) is expected


def test_what_is_on_the_disk_is_not_counted_as_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "UNSAVED_BYTES", 100)
    experiment = tf_fedsam.build(toy_config(tmp_path, algo="scaffold", rounds=9))
    state = experiment.initialize()
    in_memory, on_disk = (room.estimate(experiment, state, tmp_path, disk) for disk in (0, 1))
    assert in_memory.client_state == (4 + 2 + 2) * 72
    # Two cohorts to be saved, one that is moved, the next one, and one before and after its round.
    assert on_disk.client_state == (2 + 1 + 1 + 2) * 2 * 72
    assert on_disk.saved == in_memory.saved
