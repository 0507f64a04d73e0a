"""Client-wise and class-wise image noise."""

import math

import numpy as np
import pytest

from tf_fedsam.data import noise
from tf_fedsam.errors import InputError

EXPLAINED = r"^Received .*Expected .*\. [A-Z].*\.$"


def test_definition_worked_by_hand():
    x = np.array([[[0.2, 0.5, 0.9]]], np.float32)
    gains = np.array([0.5, -0.2, 0.3], np.float32)
    # (1 + a) x = 0.3, 0.4, 1.17 -> 1; then + b.
    np.testing.assert_allclose(noise.apply(x, gains, 0.1)[0, 0], [0.4, 0.5, 1.0], rtol=1e-6)
    # Clipped before the offset: 1 - 0.35, not 1.17 - 0.35; and 0.3 - 0.35 -> 0.
    np.testing.assert_allclose(noise.apply(x, gains, -0.35)[0, 0], [0, 0.05, 0.65], atol=1e-6)


def test_batches_agree_with_single_images():
    generator = np.random.default_rng(0)
    x = generator.random((6, 4, 4, 3), np.float32)
    before = x.copy()
    gains = noise.client_gains(1, 6, 3, 0.3)
    offsets = noise.category_offsets(1, 6, 0.3)
    batch = noise.apply(x, gains, offsets)
    assert batch.dtype == np.float32
    for i in range(6):
        np.testing.assert_array_equal(batch[i], noise.apply(x[i], gains[i], offsets[i]))
    np.testing.assert_array_equal(noise.apply(x, gains[2], 0.0)[4], noise.apply(x[4], gains[2], 0))
    np.testing.assert_array_equal(x, before)
    assert batch.min() >= 0
    assert batch.max() <= 1


def test_sigma_zero_changes_nothing():
    x = np.random.default_rng(0).random((5, 4, 4, 1), np.float32)
    gains, offsets = noise.client_gains(1, 5, 1, 0.0), noise.category_offsets(1, 10, 0.0)
    assert not gains.any()
    assert not offsets.any()
    np.testing.assert_array_equal(noise.apply(x, gains, offsets[:5]), x)


def test_both_kinds_are_normal_fixed_by_the_seed_and_independent():
    gains = noise.client_gains(1, 3000, 3, 0.1)
    offsets = noise.category_offsets(1, 9000, 0.1)
    assert gains.shape == (3000, 3)
    for values in (gains.ravel(), offsets):
        # 9000 numbers: standard error of the mean 0.1 / 95, of the sd 0.1 / 134; 5 of them.
        assert abs(values.mean()) < 5 * 0.1 / 94.8
        assert abs(values.std() - 0.1) < 5 * 0.1 / 134
    # Correlation of 9000 pairs: standard error 1 / 95.
    assert abs(np.corrcoef(gains.ravel(), offsets)[0, 1]) < 5 / 94.8
    np.testing.assert_array_equal(gains, noise.client_gains(1, 3000, 3, 0.1))
    assert not np.array_equal(gains, noise.client_gains(2, 3000, 3, 0.1))
    # More clients or classes leave the first ones as they are.
    np.testing.assert_array_equal(gains[:10], noise.client_gains(1, 10, 3, 0.1))
    np.testing.assert_array_equal(offsets[:10], noise.category_offsets(1, 10, 0.1))


@pytest.mark.parametrize("sigma", [-0.1, math.nan, math.inf])
def test_bad_sigma_is_explained(sigma):
    for make in (
        lambda: noise.client_gains(1, 2, 3, sigma),
        lambda: noise.category_offsets(1, 2, sigma),
    ):
        with pytest.raises(InputError, match=EXPLAINED):
            make()


@pytest.mark.parametrize(
    ("shape", "gains", "offsets"),
    [
        ((4, 4), (4,), ()),
        ((4, 4, 3), (1,), ()),
        ((4, 4, 3), (3,), (4,)),
        ((2, 4, 4, 3), (5, 3), ()),
        ((2, 4, 4, 3), (2, 3), (3,)),
        ((1, 2, 4, 4, 3), (3,), ()),
    ],
)
def test_bad_shapes_are_explained(shape, gains, offsets):
    with pytest.raises(InputError, match=EXPLAINED):
        noise.apply(np.zeros(shape), np.zeros(gains), np.zeros(offsets))


def test_bytes_are_refused():
    with pytest.raises(InputError, match="Divide by 255"):
        noise.apply(np.zeros((4, 4, 3), np.uint8), np.zeros(3), 0.0)
