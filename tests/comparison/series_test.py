"""Series, groups and the baseline."""

import pytest

from tests.comparison.runs import group, run
from tf_fedsam.comparison.series import baselines
from tf_fedsam.errors import InputError


def test_only_the_same_split_is_a_pair():
    """Seed 1 was split by other code: 0.3 - 0.1 of seed 0 is all that can be compared."""
    found = group(
        run("fedavg", 0, (0.1,)), run("fedavg", 1, (0.1,)),
        run("fedsam", 0, (0.3,)), run("fedsam", 1, (0.9,), split="other"),
    )  # fmt: skip
    sam, avg = found.series
    difference = sam.difference(avg, "test_accuracy")
    assert (difference.mean, difference.n) == (pytest.approx(0.2), 1)


def test_the_best_series_is_first():
    found = group(run("fedavg", 0, (0.9, 0.1)), run("fedsam", 0, (0.1, 0.2)))
    assert [s.label for s in found.series] == ["FedSAM", "FedAvg"]
    assert found.tuned == []
    assert group(run(lr=0.1), run(lr=0.2)).tuned == ["fedavg"]


def test_baseline():
    found = group(
        run("fedavg", 0, (0.1,), lr=0.1),
        run("fedavg", 0, (0.2,), lr=0.2),
        run("fedsam", 0, (0.3,), lr=0.1),
    )
    label = lambda wanted: baselines([found], wanted, "fedavg")[0].label  # noqa: E731
    assert label(None) == "FedAvg lr=0.2"  # the better of two
    assert label("fedavg lr=0.1") == "FedAvg lr=0.1"
    assert label("FedSAM") == "FedSAM lr=0.1"
    with pytest.raises(InputError, match="Did you mean 'fedavg'"):
        label("fedagv")
    others = group(run("fedsam"), run("fedprox"))
    assert baselines([others], None, "fedavg")[0].label == "FedSAM"  # F before f
    going = group(run(accuracies=(0.1,), rounds=2, complete=False))
    assert baselines([going], None, "fedavg") == [None]


def test_cost_to_a_target():
    """Reached after rounds 2 and 3, each with 20 bytes."""
    runs = [run(seed=0, accuracies=(0.1, 0.6, 0.5)), run(seed=1, accuracies=(0.1, 0.2, 0.6))]
    (series,) = group(*runs).series
    found = series.reached(0.6)
    assert (found.num_reached, found.n, found.rounds) == (2, 2, 3)
    assert (found.costs["round"].mean, found.costs["bytes"].mean) == (2.5, 50)
    assert series.reached(0.7).num_reached == 0


def test_a_run_that_stopped_early_had_fewer_rounds():
    runs = [run(accuracies=(0.1, 0.2, 0.3)), run(seed=1, accuracies=(0.5,), rounds=3, stopped="x")]
    found = group(*runs)
    (series,) = found.complete
    assert (series.seeds, [r.seed for r in series.stopped]) == ([0, 1], [1])
    assert series.reached(0.9).rounds == 1


def test_common_target():
    """The worst complete run had 0.57 at its best."""
    going = run("fedprox", 0, (0.2,), rounds=2, complete=False)
    runs = [run("fedsam", 0, (0.9, 0.1)), run("fedavg", 0, (0.57, 0.1)), going]
    assert group(*runs).common_target == 0.55
    assert group(going).common_target is None
