"""Dirichlet shares, and filling up small clients."""

import math

import numpy as np

from tests.data.partition.cases import LABELS, C, N, uniform_labels
from tf_fedsam.data import partition as partitions


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
