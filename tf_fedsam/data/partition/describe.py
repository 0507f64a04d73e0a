"""Numbers that describe a split."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_fedsam.data.partition import checks
from tf_fedsam.data.partition.base import Partition, row_parts


def statistics(
    partition: Partition, labels: np.ndarray | Sequence[int], num_classes: int
) -> dict[str, Any]:
    """Numbers that describe a partition.

    num_clients, num_examples, num_repeated, num_unused; size_min, size_median, size_max (examples
    per client); classes_min, classes_median, classes_max (distinct classes per client);
    mean_label_entropy (nats); mean_total_variation (between the class mix of a client and that of
    the whole data set, in [0, 1]); and for each client, as arrays [num_clients], sizes, classes,
    label_entropy and total_variation.
    """
    labels = checks.labels(labels)
    sizes, overall = partition.sizes(), np.bincount(labels, minlength=num_classes) / len(labels)
    parts = [
        _of_counts(partition.class_counts(labels, num_classes, rows.start, rows.stop), overall)
        for rows in row_parts(partition.num_clients, num_classes)
    ]
    classes, entropy, distance = (np.concatenate(column) for column in zip(*parts, strict=True))
    return {
        "num_clients": partition.num_clients,
        "num_examples": partition.num_examples,
        "num_repeated": partition.num_repeated(),
        "num_unused": partition.num_unused(),
        "size_min": int(sizes.min()),
        "size_median": float(np.median(sizes)),
        "size_max": int(sizes.max()),
        "classes_min": int(classes.min()),
        "classes_median": float(np.median(classes)),
        "classes_max": int(classes.max()),
        "mean_label_entropy": float(entropy.mean()),
        "mean_total_variation": float(distance.mean()),
        "sizes": sizes,
        "classes": classes,
        "label_entropy": entropy,
        "total_variation": distance,
    }


def _of_counts(
    counts: np.ndarray, overall: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes, label entropy and total variation of some clients."""
    mix = counts / counts.sum(axis=1, keepdims=True)
    entropy = 0.0 - (mix * np.log(np.where(mix > 0, mix, 1.0))).sum(axis=1)  # never -0.0
    return np.count_nonzero(counts, axis=1), entropy, 0.5 * np.abs(mix - overall).sum(axis=1)
