"""What each scheme hands to whom."""

from collections import Counter

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.data.partition.cases import DISJOINT, LABELS, RECYCLING, C, N, uniform_labels
from tf_fedsam.data import partition as partitions
from tf_fedsam.errors import InputError

BALANCED = ["iid", "dirichlet", "shards", "validation"]


@pytest.mark.parametrize("name", DISJOINT)
def test_disjoint_schemes_hand_out_every_example_once(name):
    partition = DISJOINT[name](1)
    np.testing.assert_array_equal(np.sort(partition.indices), np.arange(len(LABELS)))
    assert not partition.with_replacement
    assert partition.num_repeated() == 0
    assert partition.num_unused() == 0
    assert partition.num_clients == N
    assert partition.sizes().min() >= 1


@pytest.mark.parametrize("name", RECYCLING)
def test_recycling_schemes_say_so_and_count_it(name):
    partition = RECYCLING[name](1)
    assert partition.with_replacement
    assert "with replacement" in partition.scheme
    counts = Counter(partition.indices.tolist())
    assert partition.num_repeated() == sum(count - 1 for count in counts.values()) > 0
    assert partition.num_unused() == len(LABELS) - len(counts) > 0
    # 2003 = 20 * 100 + 3, the remainder to client 0.
    assert partition.sizes().tolist() == [103] + [100] * 19


@pytest.mark.parametrize("name", BALANCED)
def test_balanced_sizes_differ_by_at_most_one(name):
    sizes = DISJOINT[name](1).sizes()
    # Two shards per client can each be one longer.
    assert np.ptp(sizes) <= (2 if name == "shards" else 1)
    assert sizes.sum() == len(LABELS)


@pytest.mark.parametrize("replacement", [False, True])
def test_explicit_sizes_are_kept(replacement):
    sizes = [7, 1, 30]
    for partition in (
        partitions.dirichlet(LABELS, 3, 0.3, 1, replacement=replacement, sizes=sizes),
        partitions.pathological(LABELS, 3, 2, 1, replacement=replacement, sizes=sizes),
        partitions.iid(LABELS, 3, 1, sizes=sizes),
    ):
        assert partition.sizes().tolist() == sizes
        assert partition.num_unused() >= len(LABELS) - 38
        if not partition.with_replacement:
            assert partition.num_repeated() == 0


def test_dirichlet_has_the_same_priors_with_and_without_replacement():
    a, b = DISJOINT["dirichlet"](1), RECYCLING["dirichlet"](1)
    np.testing.assert_array_equal(a.priors, b.priors)
    np.testing.assert_allclose(a.priors.sum(axis=1), 1.0)


def test_pathological_clients_hold_their_classes_only():
    partition = partitions.pathological(LABELS, N, 3, 1, replacement=True)
    np.testing.assert_array_equal(np.count_nonzero(partition.priors, axis=1), 3)
    np.testing.assert_allclose(partition.priors.max(axis=1), 1 / 3)
    counts = partition.class_counts(LABELS, C)
    assert not counts[partition.priors == 0].any()
    # 100 draws of 3 classes miss one of them with probability 3 (2/3)^100 < 1e-17.
    np.testing.assert_array_equal(np.count_nonzero(counts, axis=1), 3)


def test_pathological_without_replacement_gives_fewer_examples_and_no_other_classes():
    """20 clients of 100 examples want 50 of each of two classes, which have about 200."""
    partition = partitions.pathological(LABELS, N, 2, 1, replacement=False)
    counts = partition.class_counts(LABELS, C)
    np.testing.assert_array_equal(counts > 0, partition.priors > 0)
    np.testing.assert_array_equal(np.count_nonzero(counts, axis=1), 2)
    assert partition.num_repeated() == 0
    capacity, claimants = np.bincount(LABELS), np.count_nonzero(partition.priors, axis=0)
    short = 50 * claimants > capacity  # is then shared out to the last example
    assert short.any()
    np.testing.assert_array_equal(counts.sum(axis=0)[short], capacity[short])
    assert partition.sizes().max() <= 101  # 2003 = 20 * 100 + 3
    assert partition.num_unused() == len(LABELS) - partition.sizes().sum() > 0
    same = partitions.pathological(LABELS, N, 2, 1, replacement=True)
    np.testing.assert_array_equal(same.priors, partition.priors)


