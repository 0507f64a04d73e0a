"""Numbers in words."""

import numpy as np
import pytest

from tf_fedsam.comparison import words
from tf_fedsam.comparison.statistics import Spread


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.12345, "0.1235"), (1234.5, "1,234"), (1e-5, "1.00e-05"), (-2.5e6, "-2.50e+06")],
)
def test_short(value, text):
    assert words.short(value) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Spread(3.14159, None, 1), "3.142"),
        (Spread(3.14159, 0.0213, 2), "3.142 ± 0.021"),  # two digits of the deviation
        (Spread(1234.5, 56.7, 2), "1,234 ± 57"),
        (Spread(2e-5, 1e-6, 2), "2.00e-05 ± 1e-06"),
        (Spread(3.0, 0.0, 2), "3 ± 0"),
    ],
)
def test_plus_minus(found, text):
    assert words.plus_minus(found) == text


def test_plus_minus_in_a_form():
    assert words.plus_minus(Spread(0.5, 0.01234, 3), words.percent) == "50.00 ± 1.23"
    assert words.plus_minus(Spread(0.5, None, 1), words.percent) == "50.00"


def test_lists_and_counts():
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert words.counted(1, "run") == "1 run"
    assert words.counted(2000, "class", "classes") == "2,000 classes"
    assert words.between(np.asarray([3.0, 1.0])) == "1 to 3"
    assert words.between(np.asarray([3.0, 3.0])) == "3"
