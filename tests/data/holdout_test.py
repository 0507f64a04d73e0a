"""Examples that nobody trains on: evenly drawn, disjoint from the rest, the same for a seed."""

import numpy as np
import pytest

from tests.data.partition.cases import ALL, LABELS, C, N
from tf_fedsam.data import holdout
from tf_fedsam.data import partition as partitions
from tf_fedsam.errors import InputError

SHARE = 0.1


class TestPool:
    def test_a_tenth_of_every_class(self):
        """2003 / 10 is 200; a class of m examples gives m / 10 to within one."""
        held = holdout.of_pool(LABELS, SHARE, 0)
        assert len(held) == len(set(held.tolist())) == 200
        all_of, held_of = (np.bincount(y, minlength=C) for y in (LABELS, LABELS[held]))
        assert np.abs(held_of - SHARE * all_of).max() < 1
        assert (np.diff(held) > 0).all()

    def test_a_function_of_the_seed(self):
        first, again, other = (holdout.of_pool(LABELS, SHARE, seed) for seed in (0, 0, 1))
        np.testing.assert_array_equal(first, again)
        # Two draws of a tenth share a tenth of their examples: about 20 of 200.
        assert len(np.intersect1d(first, other)) < 60

    def test_not_in_the_order_of_the_data(self):
        held = holdout.of_pool(np.zeros(1000, int), SHARE, 0)
        assert len(set(np.diff(held).tolist())) > 5

    @pytest.mark.parametrize(("number", "share"), [(4, 0.1), (5, 0.99), (1, 0.5)])
    def test_both_sides_need_examples(self, number, share):
        with pytest.raises(InputError, match=f"both sides. Received: {share:g} of {number} train"):
            holdout.of_pool(np.zeros(number, int), share, 0)


class TestClients:
    @pytest.mark.parametrize("name", ALL)
    def test_nobody_trains_on_them(self, name):
        split = ALL[name](0)
        held = holdout.of_clients(split, LABELS, SHARE, 0)
        left = holdout.without(split, held)
        assert np.intersect1d(left.indices, split.indices[held]).size == 0
        together = np.concatenate([left.indices, split.indices[held]])
        np.testing.assert_array_equal(np.sort(together), np.sort(split.indices))
        assert left.num_clients == split.num_clients
        assert (left.sizes() > 0).all()
        assert left.num_examples == len(LABELS)
        np.testing.assert_array_equal(left.indices, split.indices[~held])

    def test_a_tenth_of_every_client_and_of_its_classes(self):
        """Balanced clients have 100 examples: 10 of each are held out, 9 to 11."""
        split = partitions.iid(LABELS, N, 0)
        held = holdout.of_clients(split, LABELS, SHARE, 0)
        assert held.sum() == 200
        left = holdout.without(split, held)
        assert np.abs(split.sizes() - left.sizes() - SHARE * split.sizes()).max() < 1
        lost = split.class_counts(LABELS, C) - left.class_counts(LABELS, C)
        assert np.abs(lost - SHARE * split.class_counts(LABELS, C)).max() < 1
        # Of all, too: sums of numbers that are right on average.
        assert np.abs(lost.sum(axis=0) - SHARE * np.bincount(LABELS)).max() < 10

    def test_an_example_of_several_clients_is_held_out_of_all(self):
        """Clients 0 and 1 have the same ten examples: one of ten, from both."""
        both = np.tile(np.arange(10), 2)
        split = partitions.Partition(both, np.array([0, 10, 20]), 10, "twice", True)
        held = holdout.of_clients(split, np.zeros(10, int), SHARE, 0)
        assert held.sum() == 2
        assert len(set(both[held].tolist())) == 1
        assert holdout.without(split, held).sizes().tolist() == [9, 9]

    def test_a_client_is_not_left_with_nothing(self):
        """Ten clients with one example each, and one with ten: only that one can give any."""
        sizes = [1] * 10 + [10]
        split = partitions.by_client_id(np.repeat(np.arange(11), sizes), 0)
        held = holdout.of_clients(split, np.zeros(20, int), 0.5, 0)
        assert holdout.without(split, held).sizes().tolist()[:10] == [1] * 10
        assert 4 <= held.sum() <= 6
        alone = partitions.by_client_id(np.arange(4), 0)
        with pytest.raises(InputError, match="leaves no example to hold out: the 4 clients"):
            holdout.of_clients(alone, np.zeros(4, int), 0.5, 0)

    def test_a_function_of_the_seed(self):
        split = ALL["iid, disjoint"](0)
        one, two, other = (holdout.of_clients(split, LABELS, SHARE, s) for s in (3, 3, 4))
        np.testing.assert_array_equal(one, two)
        assert (one != other).any()
