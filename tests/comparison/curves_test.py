"""Curves over rounds and over costs."""

import math

import pytest

from tests.comparison.runs import run
from tf_fedsam.comparison.curves import curve


def test_curves_are_means_where_all_seeds_have_a_value():
    runs = [
        run(seed=0, accuracies=(0.1, None, 0.3, 0.5)),
        run(seed=1, accuracies=(0.3, 0.4, 0.7, None)),
    ]
    found = curve(runs, "test_accuracy")
    assert found.x.tolist() == [1, 3]
    assert found.mean == pytest.approx([0.2, 0.5])
    assert found.std == pytest.approx([math.sqrt(0.02), math.sqrt(0.08)])
    assert curve(runs[:1], "test_accuracy").std is None
    assert curve(runs, "sharpness") is None


def test_curves_over_costs():
    """20 bytes and half a second a round."""
    runs = [run(accuracies=(0.1, None, 0.3))]
    assert curve(runs, "test_accuracy", "bytes").x.tolist() == [20, 60]
    assert curve(runs, "test_accuracy", "seconds").x.tolist() == [0.5, 1.5]
    assert curve(runs, "test_accuracy", "vectors") is None


def test_curves_of_runs_that_stopped_early_end_with_the_first():
    runs = [run(accuracies=(0.1, 0.2, 0.3)), run(seed=1, accuracies=(0.5,), rounds=3, stopped="x")]
    found = curve(runs, "test_accuracy", "bytes")
    assert (found.x.tolist(), found.mean.tolist()) == ([20], [0.3])
