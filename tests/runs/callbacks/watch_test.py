"""What a user must know of a round. In real runs: tests/integration/divergence_test.py."""

from tests.runs.callbacks.under_way import UnderWay, drive
from tf_fedsam.runs.callbacks.watch import Chance, HopelessError, Watch


def record(round_num, *, failed=(), skipped=False, **numbers):
    ids = list(failed)
    return {"round": round_num, "failed_client_ids": ids, "skipped": skipped, **numbers}


def test_rounds_in_a_row_are_counted_and_a_divergence_is_told_once():
    watch = Watch()
    watch.see(record(1, skipped=True))
    assert watch.failed_rounds == 1
    assert watch.see(record(2, test_loss=1.0)) == []
    watch.see(record(3, skipped=True))
    assert watch.failed_rounds == 1
    watch.see(record(4, skipped=True))
    assert watch.failed_rounds == 2
    assert len(watch.see(record(5, test_loss=None))) == 1
    assert watch.see(record(6, test_loss=None)) == []
    assert watch.see(record(7, test_loss=0.5)) == []
    assert "last move" in watch.see(record(8, update_norm=None))[0]


def test_private_rounds_in_which_all_failed_count():
    """They are not skipped, since their noise is released."""
    watch = Watch()
    told = watch.see(record(1, failed=["ann"], num_reported=0))
    assert watch.failed_rounds == 1
    assert len(told) == 1
    watch.see(record(2, num_reported=0))  # nobody was drawn
    assert watch.failed_rounds == 0


def test_clients_that_failed_are_named():
    (told,) = Watch().see(record(1, failed=["ann"]))
    assert told == "Round 1: not finite, so left out: the update of client ann."
    (told,) = Watch().see(record(9, failed=range(12), test_loss=0.5))
    assert told.endswith("the updates of clients 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more.")


def test_both_numbers_that_are_not_finite():
    (told,) = Watch().see(record(2, test_loss=None, update_norm=None))
    assert "its test loss and last move is not finite. Lower lr" in told


def test_the_end_of_hope(tmp_path):
    """Three rounds in a row with nobody: an error that names the settings to change."""
    training = UnderWay(tmp_path, max_failed_rounds=3)
    drive(Watch(), training, [record(n, skipped=True) for n in (1, 2)])
    assert training.hopeless is None
    assert len(training.told) == 2
    drive(Watch(), training, [record(3, skipped=True)])  # goes on, and remembers
    assert isinstance(training.hopeless, HopelessError)
    flags = training.hopeless.with_flags()
    assert "last 3 rounds, so training stops after round 3" in flags
    for name in ("--lr", "--clip_norm", "--output_dir", "--max_failed_rounds"):
        assert name in flags


def test_a_run_that_had_no_hope_has_none_when_it_goes_on(tmp_path):
    before = [record(n, skipped=True) for n in (1, 2, 3)]
    training = UnderWay(tmp_path, before, max_failed_rounds=3)
    drive(Watch(), training, [])
    assert training.hopeless is not None
    assert training.told == []  # it was told then
    more = UnderWay(tmp_path, before, max_failed_rounds=4)
    drive(Watch(), more, [])
    assert more.hopeless is None


def test_a_model_that_is_worse_than_none_is_told_once(tmp_path):
    """Ten classes: ln 10 = 2.303, ten times that is 23.03."""
    training = UnderWay(tmp_path, max_failed_rounds=9)
    rounds = [record(1, test_loss=23.0), record(2, test_loss=23.1), record(3, test_loss=99.0)]
    drive(Watch(), training, rounds)
    (told,) = training.told
    assert told.startswith("Round 2: the test loss is 23.1, more than 10 times that of equal sh")
    assert told.endswith(
        "Lower lr, set clip_norm (10 is usual), or look for extreme values in the data."
    )
    again = UnderWay(tmp_path, rounds, max_failed_rounds=9)
    drive(Watch(), again, [record(4, train_loss=1e6)])
    assert again.told == []  # it was told then


def test_worse_than_guessing():
    """1000 examples of ten classes: 0.1 less 4 sqrt(0.1 * 0.9 / 1000) = 0.0621."""
    chance = Chance(num_classes=10, num_test=1000)
    assert chance.worse({"test_accuracy": 0.0622, "test_loss": 2.5}) == ""
    words = chance.worse({"test_accuracy": 0.062, "test_loss": 2.5})
    assert words == "the test accuracy is 6.20%, below that of guessing (10.00%)"
    assert chance.worse({"train_loss": 1e6}).startswith("the training loss is 1e+06, more than")
    assert chance.worse({"test_accuracy": None, "train_loss": None}) == ""
    few = Chance(num_classes=10, num_test=20)  # none right may be chance
    assert few.worse({"test_accuracy": 0.0}) == ""
