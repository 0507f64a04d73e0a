"""What it took to reach an accuracy, and how that is told."""

import math

import pytest

from tf_fedsam.comparison.targets import check_targets, common_target, reached, reached_words
from tf_fedsam.errors import InputError


def cost(rounds):
    """To a target in this round; a round costs 10 bytes each way, 3 gradients, half a second."""
    return {
        "round": rounds,
        "bytes_down": 10 * rounds,
        "bytes_up": 10 * rounds,
        "vectors_down": 0,
        "vectors_up": 0,
        "gradient_evaluations": 3 * rounds,
        "seconds": 0.5 * rounds,
    }


def test_costs():
    """Reached after rounds 2 and 3: 40 and 60 bytes, 6 and 9 gradients."""
    found = reached([cost(2), cost(3)], rounds=3)
    assert (found.num_reached, found.n) == (2, 2)
    assert {name: spread.mean for name, spread in found.costs.items()} == {
        "round": 2.5,
        "bytes": 50,
        "bytes_down": 25,
        "bytes_up": 25,
        "gradient_evaluations": 7.5,
        "seconds": 1.25,
    }  # no vectors: the log has none
    assert found.costs["round"].std == pytest.approx(math.sqrt(0.5))


def test_a_target_that_some_seeds_miss_has_no_mean():
    found = reached([cost(1), None], rounds=4)
    assert (found.num_reached, found.n, found.rounds, found.costs) == (1, 2, 4, {})


def test_words():
    """Of rounds 12 and 14: mean 13, std sqrt(2); of one run no deviation is known."""
    assert reached_words(reached([cost(12), cost(14)], 20)) == "13.0 ± 1.4"
    assert reached_words(reached([cost(12)], 20)) == "12"
    assert reached_words(reached([cost(12), cost(12)], 20)) == "12 ± 0"
    assert reached_words(reached([cost(12)], 20), "bytes", unit=1e6) == "2.40e-04"
    assert reached_words(reached([cost(12), None, None], 20)) == "by 1 of 3"
    assert reached_words(reached([None, None], 20)) == ">20"
    assert reached_words(reached([None, None], 20), "bytes") == "-"
    assert reached_words(reached([cost(3)], 20), "vectors") == "not logged"
    assert reached_words(reached([{"round": 3}], 20), "seconds") == "not logged"
    assert reached_words(reached([], 0)) == "-"


def test_common_target():
    """The worst run had 0.57 at its best."""
    assert common_target([0.9, 0.57]) == 0.55
    assert common_target([0.15]) == 0.15
    assert common_target([0.04]) is None
    assert common_target([]) is None


def test_targets_are_accuracies():
    assert check_targets([0.8, 0.5, 0.8]) == (0.5, 0.8)
    for wrong in ([70], [0], [-0.1], ["0.7"], [math.nan]):
        with pytest.raises(InputError, match=r"targets must be test accuracies in \(0, 1\]"):
            check_targets(wrong)
