"""Each file of the checkpoints is damaged in turn: the same result, or the file is named.

The checkpoints are those of a real run with client state, and what is read of them is trained to
the end.
"""

import dataclasses
import os
import shutil

import pytest

import tf_fedsam
from tests.runs.run_test import toy_config
from tests.state.checkpoint.saving import flip
from tf_fedsam.state.checkpoint import CheckpointError, CheckpointWriter, load_latest
from tf_fedsam.state.checkpoint.format import manifest_numbers, read_manifest

pytestmark = pytest.mark.no_cover

SAVED, LAST = 6, 9


@dataclasses.dataclass
class Saved:
    """A run that was saved after each of its first rounds.

    Attributes:
        experiment: what is trained.
        folder: the checkpoints after rounds 5 and 6.
        final: weights after the last round.
        needed: for each data file the rounds whose checkpoints name it.
    """

    experiment: object
    folder: object
    final: list[bytes]
    needed: dict[str, set[int]]

    def end(self, state) -> list[bytes]:
        while state.round_num < LAST:
            state, _ = self.experiment.round(state)
        return [w.tobytes() for w in self.experiment.process.get_model_weights(state).trainable]


def files_of(folder) -> dict[str, set[int]]:
    needed: dict[str, set[int]] = {}
    for number in manifest_numbers(folder):
        manifest = read_manifest(folder, number)
        for name in (manifest.name, *(file.name for file in manifest.files)):
            needed.setdefault(name, set()).add(manifest.round_num)
    return needed


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage")
    options = {"algo": "scaffold", "partition": "iid", "num_clients": 8, "rounds": LAST}
    experiment = tf_fedsam.build(toy_config(folder, **options))
    state = experiment.initialize()
    with CheckpointWriter(folder / "saved") as writer:
        while state.round_num < SAVED:
            state, _ = experiment.round(state)
            writer.save(state, {})
            writer.flush()
    result = Saved(experiment, folder / "saved", [], files_of(folder / "saved"))
    result.final = result.end(state)
    assert sorted(result.needed) == sorted(os.listdir(result.folder))
    assert {5, 6} in result.needed.values()  # files that both share
    return result


def cut(path, part):
    os.truncate(path, int(part * path.stat().st_size))


def burst(path, start, size=40):
    """Damages several bytes, of one row or two that are side by side."""
    for offset in range(start, min(start + size, path.stat().st_size)):
        flip(path, offset)


DAMAGES = {
    "deleted": os.unlink,
    "emptied": lambda path: cut(path, 0),
    "cut in half": lambda path: cut(path, 0.5),
    "the last eighth cut off": lambda path: cut(path, 7 / 8),
    **{
        f"a byte at {eighth}/8": lambda path, eighth=eighth: flip(
            path, path.stat().st_size * eighth // 8
        )
        for eighth in range(8)
    },
    "a burst": lambda path: burst(path, path.stat().st_size // 2),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_file_in_turn(saved, tmp_path, damage):
    for name, needed_by in saved.needed.items():
        folder = tmp_path / name
        shutil.copytree(saved.folder, folder)
        DAMAGES[damage](folder / name)
        warnings: list[str] = []
        try:
            state, _ = load_latest(folder, saved.experiment.initialize(), warnings.append)
        except CheckpointError as error:
            warnings, state = [str(error)], None
        if state is None:
            assert name in warnings[0]
            assert needed_by == {5, 6}, "a checkpoint that does not need the file was refused"
            continue
        if state.round_num < SAVED:
            assert SAVED in needed_by
            assert any(name in warning for warning in warnings) or damage == "deleted"
        assert saved.end(state) == saved.final
        # One that does not need the file is not even warned of.
        assert not warnings or SAVED in needed_by


def test_a_byte_of_a_file_of_rows_costs_nothing(saved, tmp_path):
    """Wherever it is: rows that both checkpoints need are restored."""
    shared = [name for name, needed_by in saved.needed.items() if needed_by == {5, 6}]
    fresh = saved.experiment.initialize()
    for name in shared:
        path = tmp_path / name
        shutil.copytree(saved.folder, tmp_path, dirs_exist_ok=True)
        original = path.read_bytes()
        for offset in range(0, len(original), 5):
            flip(path, offset)
            state, _ = load_latest(tmp_path, fresh, lambda message: None)
            assert state.round_num == SAVED
            path.write_bytes(original)
    assert saved.end(state) == saved.final


def test_two_rows_that_both_need_are_named_and_refused(saved, tmp_path):
    """What cannot be restored is not trained with."""
    shutil.copytree(saved.folder, tmp_path, dirs_exist_ok=True)
    shared = sorted(name for name, needed_by in saved.needed.items() if needed_by == {5, 6})
    refused = []
    for name in shared:
        path = tmp_path / name
        original = path.read_bytes()
        burst(path, len(original) // 4, len(original) // 2)
        with pytest.raises(CheckpointError) as caught:
            load_latest(tmp_path, saved.experiment.initialize(), lambda message: None)
        refused.append(str(caught.value))
        path.write_bytes(original)
    assert refused
    for name, message in zip(shared, refused, strict=True):
        assert message.count(name) == 2
        assert "client" in message
        assert "Put the files back from a copy" in message
