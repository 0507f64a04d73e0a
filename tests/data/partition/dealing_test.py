"""Dealing is exactly the sequential procedure it stands for."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from tf_fedsam.data import partition as partitions
from tf_fedsam.data.partition import base, dealing


def sequential(labels, priors, sizes, replacement, generator):
    """The procedure as written in the docstring of `dirichlet`, one example at a time: counts."""
    capacity = np.bincount(labels, minlength=priors.shape[1])
    left = capacity.tolist()
    room = list(sizes)
    counts = np.zeros(priors.shape)
    while any(room):
        open_clients = [i for i, r in enumerate(room) if r]
        i = open_clients[int(generator.random() * len(open_clients))]
        weights = [p if replacement or k else 0.0 for p, k in zip(priors[i], left, strict=True)]
        if not sum(weights):
            weights = left
        while True:
            y = pick(weights, generator)
            if left[y]:
                break
            left[y] = int(capacity[y])
        left[y] -= 1
        room[i] -= 1
        counts[i, y] += 1
    return counts


def pick(weights, generator):
    bounds = list(itertools.accumulate(weights))
    target = generator.random() * bounds[-1]
    return next(y for y, bound in enumerate(bounds) if bound > target)


def assert_same_moments(a, b, sigmas=4.5):
    """Means and mean squares of [samples, ...] agree within this many standard errors.

    Two-sided normal probability of 4.5 sigma: 7e-6 per cell.
    """
    for f in (np.asarray, np.square):
        x, y = f(a), f(b)
        error = np.sqrt(x.var(axis=0) / len(x) + y.var(axis=0) / len(y))
        gap = np.abs(x.mean(axis=0) - y.mean(axis=0))
        assert np.all(gap <= sigmas * error + 1e-12), gap / np.maximum(error, 1e-12)


@pytest.mark.parametrize("scheme", ["dirichlet", "recycled", "pathological"])
def test_many_clients_are_worked_on_a_part_at_a_time(scheme, monkeypatch):
    """Which changes nothing, whatever the parts are."""
    labels = np.random.default_rng(0).integers(0, 4, 200)
    cut = {
        "dirichlet": lambda: partitions.dirichlet(labels, 30, 0.1, 3),
        "recycled": lambda: partitions.dirichlet(labels, 30, 0.1, 3, replacement=True),
        "pathological": lambda: partitions.pathological(labels, 30, 2, 3),
    }[scheme]
    whole = cut()
    monkeypatch.setattr(base, "ENTRIES", 12)
    parts = cut()
    np.testing.assert_array_equal(parts.priors, whole.priors)
    assert parts.fingerprint() == whole.fingerprint()


def test_without_replacement_follows_the_sequential_procedure():
    labels = np.repeat(np.arange(4), [12, 3, 8, 1])
    priors = np.array(
        [
            [0, 1, 0, 0],  # its only class runs out at once: then uniform among what is left
            [0.5, 0.5, 0, 0],
            [0.1, 0.2, 0.3, 0.4],
            [0, 0, 0.9, 0.1],
        ]
    )
    slow_generator = np.random.default_rng(0)
    fast = [partitions.validation(labels, priors, s).class_counts(labels, 4) for s in range(800)]
    slow = [sequential(labels, priors, [6] * 4, False, slow_generator) for _ in range(800)]
    assert_same_moments(fast, slow)  # 32 cells: error probability below 2.2e-4


@pytest.mark.parametrize("replacement", [False, True])
def test_unequal_sizes_follow_the_sequential_procedure(replacement):
    labels, sizes = np.repeat(np.arange(3), [9, 4, 1]), [1, 4, 9]
    slow_generator = np.random.default_rng(0)
    fast, slow = [], []
    for seed in range(800):
        partition = partitions.dirichlet(labels, 3, 0.7, seed, replacement=replacement, sizes=sizes)
        fast.append(partition.class_counts(labels, 3))
        slow.append(sequential(labels, partition.priors, sizes, replacement, slow_generator))
    assert_same_moments(fast, slow)  # 18 cells: 1.3e-4


def exact_tables(left, room, priors):
    """Probability of every final table of counts, by going through all sequences of turns."""
    if not any(room):
        return {(): 1.0}
    result = Counter()
    open_clients = [i for i, r in enumerate(room) if r]
    for i in open_clients:
        weights = [p if k else 0 for p, k in zip(priors[i], left, strict=True)]
        if not sum(weights):
            weights = left
        for y, weight in enumerate(weights):
            if weight:
                step = weight / sum(weights) / len(open_clients)
                then = exact_tables(
                    [k - (j == y) for j, k in enumerate(left)],
                    [r - (j == i) for j, r in enumerate(room)],
                    priors,
                )
                for turns, probability in then.items():
                    result[tuple(sorted((*turns, (i, y))))] += step * probability
    return result


def test_without_replacement_has_the_exact_joint_distribution():
    labels = np.array([0, 0, 1, 2, 2, 2])
    priors = np.array([[0.3, 0.4, 0.3], [0.6, 0, 0.4], [0, 1, 0]])
    expected = exact_tables([2, 1, 3], [2, 2, 2], priors)
    assert sum(expected.values()) == pytest.approx(1)
    num = 1200
    seen = Counter()
    for seed in range(num):
        counts = partitions.validation(labels, priors, seed).class_counts(labels, 3)
        seen[tuple((i, y) for i in range(3) for y in range(3) for _ in range(counts[i, y]))] += 1
    assert set(seen) <= set(expected)
    # Pearson's statistic over the tables expected at least 5 times, the others pooled, is
    # chi-square with k - 1 degrees of freedom: mean k - 1, sd sqrt(2 (k - 1)). Its upper tail
    # beyond mean + 5 sd is below 1e-4 for k of 10 and more.
    common = [t for t in expected if num * expected[t] >= 5]
    rows = [(seen[t], num * expected[t]) for t in common]
    rows.append((num - sum(s for s, _ in rows), num - sum(e for _, e in rows)))
    rows = [(s, e) for s, e in rows if e > 1e-6]
    assert len(rows) >= 10
    statistic = sum((s - e) ** 2 / e for s, e in rows)
    assert statistic < len(rows) - 1 + 5 * math.sqrt(2 * (len(rows) - 1))


@pytest.mark.parametrize("seed", range(5))
def test_free_turns_are_those_of_a_loop_with_the_same_random_numbers(seed):
    generator = np.random.default_rng(seed)
    left = np.array([300, 5, 0, 40, 155])
    drawn = generator.permutation(np.repeat(np.arange(5), [100, 5, 0, 20, 15]))
    free = generator.permutation(np.arange(len(drawn) + 200) < 200)
    ahead = np.full(len(free), -1)
    ahead[~free] = drawn
    left[1] += 200  # else a free turn could take what an owner of class 1 will take
    got = dealing.free_classes(ahead, np.flatnonzero(free), left, np.random.default_rng(99))
    generator = np.random.default_rng(99)
    numbers = np.concatenate([np.arange(k) for k in left])
    names = np.repeat(np.arange(5), left)
    proposals, expected = [], []
    for t, y in enumerate(ahead):
        if free[t]:
            for attempt in itertools.count():
                if attempt == len(proposals):
                    proposals.append(generator.integers(len(names), size=200))
                example = proposals[attempt][len(expected)]
                y = names[example]
                if numbers[example] < left[y]:
                    break
            expected.append(y)
        left[y] -= 1
    assert left.min() >= 0
    assert got.tolist() == expected
    assert len(proposals) > 1  # the case is not an idle one


@pytest.mark.parametrize("seed", range(5))
def test_refills_are_those_of_a_loop_with_the_same_random_numbers(seed):
    generator = np.random.default_rng(seed)
    capacity = np.array([1, 2, 0, 5, 30])
    priors = generator.dirichlet(np.ones(5), 3) * (capacity > 0)
    owner = generator.integers(0, 3, 400)
    got = dealing.recycle(owner, priors, capacity, np.random.default_rng(99))
    generator = np.random.default_rng(99)
    drawn, _ = dealing.draw_classes(owner, priors, capacity > 0, generator)
    left = capacity.copy()
    expected = []
    for i, y in zip(owner, drawn, strict=True):
        while not left[y]:
            left[y] = capacity[y]
            bounds = np.cumsum(priors[i])
            y = np.searchsorted(bounds / bounds[-1], generator.random(), side="right")
        left[y] -= 1
        expected.append(y)
    assert got.tolist() == expected
    assert np.count_nonzero(got != drawn) > 20  # the case is not an idle one


def test_a_class_that_runs_out():
    labels = np.array([0] * 3 + [1] * 97)
    priors = np.tile([0.9, 0.1], (5, 1))  # everybody wants the rare class
    partition = partitions.validation(labels, priors, 1)
    np.testing.assert_array_equal(np.sort(partition.indices), np.arange(100))
    assert partition.class_counts(labels, 2).sum(axis=0).tolist() == [3, 97]

    recycled = partitions.dirichlet(labels, 5, 1e6, 1, replacement=True)  # p = (1/2, 1/2)
    counts = np.bincount(recycled.indices, minlength=100)
    # The pool of class 0 goes round as a whole: its three examples are used equally often.
    assert np.ptp(counts[:3]) <= 1
    # Every fourth draw of class 0 meets an empty pool: its share is (3/8) / (3/8 + 1/2) = 3/7, that
    # is 43 of 100 with sd below 5; 15 is 5.6 sd away.
    assert counts[:3].sum() > 15
    assert recycled.num_repeated() >= 12


def test_large_splits_are_exact_too():
    # More free turns than one look ahead holds; tiny pools that are refilled thousands of times.
    labels = np.concatenate([np.arange(50), np.full(20_000, 50)])
    dealt = partitions.validation(labels, np.eye(30, 51), 1)
    np.testing.assert_array_equal(np.sort(dealt.indices), np.arange(len(labels)))
    recycled = partitions.dirichlet(labels, 30, 1.0, 1, replacement=True)
    uses = np.bincount(recycled.indices, minlength=len(labels))
    assert uses[:50].min() > 10
    assert uses[50:].max() == 1