def test_pathological_shares_a_class_that_is_short():
    """Four clients of one class with ten examples: two of them have three, two have two."""
    partition = partitions.pathological(np.zeros(10, int), 4, 1, 1)
    assert sorted(partition.sizes().tolist()) == [2, 2, 3, 3]
    # Two classes of 4 and 8 examples, three clients of 4: two of each class for everybody.
    labels = np.repeat([0, 1], [4, 8])
    partition = partitions.pathological(labels, 3, 2, 1)
    assert sorted(partition.class_counts(labels, 2)[:, 0].tolist()) == [1, 1, 2]
    assert partition.class_counts(labels, 2)[:, 1].tolist() == [2, 2, 2]


@pytest.mark.parametrize("replacement", [False, True])
def test_pathological_is_exact_for_small_clients(replacement):
    """Five draws of five classes would miss one in all but 5! / 5^5 = 4 % of the cases."""
    labels = uniform_labels(1000)
    partition = partitions.pathological(
        labels, 40, 5, 1, replacement=replacement, sizes=[5] * 39 + [2]
    )
    counts = partition.class_counts(labels, C)
    assert np.count_nonzero(counts, axis=1).tolist() == [5] * 39 + [2]
    assert not counts[partition.priors == 0].any()
    assert partition.sizes().tolist() == [5] * 39 + [2]


def test_pathological_says_that_a_class_is_too_small():
    labels = np.repeat([0, 1], [2, 30])
    with pytest.raises(
        InputError, match="Received 2 examples of class 0 for 3 clients that drew it"
    ):
        partitions.pathological(labels, 3, 2, 1)


def test_shards_hold_few_labels():
    labels = np.repeat(np.arange(10), 60)
    partition = partitions.shards(labels, 15, 2, 1)  # 30 shards of 20: three per class, none mixed
    counts = partition.class_counts(labels, 10)
    assert set(np.unique(counts)) <= {0, 20, 40}
    assert np.all(counts.sum(axis=1) == 40)


def test_by_client_id_groups_integers_strings_and_bytes():
    ids = np.array(["bob", "al", "bob", "al", "bob", "cy"])
    for given in (ids, ids.astype("S"), ids.astype(object), list(ids)):
        partition = partitions.by_client_id(given)
        assert partition.client_ids == ("al", "bob", "cy")
        assert [sorted(partition.client(i).tolist()) for i in range(3)] == [[1, 3], [0, 2, 4], [5]]
    partition = partitions.by_client_id([7, -2, 7])
    assert partition.client_ids == (-2, 7)
    assert partition.sizes().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(-128, 127, np.int8), (-3, 40, np.int64), (0, 10**12, np.int64), (2**63, 2**63 + 9, "u8")],
)
def test_ids_of_any_range_are_those_that_sorting_finds(low, high, dtype):
    ids = np.random.default_rng(0).integers(low, high, 500, dtype, endpoint=True)
    partition = partitions.by_client_id(ids)
    names, owner = np.unique(ids, return_inverse=True)
    assert partition.client_ids == tuple(names.tolist())
    for position in range(len(names)):
        assert sorted(partition.client(position)) == np.flatnonzero(owner == position).tolist()


def test_classes_without_examples_are_never_drawn():
    labels = np.array([1, 4] * 50)
    for partition in (
        partitions.dirichlet(labels, 5, 1.0, 1),
        partitions.dirichlet(labels, 5, 1.0, 1, replacement=True),
        partitions.dirichlet_classes(labels, 5, 1.0, 1),
        partitions.pathological(labels, 5, 2, 1, replacement=True),
    ):
        assert set(labels[partition.indices]) == {1, 4}
        if partition.priors is not None:
            assert not partition.priors[:, [0, 2, 3]].any()


