"""Validation shards of the training clients and of fresh ones."""

import functools

import numpy as np
import pytest

from tf_fedsam.data import partition, validation

LABELS = np.repeat(np.arange(10), 600)
TEST_LABELS = np.repeat(np.arange(10), 100)


def mixes(split, labels):
    counts = split.class_counts(labels, 10)
    return counts / counts.sum(axis=1, keepdims=True)


def correlation(a, b):
    return np.corrcoef(a.ravel(), b.ravel())[0, 1]


@pytest.mark.parametrize(
    "train",
    [
        partition.dirichlet(LABELS, 20, 0.1, seed=3),
        partition.dirichlet(LABELS, 20, 0.1, seed=3, replacement=True),
        partition.pathological(LABELS, 20, 2, seed=3, replacement=True),
        partition.shards(LABELS, 20, 2, seed=3),
        partition.dirichlet_classes(LABELS, 20, 0.1, seed=3),
    ],
    ids=lambda split: split.scheme,
)
def test_a_shard_resembles_its_client(train):
    shards = validation.same(train, LABELS, TEST_LABELS, 10, seed=3)
    assert shards.num_clients == 20
    np.testing.assert_array_equal(np.sort(shards.indices), np.arange(1000))  # disjoint, complete
    assert set(shards.sizes()) == {50}
    # Classes run out, so that the mixes are alike but not the same: 200 pairs of numbers.
    assert correlation(mixes(train, LABELS), mixes(shards, TEST_LABELS)) > 0.6
    # And not those of another client.
    shifted = np.roll(mixes(shards, TEST_LABELS), 1, axis=0)
    assert correlation(mixes(train, LABELS), shifted) < 0.3
    again = validation.same(train, LABELS, TEST_LABELS, 10, seed=3)
    assert again.fingerprint() == shards.fingerprint()


def test_fresh_clients_have_new_priors_of_the_same_kind():
    split = lambda labels, n, seed: partition.dirichlet(labels, n, 0.1, seed)  # noqa: E731
    train = split(LABELS, 20, 3)
    fresh = validation.fresh(split, TEST_LABELS, 20, seed=3)
    np.testing.assert_array_equal(np.sort(fresh.indices), np.arange(1000))
    # 200 pairs: standard error 0.07; 5 of them. The same seed would give the same priors.
    assert abs(correlation(train.priors, fresh.priors)) < 5 * 0.07
    assert validation.fresh(split, TEST_LABELS, 7, seed=3).num_clients == 7
    entropy = functools.partial(partition.statistics, num_classes=10)
    assert entropy(fresh, TEST_LABELS)["mean_label_entropy"] < 1.3  # of at most 2.3
    assert fresh.fingerprint() == validation.fresh(split, TEST_LABELS, 20, seed=3).fingerprint()
    assert fresh.fingerprint() != validation.fresh(split, TEST_LABELS, 20, seed=4).fingerprint()
