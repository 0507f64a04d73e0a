"""A run that was read is whole, or refused with a reason."""

import math

import pytest

from tests.comparison.runs import record, run, with_last
from tf_fedsam.comparison.compared_run import checked
from tf_fedsam.errors import InputError
from tf_fedsam.runs.config import SETTINGS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"test_accuracy": "0.5"}, "round 1 of its log has test_accuracy = '0.5'"),
        ({"test_accuracy": 1.5}, "no test accuracy in"),
        ({"test_accuracy": None}, "no tested round yet"),
        ({"bytes_up": None}, "has bytes_up = None"),
        ({"seconds": -1}, "has seconds = -1"),
        ({"seconds": math.inf}, "has seconds = inf"),
        ({"train_loss": [1]}, "has train_loss"),
        ({"failed_client_ids": 3}, "failed_client_ids"),
    ],
)
def test_changed_logs_are_refused(change, words):
    config = run().config
    with pytest.raises(InputError) as error:
        checked("x", config, [{**record(1, 0.5), **change}], True)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "change", [{"algo": None}, {"seed": "0"}, {"rounds": None}, {"hparams": 3}]
)
def test_changed_settings_are_refused(change):
    config = {"settings": {**run().settings, **change}, "inputs": {}}
    with pytest.raises(InputError, match=f"setting {next(iter(change))}"):
        checked("x", config, [record(1, 0.5)], True)


def test_settings_that_came_later_have_their_defaults():
    """A run of before is that of a run of now which leaves them alone."""
    later = {s.name: s.default for s in SETTINGS.values() if s.since and not s.goes_into}
    assert "stop_at" in later
    old = run()
    assert later.items() <= old.settings.items()
    assert run(stop_at=0.5).settings["stop_at"] == 0.5


def test_an_unfinished_run_ends_with_its_last_test():
    going = run(accuracies=(0.9, 0.95, None), rounds=9, complete=False)
    assert [r["round"] for r in going.records] == [1, 2]
    assert len(run(accuracies=(0.9, 0.95, None)).records) == 3


def test_the_newest_value_of_what_is_measured_now_and_then():
    one = with_last(sharpness=3.0, dispersion=None)
    assert one.last_probe["sharpness"] == 3.0
    assert "dispersion" not in one.last_probe
    assert one.results["test_accuracy"] == 0.2
