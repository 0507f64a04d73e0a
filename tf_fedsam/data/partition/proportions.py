"""Shares of a Dirichlet distribution, and filling up those who got too little."""

import numpy as np

from tf_fedsam.data.partition import checks
from tf_fedsam.data.partition.base import row_parts


def dirichlet_shares(
    generator: np.random.Generator, alpha: float, num_rows: int, num_columns: int
) -> np.ndarray:
    """[num_rows, num_columns], rows ~ Dir(alpha, ..., alpha).

    Gamma(alpha) = Gamma(alpha + 1) * U^(1 / alpha), in logarithms: small shares keep their
    proportions to each other (down to 1e-300), which decide once the large ones are exhausted.
    All is done in one table, a part of its rows at a time.
    """
    checks.table(num_rows, num_columns)
    alpha = min(max(alpha, 1e-290), 1e15)  # beyond: one class, or uniform, to the last bit
    table = generator.standard_gamma(alpha + 1.0, (num_rows, num_columns))
    for rows in row_parts(num_rows, num_columns):
        part = table[rows]
        np.log(part, out=part)
        part -= generator.standard_exponential(part.shape) / alpha
        part -= part.max(axis=1, keepdims=True)
        with np.errstate(under="ignore"):
            np.exp(part, out=part)
            part /= part.sum(axis=1, keepdims=True)
    return table


def fill_small_clients(
    owner: np.ndarray, num_clients: int, min_size: int, generator: np.random.Generator
) -> np.ndarray:
    """Moves random examples from the largest clients to those with fewer than min_size."""
    sizes = np.bincount(owner, minlength=num_clients)
    lacking = np.maximum(min_size - sizes, 0)
    needed = int(lacking.sum())
    if not needed:
        return owner
    low, high = min_size, int(sizes.max())  # the lowest level that cuts off at most what is needed
    while low < high:
        middle = (low + high) // 2
        if np.maximum(sizes - middle, 0).sum() > needed:
            low = middle + 1
        else:
            high = middle
    given = np.maximum(sizes - low, 0)
    donors = generator.permutation(np.flatnonzero(sizes >= low))
    given[donors[: needed - int(given.sum())]] += 1
    shuffled = generator.permutation(len(owner))
    order = shuffled[np.argsort(owner[shuffled], kind="stable")]
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    moved = order[rank < np.repeat(given, sizes)]
    owner = owner.copy()
    owner[generator.permutation(moved)] = np.repeat(np.arange(num_clients), lacking)
    return owner
