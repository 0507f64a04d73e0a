"""Partitions: who holds what, exactly and in distribution."""

import itertools
import math
import warnings
from collections import Counter

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_fedsam.data import partition as partitions
from tf_fedsam.errors import InputError

N, C = 20, 10
LABELS = np.random.default_rng(0).integers(0, C, 2003)  # not a multiple of N
OWNERS = np.random.default_rng(1).integers(0, N, len(LABELS))

DISJOINT = {
    "iid": lambda seed: partitions.iid(LABELS, N, seed),
    "dirichlet": lambda seed: partitions.dirichlet(LABELS, N, 0.1, seed),
    "dirichlet, log-normal sizes": lambda seed: partitions.dirichlet(
        LABELS, N, 0.1, seed, sizes=partitions.client_sizes(len(LABELS), N, seed, 1.0)
    ),
    "dirichlet_classes": lambda seed: partitions.dirichlet_classes(LABELS, N, 0.1, seed),
    "pathological": lambda seed: partitions.pathological(LABELS, N, 2, seed, replacement=False),
    "shards": lambda seed: partitions.shards(LABELS, N, 2, seed),
    "by_client_id": lambda seed: partitions.by_client_id(OWNERS, seed)[0],
    "validation": lambda seed: partitions.validation(LABELS, np.eye(N, C) + 0.01, seed),
}
RECYCLING = {
    "dirichlet": lambda seed: partitions.dirichlet(LABELS, N, 0.1, seed, replacement=True),
    "pathological": lambda seed: partitions.pathological(LABELS, N, 2, seed),
}
ALL = {f"{name}, disjoint": make for name, make in DISJOINT.items()} | {
    f"{name}, recycling": make for name, make in RECYCLING.items()
}
BALANCED = ["iid", "dirichlet", "pathological", "shards", "validation"]


# --- what each client holds ------------------------------------------------------------------


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
    for i in (-1, N):
        with pytest.raises(IndexError):
            partition.client(i)


def test_a_partition_cannot_be_changed():
    partition = DISJOINT["dirichlet"](1)
    for array in (partition.indices, partition.offsets, partition.priors):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_dirichlet_has_the_same_priors_with_and_without_replacement():
    a, b = DISJOINT["dirichlet"](1), RECYCLING["dirichlet"](1)
    np.testing.assert_array_equal(a.priors, b.priors)
    np.testing.assert_allclose(a.priors.sum(axis=1), 1.0)


def test_pathological_clients_hold_their_classes_only():
    partition = partitions.pathological(LABELS, N, 3, 1)
    np.testing.assert_array_equal(np.count_nonzero(partition.priors, axis=1), 3)
    np.testing.assert_allclose(partition.priors.max(axis=1), 1 / 3)
    counts = partition.class_counts(LABELS, C)
    assert not counts[partition.priors == 0].any()
    # 100 draws of 3 classes miss one of them with probability 3 (2/3)^100 < 1e-17.
    np.testing.assert_array_equal(np.count_nonzero(counts, axis=1), 3)


def test_pathological_without_replacement_deals_the_classes_that_nobody_drew():
    # Two clients of one class each: at least 8 of the 10 classes belong to nobody.
    partition = partitions.pathological(LABELS, 2, 1, 1, replacement=False)
    assert partition.num_unused() == 0
    counts = partition.class_counts(LABELS, C)
    assert np.all(np.count_nonzero(counts, axis=1) >= 8)


def test_shards_hold_few_labels():
    labels = np.repeat(np.arange(10), 60)
    partition = partitions.shards(labels, 15, 2, 1)  # 30 shards of 20: three per class, none mixed
    counts = partition.class_counts(labels, 10)
    assert set(np.unique(counts)) <= {0, 20, 40}
    assert np.all(counts.sum(axis=1) == 40)


def test_by_client_id_groups_integers_strings_and_bytes():
    ids = np.array(["bob", "al", "bob", "al", "bob", "cy"])
    for given in (ids, ids.astype("S"), ids.astype(object), list(ids)):
        partition, names = partitions.by_client_id(given)
        assert names.tolist() == ["al", "bob", "cy"]
        assert [sorted(partition.client(i).tolist()) for i in range(3)] == [[1, 3], [0, 2, 4], [5]]
    partition, names = partitions.by_client_id([7, -2, 7])
    assert names.tolist() == [-2, 7]
    assert partition.sizes().tolist() == [1, 2]


