"""Validation shards: the test set cut into clients, to see how a global model serves each of them.

Qu et al. report the mean and spread of such accuracies without saying how their shards are made
(https://arxiv.org/abs/2206.02618). Here they are balanced, disjoint and together the whole test
set; a client's shard has the class mix of its training examples.
"""

from collections.abc import Callable

import numpy as np

from tf_fedsam import rng
from tf_fedsam.data import partition as partitions
from tf_fedsam.data.partition import Partition

Split = Callable[[np.ndarray, int, int], Partition]


def same(
    train: Partition,
    train_labels: np.ndarray,
    test_labels: np.ndarray,
    num_classes: int,
    seed: int,
) -> Partition:
    """A shard for each training client, in their order, with the same class priors."""
    priors = train.class_priors(train_labels, num_classes)
    return partitions.validation(test_labels, priors, seed)


def fresh(split: Split, test_labels: np.ndarray, num_clients: int, seed: int) -> Partition:
    """Shards of clients that were never trained on, with new class priors of the same kind.

    Args:
      split: how the training examples were cut, a function (labels, num_clients, seed) that gives
        a partition without replacement, such as
        ``lambda labels, n, seed: partition.dirichlet(labels, n, alpha, seed)``.
      test_labels: the test labels.
      num_clients: how many such clients.
      seed: the run's seed; the new priors are independent of those of the training clients.
    """
    return split(test_labels, num_clients, rng.key(seed, "validation.fresh"))
