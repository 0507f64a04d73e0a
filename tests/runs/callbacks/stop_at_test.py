"""Stopping at a test accuracy."""

import pytest

import tf_fedsam
from tests.launch.running import records, toy_args
from tests.launch.running import run as run_command
from tests.runs.callbacks.under_way import UnderWay, a_record, drive
from tf_fedsam.runs.callbacks.stop_at import StopAt


def test_stop_at(capsys, tmp_path):
    """The accuracy of the first round is enough."""
    args = [*toy_args(tmp_path), "--rounds=6", "--stop_at=0.01"]
    result = run_command(capsys, *args)
    assert result.code == 0, result.err
    assert "stopped early" in result.out
    assert len(records(tmp_path / "run")) == 1
    assert run_command(capsys, *args).code == 0
    assert len(records(tmp_path / "run")) == 1
    assert run_command(capsys, *args[:-1]).code == 0  # without it the run goes on
    assert len(records(tmp_path / "run")) == 6
    assert run_command(capsys, *args[:-1], f"--output_dir={tmp_path / 'whole'}").code == 0
    here, there = (tf_fedsam.Run(tmp_path / name) for name in ("run", "whole"))
    assert all((a == b).all() for a, b in zip(here.weights(), there.weights(), strict=True))


def test_the_first_tested_round_that_reaches_it(tmp_path):
    """Rounds that are not tested, or whose model has no accuracy, do not count."""
    training = UnderWay(tmp_path)
    rounds = [a_record(1), a_record(2, test_accuracy=0.4999), a_record(3, test_accuracy=None)]
    drive(StopAt(0.5), training, rounds)
    assert training.stopped == ""
    drive(StopAt(0.5), training, [a_record(4, test_accuracy=0.5), a_record(5, test_accuracy=0.9)])
    assert training.stopped == "test accuracy 50.00% in round 4, at least 50.00% was asked for"


@pytest.mark.parametrize(("last", "stops"), [(0.6, True), (0.4, False)])
def test_a_run_that_goes_on_has_reached_it_before(last, stops, tmp_path):
    """Only where it stands counts: an earlier round that was better was not the last."""
    before = [a_record(1, test_accuracy=0.9), a_record(2, test_accuracy=last)]
    training = UnderWay(tmp_path, before)
    drive(StopAt(0.5), training, [])
    assert bool(training.stopped) == stops
