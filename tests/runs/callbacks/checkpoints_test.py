"""When a run is saved, and what is saved with it."""

import hashlib

import pytest

from tests.runs.callbacks.under_way import UnderWay, a_record, drive
from tests.state.checkpoint import states
from tests.state.checkpoint.saving import load, three_states, unexpected
from tf_fedsam.process import State
from tf_fedsam.runs.callbacks import checkpoints
from tf_fedsam.runs.callbacks.checkpoints import Checkpoints
from tf_fedsam.state.checkpoint import load_latest


def rounds_of(training, num=3):
    """Rounds whose lines are in the log before the callback hears of them."""
    for number in range(1, num + 1):
        record = a_record(number)
        training.folder.append(record)
        yield record


@pytest.fixture
def training(tmp_path):
    (tmp_path / "run").mkdir()
    return UnderWay(tmp_path / "run")


def test_every_round(training):
    drive(Checkpoints(), training, rounds_of(training), three_states())
    assert training.saved_round == 3
    assert training.folder.was_saved()
    content, extra = load(training.folder.checkpoints)
    assert content == states.content(three_states()[2])
    log = training.folder.rounds_file.read_bytes()
    assert extra == {"log_bytes": len(log), "log_sha256": hashlib.sha256(log).hexdigest()}


@pytest.mark.parametrize(("every", "saved"), [(2, 2), (3, 3), (4, 0)])
def test_every_so_many_rounds(every, saved, training):
    training.config.checkpoint_every = every
    drive(Checkpoints(), training, rounds_of(training), three_states())
    assert training.saved_round == saved
    found = load_latest(training.folder.checkpoints, states.fresh(), unexpected)
    assert (0 if found is None else found[0].round_num) == saved
    assert training.folder.was_saved() == bool(saved)


def test_the_newest_state_when_a_run_ends(training):
    """The loop asks for it; what is saved already is not saved again."""
    training.config.checkpoint_every = 2
    callback, saved = Checkpoints(), []
    callback.set_training(training)
    callback.on_run_begin()
    callback.save()  # there is nothing yet
    for record, state in zip(rounds_of(training), three_states(), strict=True):
        callback.on_round_end(record["round"], record, state)
        saved.append(training.saved_round)
    assert saved == [0, 2, 2]
    for _ in range(2):
        callback.save()
        assert training.saved_round == 3
    callback.on_run_end()
    assert load(training.folder.checkpoints)[0]["round"] == 3


def test_as_many_as_are_to_be_kept(training):
    """The newest ones; a writer that is still busy leaves out one in between."""
    training.config.keep_checkpoints = 1
    drive(Checkpoints(), training, rounds_of(training), three_states())
    manifests = sorted(p.name for p in training.folder.checkpoints.glob("checkpoint-*.json"))
    assert len(manifests) == 1


def test_a_state_that_is_there_already_is_not_saved(training):
    """As after going on from round 3 without a further round."""
    training.saved_round = 3
    callback = Checkpoints()
    callback.set_training(training)
    callback.on_run_begin()
    last = three_states()[2]
    callback.on_round_end(3, a_record(3), State(3, last.server, last.clients))
    callback.on_run_end()
    assert not list(training.folder.path.glob("checkpoints/*"))


@pytest.mark.parametrize(
    ("on_disk", "unsaved_bytes", "saved"),
    [(True, 0, [1, 2, 3]), (True, 40, [1, 1, 3]), (True, 1000, [0, 0, 0]), (False, 0, [0, 0, 0])],
)
def test_client_state_on_the_disk_is_saved_before_it_is_too_much(
    training, monkeypatch, on_disk, unsaved_bytes, saved
):
    """Six rows of 36 bytes in the first round, then one more in each."""
    monkeypatch.setattr(checkpoints, "UNSAVED_BYTES", unsaved_bytes)
    training.config.checkpoint_every, training.on_disk = 100, on_disk
    callback, rounds = Checkpoints(), []
    callback.set_training(training)
    callback.on_run_begin()
    for record, state in zip(rounds_of(training), three_states(), strict=True):
        callback.on_round_end(record["round"], record, state)
        callback._writer.flush()
        rounds.append(training.saved_round)
        if rounds[-1] == record["round"]:
            assert state.clients.bytes_in_memory == 0
    callback.on_run_end()
    assert rounds == saved


def test_client_state_on_the_disk_waits_for_the_save_before(training):
    """So that no more is in memory than what is being saved and what is to be saved."""
    training.on_disk = True
    callback, calls = Checkpoints(), []
    callback.set_training(training)
    callback.on_run_begin()
    writer = callback._writer
    flush, save = writer.flush, writer.save
    writer.flush = lambda: (calls.append("wait"), flush())
    writer.save = lambda *args: (calls.append("save"), save(*args))
    for record, state in zip(rounds_of(training), three_states(), strict=True):
        callback.on_round_end(record["round"], record, state)
    assert calls == ["wait", "save"] * 3
    callback.on_run_end()
    manifests = sorted(p.name for p in training.folder.checkpoints.glob("checkpoint-*.json"))
    assert manifests == ["checkpoint-00000002.json", "checkpoint-00000003.json"]