def test_more_clients_than_examples_with_replacement():
    labels = np.arange(10) % 2
    partition = partitions.dirichlet(labels, 25, 0.5, 1, replacement=True)
    assert partition.sizes().tolist() == [1] * 25
    assert partition.num_repeated() >= 15


def test_validation_follows_the_training_priors():
    test_labels = np.arange(1000) % C
    train = partitions.pathological(LABELS, N, 5, 1, replacement=True)
    split = partitions.validation(test_labels, train.class_priors(LABELS, C), 1)
    assert split.num_clients == N
    assert split.sizes().tolist() == [50] * N
    assert split.num_repeated() == split.num_unused() == 0
    own = split.class_counts(test_labels, C)[train.priors > 0].sum()
    assert own > 600  # of 1000; if the priors were ignored 500 with sd below 16, 6 sd away


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    num_clients=st.integers(1, 12),
    alpha=st.sampled_from([1e-300, 1e-3, 0.1, 1.0, 1e300]),
    seed=st.integers(0, 5),
)
def test_any_small_data_set(labels, num_clients, alpha, seed):
    labels = np.array(labels)
    n, num_clients = len(labels), min(num_clients, len(labels))
    one = labels[0] + 1
    for partition in (
        partitions.iid(n, num_clients, seed),
        partitions.dirichlet(labels, num_clients, alpha, seed),
        partitions.dirichlet_classes(labels, num_clients, alpha, seed),
        partitions.shards(labels, num_clients, 1, seed),
        partitions.validation(labels, np.eye(num_clients, 6)[:, ::-1] * one, seed),
    ):
        np.testing.assert_array_equal(np.sort(partition.indices), np.arange(n))
        assert partition.sizes().min() >= 1
    for partition in (
        partitions.dirichlet(labels, num_clients, alpha, seed, replacement=True),
        partitions.pathological(labels, num_clients, 1, seed, replacement=True),
    ):
        expected = np.full(num_clients, n // num_clients)
        expected[0] += n % num_clients
        np.testing.assert_array_equal(partition.sizes(), expected)
        # A pool is emptied before it is refilled: uses within a class differ by at most one.
        uses = np.bincount(partition.indices, minlength=n)
        for label in np.unique(labels):
            assert np.ptp(uses[labels == label]) <= 1


@pytest.mark.parametrize("replacement", [False, True])
def test_large_alpha_is_near_uniform(replacement):
    labels = uniform_labels(10_000)
    partition = partitions.dirichlet(labels, 10, 1e6, 1, replacement=replacement)
    share = partition.class_counts(labels, C) / 1000
    # p = 0.1 to within 1e-3 * 0.1. A share of 1000 draws has sd sqrt(0.1 * 0.9 / 1000) = 0.0095;
    # 5.5 sd in any of 100 cells: below 4e-6.
    assert np.abs(share - 0.1).max() < 5.5 * 0.0095


@pytest.mark.parametrize("replacement", [False, True])
def test_small_alpha_is_one_class_per_client(replacement):
    labels, alpha = uniform_labels(10_000), 1e-3
    # 100 x 10 examples: no class of 1000 can run out, so that nothing but p_i matters.
    partition = partitions.dirichlet(
        labels, 100, alpha, 1, replacement=replacement, sizes=[10] * 100
    )
    top = partition.class_counts(labels, C).max(axis=1) / 10
    # E[1 - top] <= 1 - E[sum p^2] = 1 - (1 + alpha) / (1 + C alpha) = 0.0089, values in [0, 1].
    # Bernstein for the mean of 100 to exceed 0.1: exp(-100 * 0.091^2 / (2 * (0.0089 + 0.091 / 3)))
    # = 3e-5.
    assert 1 - top.mean() < 0.1
    # Each class is the top one of 10 clients on average; all in one class would be a fault:
    # 10 * 0.1^100.
    assert len(np.unique(partition.class_counts(labels, C).argmax(axis=1))) > 1
