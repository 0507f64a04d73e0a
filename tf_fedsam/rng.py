"""All randomness comes from here: one function of (seed, purpose, round, client).

No global generator is ever read or seeded, so the split, the client schedule, the batches and the
dropout masks of a seed are the same for every algorithm, every number of devices and every resumed
run. A purpose always has the same number of ids: zeros at the end do not count.
"""

import zlib

import numpy as np


def generator(seed: int, purpose: str, *ids: int) -> np.random.Generator:
    """An independent NumPy generator for this (seed, purpose, ids)."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose, *ids)))


def key(seed: int, purpose: str, *ids: int) -> int:
    """A 31-bit integer for stateless random ops on the device."""
    return int(_sequence(seed, purpose, *ids).generate_state(1, np.uint32)[0] >> 1)


def _sequence(seed: int, purpose: str, *ids: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *ids])
