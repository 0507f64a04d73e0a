"""Client-wise and class-wise image noise."""

import math

import numpy as np
import pytest

from tf_fedsam.data import noise, partition
from tf_fedsam.data.federated_dataset import Examples
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


def pictures(count, dtype=np.uint8, channels=3, seed=0):
    generator = np.random.default_rng(seed)
    if dtype == np.uint8:
        x = generator.integers(0, 256, (count, 4, 5, channels), np.uint8)
    else:
        x = generator.random((count, 4, 5, channels)).astype(dtype)
    return Examples(x, generator.integers(0, 3, count))


def expected_on(client, example, gains, offsets, examples):
    """The definition, for one image of one client, in the units of the images."""
    scale = 255 if examples.x.dtype == np.uint8 else 1
    image = (examples.x[example] / np.float32(scale)).astype(np.float32)
    return scale * noise.apply(image, gains[client], offsets[examples.y[example]])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize(("client", "category"), [(0.3, 0.2), (0.3, 0.0), (0.0, 0.2)])
def test_every_entry_has_the_noise_of_its_client_and_class(dtype, client, category):
    examples = pictures(60, dtype)
    before = examples.x.copy()
    split = partition.dirichlet(examples.y, 5, 0.3, seed=1, replacement=True)
    assert split.num_repeated() > 0
    result, after = noise.noisy(examples, split, 3, client, category, seed=7)
    gains = noise.client_gains(7, 5, 3, client)
    offsets = noise.category_offsets(7, 3, category)
    np.testing.assert_array_equal(after.sizes(), split.sizes())
    assert result.x.dtype == dtype
    assert len(result) == after.num_examples
    # uint8 is rounded to the nearest level, floats are kept.
    tolerance = 0.5 if dtype == np.uint8 else 1e-6
    for i in range(5):
        for was, now in zip(split.client(i), after.client(i), strict=True):
            assert result.y[now] == examples.y[was]
            wanted = expected_on(i, was, gains, offsets, examples)
            np.testing.assert_allclose(
                result.x[now].astype(float), wanted, atol=tolerance * 1.001, rtol=0
            )
    np.testing.assert_array_equal(examples.x, before)


def test_an_image_on_two_clients_differs_between_them():
    examples = Examples(np.full((2, 4, 4, 3), 100, np.uint8), np.array([0, 1]))
    split = partition.Partition(
        np.array([0, 1, 0, 0]), np.array([0, 2, 4]), 2, "by hand", with_replacement=True
    )
    result, after = noise.noisy(examples, split, 2, 0.5, 0.0, seed=0)
    first, second = (result.x[after.client(i)].astype(int) for i in range(2))
    np.testing.assert_array_equal(first[0], first[1])  # one client, one gain
    np.testing.assert_array_equal(second[0], second[1])
    assert np.abs(first - second).max() > 5
    # The copies stand behind the examples; what is first keeps its place.
    np.testing.assert_array_equal(after.indices, [0, 1, 2, 3])
    assert after.num_repeated() == 0


def test_a_disjoint_split_stays_as_it_is():
    examples = pictures(30)
    split = partition.iid(30, 4, seed=0)
    result, after = noise.noisy(examples, split, 3, 0.1, 0.1, seed=0)
    assert after is split
    assert len(result) == 30
    assert not np.array_equal(result.x, examples.x)


def test_no_noise_is_nothing_done():
    examples, split = pictures(30), partition.iid(30, 4, seed=0)
    assert noise.noisy(examples, split, 3, 0.0, 0.0, seed=0) == (examples, split)


def test_the_seed_fixes_the_noise():
    examples, split = pictures(30), partition.iid(30, 4, seed=0)
    make = lambda seed: noise.noisy(examples, split, 3, 0.1, 0.1, seed)[0].x  # noqa: E731
    np.testing.assert_array_equal(make(1), make(1))
    assert not np.array_equal(make(1), make(2))


@pytest.mark.parametrize(
    ("x", "part"),
    [
        (np.zeros((4, 10), np.float32), "shape"),
        (np.zeros((4, 3, 3, 1), np.int32), "int32"),
        (np.full((4, 3, 3, 1), 2.0), "from 2 to 2"),
        (np.full((4, 3, 3, 1), -1.0), "from -1 to -1"),
    ],
)
def test_noise_is_for_images(x, part):
    examples, split = Examples(x, np.arange(4)), partition.iid(4, 2, seed=0)
    with pytest.raises(InputError, match=EXPLAINED) as caught:
        noise.noisy(examples, split, 4, 0.1, 0.0, seed=0)
    assert part in str(caught.value)
