"""Means, spreads and differences with Student's interval."""

import math

import pytest

from tf_fedsam.comparison.statistics import Spread, difference, spread, t_quantile


@pytest.mark.parametrize(
    ("degrees", "value"),
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (9, 2.262),
        (10, 2.228),
        (30, 2.042),
        (120, 1.980),
    ],
)
def test_t_quantile_of_the_textbook(degrees, value):
    assert t_quantile(0.975, degrees) == pytest.approx(value, abs=5e-4)


def test_t_quantile_elsewhere():
    assert t_quantile(0.95, 10) == pytest.approx(1.812, abs=5e-4)
    assert t_quantile(0.995, 1) == pytest.approx(math.tan(math.pi * 0.495))  # Cauchy
    assert t_quantile(0.5, 3) == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match="at least 1 degree"):
        t_quantile(0.975, 0)


def test_spread():
    """Of 1, 2, 4: mean 7/3, variance (16 + 1 + 25) / 9 / 2 = 7/3."""
    found = spread([1, 2, 4])
    assert (found.mean, found.std, found.n) == pytest.approx((7 / 3, math.sqrt(7 / 3), 3))
    assert spread([0.5]).std is None
    assert spread([]) is None
    assert spread([0.5, None]) is None


def test_units():
    assert Spread(3e6, 5e5, 2).in_units_of(1e6) == Spread(3.0, 0.5, 2)
    assert Spread(3e6, None, 1).in_units_of(1e6) == Spread(3.0, None, 1)


def test_difference_is_taken_pair_by_pair():
    """0.1, 0.05, 0.15 over the common keys: std 0.05, so half is 4.3027 * 0.05 / sqrt(3)."""
    found = difference({0: 0.5, 1: 0.6, 2: 0.7, 8: 0.0}, {2: 0.55, 1: 0.55, 0: 0.4, 9: 1.0})
    assert found.mean == pytest.approx(0.1)
    assert found.half == pytest.approx(4.302653 * 0.05 / math.sqrt(3), rel=1e-6)
    assert found.n == 3
    assert not found.is_evidence  # 0.124 > 0.1
    assert difference({0: 0.5, 1: 0.6}, {0: 0.4, 1: 0.4999}).is_evidence


def test_a_single_pair_has_no_interval():
    found = difference({0: 0.5, 1: 0.9}, {0: 0.4})
    assert (found.mean, found.half, found.n) == (pytest.approx(0.1), None, 1)
    assert not found.is_evidence
    assert difference({0: 0.5}, {1: 0.4}) is None
    assert difference({0: None}, {0: 0.4}) is None
