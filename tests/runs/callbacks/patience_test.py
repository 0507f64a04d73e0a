"""Stopping when held-out accuracy no longer improves."""

import pytest

import tf_fedsam
from tests.launch.running import toy_file
from tests.runs.callbacks.under_way import UnderWay, a_record, drive
from tf_fedsam.errors import InputError
from tf_fedsam.runs.callbacks.patience import Patience


def rounds(*accuracies, first=1):
    """Rounds with these held-out accuracies; ``None``: not tested."""
    return [
        a_record(number, **({} if a is None else {"validation_accuracy": a}))
        for number, a in enumerate(accuracies, first)
    ]


def test_so_many_tests_without_a_better_one(tmp_path):
    """The best is in round 2; rounds 3 (equal) and 5 are the two tests without a better one."""
    training = UnderWay(tmp_path)
    drive(Patience(2), training, rounds(0.3, 0.5, 0.5, None))
    assert training.stopped == ""
    drive(Patience(2), training, rounds(0.4, first=5))
    assert training.stopped == (
        "no better accuracy on held-out examples in 2 tests; the best was 50.00% in round 2"
    )


def test_a_better_one_starts_the_count_again(tmp_path):
    training = UnderWay(tmp_path)
    drive(Patience(2), training, rounds(0.5, 0.4, 0.6, 0.5))
    assert training.stopped == ""


def test_accuracies_that_are_no_numbers_are_no_better(tmp_path):
    training = UnderWay(tmp_path)
    drive(Patience(1), training, [a_record(1, validation_accuracy=None)])
    assert training.stopped.endswith("the best was none")


def test_a_run_that_goes_on_counts_what_was_before(tmp_path):
    training = UnderWay(tmp_path, rounds(0.5, 0.4, 0.3))
    drive(Patience(3), training, [])
    assert training.stopped == ""
    drive(Patience(3), training, rounds(0.2, first=4))
    assert training.stopped
    again = UnderWay(tmp_path, training.records)
    drive(Patience(3), again, [])
    assert again.stopped == training.stopped
    # With more patience it goes on.
    more = UnderWay(tmp_path, training.records)
    drive(Patience(4), more, [])
    assert more.stopped == ""


def config(folder, **values):
    given = {"dataset": "npz", "data_file": str(toy_file(folder)), "model": "linear"}
    given |= {"partition": "given", "participation": 1.0, "rounds": 9, "devices": "cpu:1"}
    given |= {"lr": 0.0, "holdout": 0.25, "patience": 2, "probes": "none"}
    return tf_fedsam.RunConfig(**given | values)


class Killed(tf_fedsam.Callback):
    def on_round_end(self, round, record, state):
        if round == 2:
            raise RuntimeError("killed")


def test_a_killed_run_stops_where_it_would_have(tmp_path):
    """A rate of 0 changes nothing: round 1 is the best, 2 and 3 are no better."""
    whole = tf_fedsam.run(config(tmp_path), tmp_path / "whole", verbose=False)
    assert whole.complete
    assert whole.summary["rounds"] == 3
    assert whole.summary["stopped"]["reason"].startswith("no better accuracy on held-out")
    assert whole.summary["stopped"]["wanted"] == {"rounds": 9, "stop_at": None, "patience": 2}
    assert whole.summary["chosen_round"] == 1
    with pytest.raises(RuntimeError, match="killed"):
        tf_fedsam.run(config(tmp_path), tmp_path / "cut", callbacks=[Killed()], verbose=False)
    cut = tf_fedsam.run(config(tmp_path), tmp_path / "cut", verbose=False)
    assert cut.summary["stopped"] == whole.summary["stopped"]
    assert len(cut.records) == 3
    # It is complete as it is, and goes on with more patience.
    assert len(tf_fedsam.run(config(tmp_path), tmp_path / "cut", verbose=False).records) == 3
    more = config(tmp_path, patience=3)
    assert len(tf_fedsam.run(more, tmp_path / "cut", verbose=False).records) == 4


def test_without_held_out_examples_there_is_nothing_to_wait_for(tmp_path):
    with pytest.raises(InputError, match=r"Received: patience=2 with holdout=0. Add holdout=0.1"):
        config(tmp_path, holdout=0.0).resolve()
