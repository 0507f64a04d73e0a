"""What probes look at where looking at everything would cost too much.

Examples and clients are drawn once for the seed, so that all probes of a run, and all methods with
one seed, look at the same ones.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tf_fedsam import rng
from tf_fedsam.algorithms.base import Vectors
from tf_fedsam.data.arrays import Rows
from tf_fedsam.data.federated_dataset import Examples
from tf_fedsam.data.files import FileImages
from tf_fedsam.data.partition import Partition
from tf_fedsam.data.partition.base import offsets_of
from tf_fedsam.process import LearningProcess, State

MODELS_A_DEVICE = 4  # local models that are held at a time


def probe_examples(process: LearningProcess, count: int) -> Examples:
    """A fixed set of the clients' training examples."""
    available = np.flatnonzero(np.bincount(process.dataset.partition.indices))
    return _some(process, available, count, rng.generator(process.seed, "analysis.examples"))


def client_examples(process: LearningProcess, position: int, count: int) -> Examples:
    """A client's training examples, or a fixed ``count`` of them if it has more."""
    own = np.unique(process.dataset.partition.client(position))
    generator = rng.generator(process.seed, "analysis.client_examples", position)
    return _some(process, own, count, generator)


def shuffled(process: LearningProcess, examples: Examples) -> Examples:
    """The examples in a fixed random order, in which neighbours have nothing in common."""
    order = rng.generator(process.seed, "analysis.order").permutation(len(examples))
    return Examples(examples.x[order], examples.y[order])


def sampled_clients(
    process: LearningProcess, count: int, among: np.ndarray | None = None
) -> list[int]:
    """The positions of ``count`` fixed clients with training examples, in order.

    Args:
        process: whose clients.
        count: how many; all if there are no more.
        among: for each client whether it can be drawn.
    """
    good = process.dataset.partition.sizes() > 0
    if among is not None:
        good &= among
    # All clients are drawn one after another: with another count the first ones stay the same.
    order = rng.generator(process.seed, "analysis.clients").permutation(len(good))
    return sorted(int(p) for p in order[good[order]][:count])


def of_clients(process: LearningProcess, most: int) -> tuple[Examples, Partition]:
    """The training examples of all clients, or of ``most`` fixed ones, and whose they are."""
    train, split = process.dataset.train, process.dataset.partition
    if split.num_clients <= most:
        return train, split
    chosen = [split.client(p) for p in sampled_clients(process, most)]
    numbers = np.concatenate(chosen)
    x = train.x.take(numbers) if isinstance(train.x, FileImages) else Rows(train.x, numbers)
    offsets = offsets_of(np.asarray([len(own) for own in chosen]))
    own = Partition(np.arange(len(numbers)), offsets, len(numbers), split.scheme, False)
    return Examples(x, train.y[numbers]), own


def rehearsed(
    process: LearningProcess,
    state: State,
    positions: Sequence[int],
    **options: Any,
) -> Iterator[tuple[int, Vectors]]:
    """Clients with the models they would train, a few at a time.

    Clients whose training does not end with finite numbers are left out.

    Args:
        process: the learning process.
        state: the state; it is left alone.
        positions: the clients.
        **options: of ``LearningProcess.rehearse``.
    """
    names, step = process.dataset.client_ids, MODELS_A_DEVICE * process.engine.num_devices
    for begin in range(0, len(positions), step):
        group = positions[begin : begin + step]
        models = process.rehearse(state, [names[p] for p in group], **options)
        for position, model in zip(group, models, strict=True):
            if model is not None:
                yield position, model


def _some(
    process: LearningProcess, numbers: np.ndarray, count: int, generator: np.random.Generator
) -> Examples:
    chosen = np.sort(generator.choice(numbers, min(count, len(numbers)), replace=False))
    train = process.dataset.train
    return Examples(np.asarray(train.x[chosen]), train.y[chosen])
