"""Sizes of the clients."""

import numpy as np
import pytest

from tf_fedsam.data import partition as partitions


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