def test_classes_without_examples_are_never_drawn():
    labels = np.array([1, 4] * 50)
    for partition in (
        partitions.dirichlet(labels, 5, 1.0, 1),
        partitions.dirichlet(labels, 5, 1.0, 1, replacement=True),
        partitions.dirichlet_classes(labels, 5, 1.0, 1),
        partitions.pathological(labels, 5, 2, 1),
    ):
        assert set(labels[partition.indices]) == {1, 4}
        if partition.priors is not None:
            assert not partition.priors[:, [0, 2, 3]].any()


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


def test_more_clients_than_examples_with_replacement():
    labels = np.arange(10) % 2
    partition = partitions.dirichlet(labels, 25, 0.5, 1, replacement=True)
    assert partition.sizes().tolist() == [1] * 25
    assert partition.num_repeated() >= 15


def test_dirichlet_classes_fills_small_clients_from_the_largest():
    before = partitions.dirichlet_classes(LABELS, N, 0.01, 1, min_size=0).sizes()
    after = partitions.dirichlet_classes(LABELS, N, 0.01, 1, min_size=30).sizes()
    assert before.min() < 30
    assert after.min() == 30
    np.testing.assert_array_equal(after[before < 30], 30)
    # The donors are cut to one level (two neighbouring numbers); everybody below keeps everything.
    donors = after < before
    assert np.ptp(after[donors]) <= 1
    kept = (before >= 30) & ~donors
    assert np.all(before[kept] <= after[donors].max())
    everybody = partitions.dirichlet_classes(LABELS[:2000], N, 0.01, 1, min_size=100)
    np.testing.assert_array_equal(everybody.sizes(), 100)


@pytest.mark.parametrize("sigma", [0.0, 0.3, 3.0, 1e300])
def test_client_sizes_sum_exactly(sigma):
    for n, num_clients in [(7, 7), (10, 3), (2003, 20), (100_000, 999)]:
        sizes = partitions.client_sizes(n, num_clients, 1, sigma)
        assert sizes.shape == (num_clients,)
        assert sizes.sum() == n
        assert sizes.min() >= 1
        if sigma == 0:
            assert np.ptp(sizes) <= 1


def test_client_sizes_are_log_normal():
    logs = np.log(partitions.client_sizes(10_000_000, 10_000, 1, 0.5))
    # sd of 10,000 normal numbers: standard error 0.5 / sqrt(20,000) = 0.0035, bound 5 of them
    # plus 0.002 for the one example everybody has (sizes near 1000) and rounding.
    assert abs(logs.std() - 0.5) < 0.0197


def test_validation_follows_the_training_priors():
    test_labels = np.arange(1000) % C
    train = partitions.pathological(LABELS, N, 5, 1)
    split = partitions.validation(test_labels, train.class_priors(LABELS, C), 1)
    assert split.num_clients == N
    assert split.sizes().tolist() == [50] * N
    assert split.num_repeated() == split.num_unused() == 0
    own = split.class_counts(test_labels, C)[train.priors > 0].sum()
    assert own > 600  # of 1000; if the priors were ignored 500 with sd below 16, 6 sd away


def test_class_priors_of_a_scheme_without_priors_are_the_class_mix():
    partition = DISJOINT["shards"](1)
    mix = partition.class_priors(LABELS, C)
    np.testing.assert_allclose(mix, partition.class_counts(LABELS, C) / partition.sizes()[:, None])
    assert DISJOINT["dirichlet"](1).class_priors(LABELS, C + 2).shape == (N, C + 2)


