"""How many examples each client gets."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_fedsam import rng
from tf_fedsam.data.partition import checks
from tf_fedsam.errors import InputError

Sizes = Sequence[int] | np.ndarray


def client_sizes(n: int, num_clients: int, seed: int, sigma: float = 0.0) -> np.ndarray:
    """int64 [num_clients], sizes that sum to n, each at least 1.

    sigma = 0: they differ by at most one. sigma > 0: everyone has one example, the other
    n - num_clients are divided in proportion to exp(sigma * N(0, 1)), rounded by largest remainder.
    """
    n, num_clients = checks.count("number of examples", n), checks.num_clients(num_clients)
    sigma = checks.finite("sigma of the client sizes", sigma)
    if sigma < 0:
        raise InputError(
            f"Received sigma={sigma:g} for the client sizes. Expected 0 (balanced) or more. "
            "Use 0.3 for mild and 1 for strong differences."
        )
    if num_clients > n:
        raise _too_many_clients(n, num_clients)
    if sigma == 0:
        return np.full(num_clients, n // num_clients) + (np.arange(num_clients) < n % num_clients)
    normal = rng.generator(seed, "partition.client_sizes").standard_normal(num_clients)
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp(sigma * (normal - normal.max()))
    exact = (n - num_clients) * (weights / weights.sum())
    sizes = np.floor(exact).astype(np.int64)
    missing = n - num_clients - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:missing]] += 1
    return sizes + 1


def checked_sizes(sizes: Any, n: int, num_clients: Any, replacement: bool = False) -> np.ndarray:
    """Checked sizes, or the default ones."""
    num_clients = checks.num_clients(num_clients)
    if sizes is None:
        if not replacement:
            return client_sizes(n, num_clients, seed=0)
        if num_clients > n:
            return np.ones(num_clients, np.int64)
        result = np.full(num_clients, n // num_clients)
        result[0] += n % num_clients
        return result
    array = np.asarray(sizes)
    if array.shape != (num_clients,) or array.dtype.kind not in "iu" or array.min() < 1:
        raise InputError(
            f"Received client sizes of shape {array.shape} and type {array.dtype}, the smallest "
            f"{array.min() if array.size else 'missing'}. Expected {num_clients} integers, one per "
            "client, each at least 1. Use client_sizes() or correct the list."
        )
    total = int(array.sum(dtype=np.int64))
    if not replacement and total > n:
        raise InputError(
            f"Received client sizes that sum to {total}. Expected at most {n}, the number of "
            "examples, without replacement. Lower the sizes or allow replacement."
        )
    return array.astype(np.int64)


def _too_many_clients(n: int, num_clients: int) -> InputError:
    return InputError(
        f"Received {num_clients} clients for {n} examples. Expected at least one example per "
        "client. Lower num_clients, use more data, or a scheme with replacement."
    )
