"""Training examples that nobody trains on, to choose settings and a stopping round by.

They are drawn evenly: sorted by client and class, and at random within a class, every k-th example
is taken, so that each client, and each of its classes, gives its share to within one example, and
the whole gives it exactly. Choosing by them leaves the test examples for what they are there for.
"""

import dataclasses

import numpy as np

from tf_fedsam import rng
from tf_fedsam.data.partition import Partition
from tf_fedsam.data.partition.base import offsets_of
from tf_fedsam.errors import InputError


def of_pool(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Numbers of examples, ascending, that are held out before there are clients.

    Args:
        labels: of all training examples.
        share: of them, in (0, 1).
        seed: of the run.
    """
    drawn = _evenly((labels,), share, rng.generator(seed, "holdout.pool"))
    return np.sort(drawn)


def of_clients(partition: Partition, labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Which entries of a partition's ``indices`` are of examples held out of the clients' shares.

    An example that several clients have is held out of all of them, or of none; it counts as the
    first one's. A client that would be left with nothing keeps what it has.

    Args:
        partition: of the training examples.
        labels: of all training examples.
        share: of a client's examples, in (0, 1).
        seed: of the run.

    Returns:
        bool [entries of ``indices``].
    """
    first = first_entries(partition)
    owner = np.repeat(np.arange(partition.num_clients), partition.sizes())
    keys = owner[first], labels[partition.indices[first]]
    drawn = first[_evenly(keys, share, rng.generator(seed, "holdout.clients"))]
    held = np.isin(partition.indices, partition.indices[drawn])
    left = np.bincount(owner[~held], minlength=partition.num_clients)
    kept = partition.indices[(left == 0)[owner]]
    held &= ~np.isin(partition.indices, kept)
    if not held.any():
        raise InputError(
            f"holdout={share:g} leaves no example to hold out: the {partition.num_clients} clients "
            f"have {len(first)} examples together. Raise holdout, use holdout_from=pool, or lower "
            f"num_clients.",
            *("holdout", "holdout_from", "num_clients"),
        )
    return held


def first_entries(partition: Partition) -> np.ndarray:
    """Of every example that somebody has, its first entry in ``indices``, in their order."""
    return np.sort(np.unique(partition.indices, return_index=True)[1])


def without(partition: Partition, held: np.ndarray) -> Partition:
    """The partition without some entries of its ``indices``."""
    owner = np.repeat(np.arange(partition.num_clients), partition.sizes())
    sizes = np.bincount(owner[~held], minlength=partition.num_clients)
    return dataclasses.replace(
        partition, indices=partition.indices[~held], offsets=offsets_of(sizes)
    )


def _evenly(
    keys: tuple[np.ndarray, ...], share: float, generator: np.random.Generator
) -> np.ndarray:
    """Positions of a share of the entries, as even as possible over their keys."""
    number = len(keys[0])
    count = round(share * number)
    if not 0 < count < number:
        raise InputError(
            f"holdout must leave examples on both sides. Received: {share:g} of {number} training "
            f"examples. Use a share such as 0.1, or more examples.",
            "holdout",
        )
    order = np.lexsort((generator.random(number), *reversed(keys)))
    places = (np.arange(count) + generator.random()) * (number / count)
    return order[np.minimum(places.astype(np.int64), number - 1)]