def test_statistics_of_a_partition_worked_by_hand():
    labels = np.array([0, 0, 1, 1, 2, 2, 0, 1])
    partition, _ = partitions.by_client_id([0, 0, 0, 0, 1, 1, 2, 2])
    values = partitions.statistics(partition, labels, 3)
    assert [values[f"size_{k}"] for k in ("min", "median", "max")] == [2, 2.0, 4]
    assert [values[f"classes_{k}"] for k in ("min", "median", "max")] == [1, 2.0, 2]
    # Mixes (1/2, 1/2, 0), (0, 0, 1), (1/2, 1/2, 0): entropies ln 2, 0, ln 2.
    assert values["mean_label_entropy"] == pytest.approx(2 * math.log(2) / 3)
    # Against (3/8, 3/8, 2/8): distances 1/4, 3/4, 1/4.
    assert values["mean_total_variation"] == pytest.approx(5 / 12)
    assert (values["num_repeated"], values["num_unused"]) == (0, 0)
    assert (values["num_clients"], values["num_examples"]) == (3, 8)


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
        partitions.pathological(labels, num_clients, 1, seed, replacement=False),
        partitions.shards(labels, num_clients, 1, seed),
        partitions.validation(labels, np.eye(num_clients, 6)[:, ::-1] * one, seed),
    ):
        np.testing.assert_array_equal(np.sort(partition.indices), np.arange(n))
        assert partition.sizes().min() >= 1
    for partition in (
        partitions.dirichlet(labels, num_clients, alpha, seed, replacement=True),
        partitions.pathological(labels, num_clients, 1, seed),
    ):
        expected = np.full(num_clients, n // num_clients)
        expected[0] += n % num_clients
        np.testing.assert_array_equal(partition.sizes(), expected)
        # A pool is emptied before it is refilled: uses within a class differ by at most one.
        uses = np.bincount(partition.indices, minlength=n)
        for label in np.unique(labels):
            assert np.ptp(uses[labels == label]) <= 1


# --- in distribution ---------------------------------------------------------------------------


def uniform_labels(n):
    return np.arange(n) % C


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


def test_priors_have_the_moments_of_a_dirichlet():
    for alpha in (0.05, 0.5, 5.0):
        p = partitions.dirichlet(uniform_labels(4000), 4000, alpha, 1).priors
        # Var p = (1/C)(1 - 1/C) / (C alpha + 1); 4000 rows, 5 standard errors in 10 columns: 6e-6.
        variance = 0.09 / (C * alpha + 1)
        assert np.abs(p.mean(axis=0) - 0.1).max() < 5 * math.sqrt(variance / 4000)
        # E[sum p^2] = (1 + alpha) / (1 + C alpha), standard error from the sample, 5 of them.
        squares = (p**2).sum(axis=1)
        error = squares.std() / math.sqrt(4000)
        assert abs(squares.mean() - (1 + alpha) / (1 + C * alpha)) < 5 * error


def test_small_shares_keep_their_proportions():
    # Once the largest class is gone the rest decides, however small its shares are.
    alpha = 0.003
    p = partitions.dirichlet(uniform_labels(1000), 1000, alpha, 1).priors
    rest = np.sort(p, axis=1)[:, :-1].sum(axis=1)
    # Logarithms of the shares are about -E / alpha with E exponential; the gap between the two
    # smallest of ten E is exponential with rate 9. In any of 1000 rows all nine underflow (e^-708):
    # 1000 e^(-9 * 708 alpha) = 5e-6. Below 1e-16 = e^-36.8, where shares are usually rounded off:
    # e^(-9 * 36.8 alpha) = 0.37 of the rows, standard error 0.015.
    assert np.all(rest > 0)
    assert abs(np.mean(rest < 1e-16) - 0.37) < 5 * 0.015


def test_dirichlet_classes_is_unbiased():
    # 4 examples of one class to 6 clients: each client expects 4/6, the last one too.
    counts = np.array(
        [
            partitions.dirichlet_classes(np.zeros(4, int), 6, 0.5, seed, min_size=0).sizes()
            for seed in range(1000)
        ]
    )
    error = counts.std(axis=0) / math.sqrt(len(counts))
    assert np.abs((counts.mean(axis=0) - 4 / 6) / error).max() < 4.5  # 6 cells: 4e-5


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
    got = partitions._free_classes(ahead, np.flatnonzero(free), left, np.random.default_rng(99))
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
    got = partitions._recycle(owner, priors, capacity, np.random.default_rng(99))
    generator = np.random.default_rng(99)
    drawn, _ = partitions._draw(owner, priors, capacity > 0, generator)
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


def test_large_splits_are_exact_too():
    # More free turns than one look ahead holds; tiny pools that are refilled thousands of times.
    labels = np.concatenate([np.arange(50), np.full(20_000, 50)])
    dealt = partitions.pathological(labels, 30, 1, 1, replacement=False)
    np.testing.assert_array_equal(np.sort(dealt.indices), np.arange(len(labels)))
    recycled = partitions.dirichlet(labels, 30, 1.0, 1, replacement=True)
    uses = np.bincount(recycled.indices, minlength=len(labels))
    assert uses[:50].min() > 10
    assert uses[50:].max() == 1


# --- bad input ---------------------------------------------------------------------------------

Y = np.arange(12) % 3
BAD = {
    "alpha zero": lambda: partitions.dirichlet(Y, 3, 0.0, 1),
    "alpha negative": lambda: partitions.dirichlet(Y, 3, -1.0, 1, replacement=True),
    "alpha nan": lambda: partitions.dirichlet_classes(Y, 3, math.nan, 1),
    "alpha infinite": lambda: partitions.dirichlet(Y, 3, math.inf, 1),
    "alpha a word": lambda: partitions.dirichlet(Y, 3, "iid", 1),
    "too many clients, iid": lambda: partitions.iid(12, 13, 1),
    "too many clients, dirichlet": lambda: partitions.dirichlet(Y, 13, 1.0, 1),
    "too many clients, classes": lambda: partitions.dirichlet_classes(Y, 13, 1.0, 1),
    "too many clients, sizes": lambda: partitions.client_sizes(12, 13, 1),
    "too many clients, pathological": lambda: partitions.pathological(
        Y, 13, 1, 1, replacement=False
    ),
    "too many clients, validation": lambda: partitions.validation(Y, np.ones((13, 3)), 1),
    "too many shards": lambda: partitions.shards(Y, 5, 3, 1),
    "min_size too large": lambda: partitions.dirichlet_classes(Y, 3, 1.0, 1, min_size=5),
    "min_size negative": lambda: partitions.dirichlet_classes(Y, 3, 1.0, 1, min_size=-1),
    "no clients": lambda: partitions.dirichlet(Y, 0, 1.0, 1),
    "no clients, iid": lambda: partitions.iid(Y, 0, 1),
    "no clients, sizes": lambda: partitions.client_sizes(5, -1, 1),
    "clients with a fraction": lambda: partitions.iid(Y, 2.5, 1),
    "no shards": lambda: partitions.shards(Y, 3, 0, 1),
    "no classes per client": lambda: partitions.pathological(Y, 3, 0, 1),
    "too many classes per client": lambda: partitions.pathological(Y, 3, 4, 1),
    "no labels": lambda: partitions.iid([], 1, 1),
    "no labels, dirichlet": lambda: partitions.dirichlet(np.array([], int), 1, 1.0, 1),
    "no examples": lambda: partitions.iid(0, 1, 1),
    "negative labels": lambda: partitions.dirichlet(Y - 1, 3, 1.0, 1),
    "labels with a fraction": lambda: partitions.shards(Y * 0.5, 3, 1, 1),
    "labels in a column": lambda: partitions.dirichlet(Y[:, None], 3, 1.0, 1),
    "huge label": lambda: partitions.dirichlet(np.array([0, 2**40]), 1, 1.0, 1),
    "huge table": lambda: partitions.dirichlet(np.arange(600_000), 1000, 1.0, 1),
    "too few sizes": lambda: partitions.dirichlet(Y, 3, 1.0, 1, sizes=[4, 4]),
    "no sizes": lambda: partitions.dirichlet(Y, 3, 1.0, 1, sizes=[]),
    "a size of zero": lambda: partitions.iid(Y, 3, 1, sizes=[6, 6, 0]),
    "sizes with fractions": lambda: partitions.iid(Y, 3, 1, sizes=[4.0, 4.0, 4.0]),
    "sizes too large": lambda: partitions.dirichlet(Y, 3, 1.0, 1, sizes=[5, 5, 5]),
    "sigma negative": lambda: partitions.client_sizes(12, 3, 1, -0.1),
    "sigma nan": lambda: partitions.client_sizes(12, 3, 1, math.nan),
    "ids with fractions": lambda: partitions.by_client_id([0.5, 1.0]),
    "no ids": lambda: partitions.by_client_id([]),
    "ids of several types": lambda: partitions.by_client_id(np.array([1, "a"], object)),
    "unknown test class": lambda: partitions.validation(Y, np.ones((3, 2)), 1),
    "negative priors": lambda: partitions.validation(Y, -np.ones((3, 3)), 1),
    "priors of one client": lambda: partitions.validation(Y, np.ones(3), 1),
    "labels of another data set": lambda: partitions.iid(Y, 3, 1).class_counts(Y[:-1], 3),
    "too few classes": lambda: partitions.iid(Y, 3, 1).class_counts(Y, 2),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_explained(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=r"^Received .*Expected .*\. [A-Z].*\.$"):
            BAD[name]()
