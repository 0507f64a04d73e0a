"""Which examples a client sees in which local step, and how they look.

Every epoch is a fresh shuffle of the client's examples, the last partial batch is kept. The plan is
a function of (seed, round, client) alone, so all algorithms see the same batches.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from tf_fedsam import rng
from tf_fedsam.data.partition import Partition
from tf_fedsam.lazy import tf


@dataclasses.dataclass(frozen=True)
class Cohort:
    """The clients of a round and their batches; one entry a client unless said otherwise.

    Attributes:
        positions: the clients' positions in the data set.
        num_examples: examples of each client.
        num_steps: local steps each is to do; 0 for a client without examples.
        order: examples in the order they are visited, client after client, epoch after epoch.
        order_start: where each client's part of ``order`` begins.
        seeds: integer seed of each client's dropout and augmentation.
    """

    positions: np.ndarray
    num_examples: np.ndarray
    num_steps: np.ndarray
    order: np.ndarray
    order_start: np.ndarray
    seeds: np.ndarray


def plan(
    partition: Partition,
    positions: np.ndarray,
    seed: int,
    round_num: int,
    *,
    batch_size: int,
    local_epochs: int,
    local_steps: int | None = None,
    step_fraction: np.ndarray | None = None,
) -> Cohort:
    """The batches of a round.

    Args:
        partition: who has which examples.
        positions: the cohort.
        seed: the run's seed.
        round_num: the round, from 0.
        batch_size: examples a step.
        local_epochs: passes over the client's examples.
        local_steps: if given, exactly so many steps instead, through as many epochs as it takes.
        step_fraction: share of its steps that each client does at least, and at least one; all by
            default.
    """
    orders, num_steps = [], []
    for position, fraction in zip(
        positions, np.ones(len(positions)) if step_fraction is None else step_fraction, strict=True
    ):
        examples = partition.client(position)
        batches = -(-len(examples) // batch_size)
        steps = local_epochs * batches if local_steps is None else local_steps
        # Rounded up, so that a smallest share that was asked for holds.
        steps = max(1, math.ceil(fraction * steps - 1e-9)) if batches else 0
        epochs = -(-steps // batches) if batches else 0
        generator = rng.generator(seed, "batches", round_num, int(position))
        visits = np.broadcast_to(examples, (epochs, len(examples)))
        orders.append(generator.permuted(visits, axis=1).reshape(-1))
        num_steps.append(steps)
    lengths = np.asarray([len(order) for order in orders], np.int64)
    return Cohort(
        positions=positions,
        num_examples=np.asarray([len(partition.client(p)) for p in positions], np.int64),
        num_steps=np.asarray(num_steps, np.int64),
        order=np.concatenate([np.zeros(0, np.int64), *orders]).astype(np.int64),
        order_start=np.cumsum(lengths) - lengths,
        seeds=np.asarray([rng.key(seed, "client", round_num, int(p)) for p in positions]),
    )


def client_batches(cohort: Cohort, entry: int, batch_size: int) -> list[np.ndarray]:
    """The index batches of one client of the cohort, in order; what the compiled round visits."""
    size, start = int(cohort.num_examples[entry]), int(cohort.order_start[entry])
    per_epoch = -(-size // batch_size) if size else 1
    batches = []
    for step in range(int(cohort.num_steps[entry])):
        epoch, number = divmod(step, per_epoch)
        first = start + epoch * size + number * batch_size
        last = start + epoch * size + min(size, (number + 1) * batch_size)
        batches.append(cohort.order[first:last])
    return batches


def per_epoch(num_examples: tf.Tensor, batch_size: int) -> tf.Tensor:
    """Steps of one pass over a client's examples; 1 for a client without any."""
    return tf.maximum((num_examples + batch_size - 1) // batch_size, 1)


def read(
    x: tf.Tensor,
    y: tf.Tensor,
    order: tf.Tensor,
    client: Mapping[str, tf.Tensor],
    step: tf.Tensor,
    *,
    batch_size: int,
    preprocess: Callable[[tf.Tensor], tf.Tensor],
    augment: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Inputs and labels of one local step, as tensors, in a graph or not.

    Args:
        x, y: the examples that ``order`` points at.
        order: as in ``Cohort``.
        client: the entries ``order_start``, ``num_examples`` and ``seed`` of a client.
        step: the local step, from 0.
        batch_size: examples a step.
        preprocess: from raw to network input.
        augment: ``(batch, seed) -> batch`` after it, or ``None``.
    """
    n, batches = client["num_examples"], per_epoch(client["num_examples"], batch_size)
    epoch, number = step // batches, step % batches
    begin = client["order_start"] + epoch * n + number * batch_size
    indices = tf.slice(order, [begin], [tf.minimum(batch_size, n - number * batch_size)])
    inputs = preprocess(tf.gather(x, indices))
    if augment is not None:
        inputs = augment(inputs, tf.stack([client["seed"], step]))
    return inputs, tf.gather(y, indices)
