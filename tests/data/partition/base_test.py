"""The partition object: who holds what."""

import math

import numpy as np
import pytest

from tests.data.partition.cases import ALL, DISJOINT, LABELS, C, N
from tf_fedsam.data.partition import base


@pytest.mark.parametrize("name", ALL)
def test_a_seed_fixes_the_partition_and_another_changes_it(name):
    first, again, other = ALL[name](1), ALL[name](1), ALL[name](2)
    np.testing.assert_array_equal(first.indices, again.indices)
    np.testing.assert_array_equal(first.offsets, again.offsets)
    assert first.fingerprint() == again.fingerprint()
    assert first.fingerprint() != other.fingerprint()
    assert len(first.fingerprint()) == 16


@pytest.mark.parametrize("name", ALL)
def test_examples_of_a_client_are_in_random_order(name):
    partition = ALL[name](1)
    labels = LABELS[partition.indices]
    ascents = ascents_of_labels = pairs = label_pairs = 0
    for i in range(N):
        mine = partition.client(i)
        ascents += np.count_nonzero(np.diff(mine) > 0)
        pairs += np.count_nonzero(np.diff(mine))
        steps = np.diff(labels[partition.offsets[i] : partition.offsets[i + 1]])
        ascents_of_labels += np.count_nonzero(steps > 0)
        label_pairs += np.count_nonzero(steps)
    # In a random order half of the neighbours ascend. The number of ascents of m distinct numbers
    # has variance (m + 1) / 12; 6 sd < 6 sqrt(2003 / 12) = 78: error probability below 1e-8.
    # Dataset order or class after class: all of them ascend.
    assert abs(ascents - pairs / 2) < 78
    # Labels have ties, which are left out. Half of the rest ascend (read it backwards); an ascent
    # makes the next one less likely, so that the variance is below that of coins, m / 4. 6 sd.
    assert abs(ascents_of_labels - label_pairs / 2) <= 6 * math.sqrt(label_pairs / 4)


def test_class_counts_and_client_agree_with_a_loop():
    partition = DISJOINT["dirichlet"](1)
    counts = partition.class_counts(LABELS, C + 1)
    assert counts.shape == (N, C + 1)
    for i in range(N):
        expected = np.bincount(LABELS[partition.client(i)], minlength=C + 1)
        np.testing.assert_array_equal(counts[i], expected)
    for begin, end in ((0, 2), (1, 3), (N - 1, N + 5), (0, None)):
        some = partition.class_counts(LABELS, C + 1, begin, end)
        np.testing.assert_array_equal(some, counts[begin:end])
    for i in (-1, N):
        with pytest.raises(IndexError):
            partition.client(i)


def test_a_partition_cannot_be_changed():
    partition = DISJOINT["dirichlet"](1)
    for array in (partition.indices, partition.offsets, partition.priors):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_class_priors_of_a_scheme_without_priors_are_the_class_mix():
    partition = DISJOINT["shards"](1)
    mix = partition.class_priors(LABELS, C)
    np.testing.assert_allclose(mix, partition.class_counts(LABELS, C) / partition.sizes()[:, None])
    assert DISJOINT["dirichlet"](1).class_priors(LABELS, C + 2).shape == (N, C + 2)


@pytest.mark.parametrize("most", [5, 65_535, 65_536, 1_000_000, 2**32 - 1])
def test_stable_order(most):
    numbers = np.random.default_rng(0).integers(0, most, 3000, endpoint=True)
    numbers[::2] = numbers[0]
    numbers[-1] = most
    np.testing.assert_array_equal(base.stable_order(numbers), np.argsort(numbers, kind="stable"))
