"""What data sets share: what they refuse, and subsets."""

import numpy as np
import pytest

from tasks import registry
from tasks.base import Request, refuse, subset_positions
from tf_fedsam.errors import InputError


def test_refuse(tmp_path):
    refuse(Request(), "mnist", "data_file", "subset")
    refuse(Request(data_file=tmp_path), "mnist", "subset")
    with pytest.raises(InputError) as caught:
        refuse(Request(subset=3), "mnist", "data_file", "subset")
    told = "--subset has no meaning for --dataset=mnist. Received: 3. Remove it."
    assert caught.value.with_flags() == told


def test_parts_of_a_request_without_a_meaning_are_refused(tmp_path):
    for name, option in (
        ("mnist", {"data_file": tmp_path}),
        ("image_folder", {"data_file": tmp_path}),
        ("glyphs", {"data_dir": tmp_path}),
        ("npz", {"image_size": 32}),
    ):
        with pytest.raises(InputError, match="has no meaning"):
            registry.find(name).load(Request(**option))


def test_a_subset_has_the_data_sets_proportion_and_depends_on_the_seed_alone():
    # 10 % of EMNIST ByClass, as in the FedSAM paper: 697,932 and 116,323 examples.
    train, test = subset_positions(697_932, 116_323, Request(subset=81_425, seed=1))
    assert (len(train), len(test)) == (69_793, 11_632)
    for positions, n in ((train, 697_932), (test, 116_323)):
        assert np.all(np.diff(positions) > 0)
        assert positions.min() >= 0
        assert positions.max() < n
        # Uniform: the mean position has a standard error of n / sqrt(12 count); 5 of them.
        assert abs(positions.mean() - n / 2) < 5 * n / np.sqrt(12 * len(positions))
    again = subset_positions(697_932, 116_323, Request(subset=81_425, seed=1))
    np.testing.assert_array_equal(train, again[0])
    other = subset_positions(697_932, 116_323, Request(subset=81_425, seed=2))
    assert not np.array_equal(train, other[0])


@pytest.mark.parametrize("subset", [0, 1, 13, -5])
def test_an_impossible_subset_is_refused(subset):
    with pytest.raises(InputError, match="2 to 12"):
        subset_positions(8, 4, Request(subset=subset))


def test_the_smallest_and_the_largest_subset():
    train, test = subset_positions(1000, 2, Request(subset=2))
    assert (len(train), len(test)) == (1, 1)
    assert subset_positions(8, 4, Request(subset=12)) == (None, None)
    assert subset_positions(8, 4, Request()) == (None, None)
