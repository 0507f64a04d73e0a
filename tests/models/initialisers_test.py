"""How weights start: bounds and variances of many draws.

Of n uniform numbers the largest is below (1 - e) times the bound with probability (1 - e)^n:
exp(-100) for e = 0.01 and n = 10,000.
"""

import keras
import numpy as np
import pytest

from tests.models import tiny
from tf_fedsam.models import initialisers

DENSE, CONV = (100, 400), (3, 3, 20, 60)  # fans in and out: 100 and 400, 180 and 540


def draw(initialiser, shape):
    keras.utils.set_random_seed(0)
    return np.asarray(initialiser(shape))


@pytest.mark.parametrize(
    ("init", "shape", "bound"),
    [
        ("torch", DENSE, 1 / np.sqrt(100)),
        ("torch", CONV, 1 / np.sqrt(180)),
        ("keras", DENSE, np.sqrt(6 / (100 + 400))),
        ("keras", CONV, np.sqrt(6 / (180 + 540))),
    ],
)
def test_kernels(init, shape, bound):
    values = draw(initialisers.kernel(init), shape)
    assert tiny.within_bound(values, bound)
    assert np.abs(values).max() > 0.99 * bound
    # The standard deviation of U(-b, b) is b / sqrt(3).
    assert values.std() == pytest.approx(bound / np.sqrt(3), rel=0.02)
    assert abs(values.mean()) < 0.02 * bound


def test_biases():
    values = draw(initialisers.bias("torch", fan_in=25), (10_000,))
    assert tiny.within_bound(values, 1 / 5)
    assert np.abs(values).max() > 0.99 / 5
    assert not draw(initialisers.bias("keras", fan_in=25), (10_000,)).any()


def test_kaiming_normal():
    """Variance 2 / fan_out; a truncated law would end at two standard deviations."""
    values = draw(initialisers.kaiming_normal(), CONV)
    deviation = np.sqrt(2 / 540)
    assert values.std() == pytest.approx(deviation, rel=0.02)
    # P(|x| > 2 s) of a normal law is 4.55 %.
    assert np.mean(np.abs(values) > 2 * deviation) == pytest.approx(0.0455, rel=0.1)


def test_each_layer_draws_its_own():
    keras.utils.set_random_seed(0)
    first, second = (np.asarray(initialisers.kernel("torch")(DENSE)) for _ in range(2))
    assert not np.array_equal(first, second)
    keras.utils.set_random_seed(0)
    np.testing.assert_array_equal(initialisers.kernel("torch")(DENSE), first)
