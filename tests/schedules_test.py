"""Factors of rounds: numbers by hand, and the reference's own formulas."""

import math

import pytest

from tests.reference.methods import factor
from tf_fedsam.errors import InputError
from tf_fedsam.schedules import KINDS, Schedule


def factors(count, kind, **options):
    schedule = Schedule("lr", kind, **options)
    return [schedule.factor(t) for t in range(count)]


def test_constant():
    assert factors(3, "constant") == [1, 1, 1]
    assert Schedule("lr", "constant").is_constant
    assert not Schedule("lr", "constant", warmup_rounds=1).is_constant


def test_exponential_has_the_bits_of_a_power():
    assert factors(4, "exponential", decay=0.998) == [0.998**t for t in range(4)]


def test_step():
    # By 1/2 after every 2 rounds.
    assert factors(6, "step", step_rounds=2, step_factor=0.5) == [1, 1, 0.5, 0.5, 0.25, 0.25]


def test_linear_leaves_its_end_to_the_round_after_the_last():
    # From 1 to 0.2 in 4 rounds: 0.2 less a round.
    assert factors(6, "linear", final_factor=0.2, rounds=4) == pytest.approx(
        [1, 0.8, 0.6, 0.4, 0.2, 0.2]
    )


def test_linear_may_rise():
    assert factors(3, "linear", final_factor=3.0, rounds=2) == [1, 2, 3]


def test_cosine():
    # (1 + cos(pi t / 4)) / 2 for t = 0 ... 4, and then its end.
    half = math.sqrt(0.5)
    expected = [1, (1 + half) / 2, 0.5, (1 - half) / 2, 0, 0]
    assert factors(6, "cosine", rounds=4) == pytest.approx(expected, abs=1e-15)


def test_warmup_comes_first_and_the_schedule_counts_from_its_end():
    # 1/4, 2/4, 3/4, then 1; the step after 2 rounds of its own.
    expected = [0.25, 0.5, 0.75, 1, 1, 0.1]
    assert factors(6, "step", warmup_rounds=3, step_rounds=2) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("warmup", [0, 1, 4])
def test_equals_the_reference(kind, warmup):
    received = factors(
        12,
        kind,
        warmup_rounds=warmup,
        decay=0.9,
        step_rounds=3,
        step_factor=0.3,
        final_factor=0.05,
        rounds=9,
    )
    options = {"decay": 0.9, "every": 3, "by": 0.3, "final": 0.05, "rounds": 9}
    expected = [factor(t, kind, warmup, **options) for t in range(12)]
    assert received == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "cosin"}, "lr_schedule must be exponential, cosine, .* 'cosin'"),
        ({"kind": "cosine"}, "lr_schedule=cosine ends after .* Give the number of rounds"),
        ({"kind": "linear", "rounds": 0}, "schedule_rounds must be at least 1"),
        ({"kind": "constant", "warmup_rounds": -1}, "lr_warmup_rounds must be at least 0"),
        (
            {"kind": "linear", "rounds": 3, "warmup_rounds": 3},
            "lr_warmup_rounds must be fewer than the 3 rounds",
        ),
        ({"kind": "exponential", "decay": 1.1}, r"lr_decay must be in \(0, 1\]"),
        ({"kind": "step", "step_rounds": 0}, "lr_step_rounds must be at least 1"),
        ({"kind": "step", "step_factor": 0}, "lr_step_factor must be > 0"),
        ({"kind": "linear", "final_factor": -1, "rounds": 3}, "lr_final_factor must be at least"),
    ],
)
def test_wrong_values_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Schedule("lr", **options)
