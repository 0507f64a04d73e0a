"""How well one global model serves each of many clients."""

from typing import Any

import numpy as np

from tf_fedsam.data.partition import Partition

PERCENTILES = (10, 25, 50, 75, 90)
BINS = 20


def client_means(values: np.ndarray, partition: Partition) -> np.ndarray:
    """The mean over each client's examples; clients without examples are left out."""
    sizes = partition.sizes()
    client = np.repeat(np.arange(partition.num_clients), sizes)
    sums = np.bincount(client, values[partition.indices], partition.num_clients)
    return sums[sizes > 0] / sizes[sizes > 0]


def spread(accuracies: np.ndarray) -> dict[str, float]:
    """What is told of the clients' accuracies.

    ``std`` is that of these clients, not an estimate for others; ``worst_decile`` is the mean over
    the worst tenth of the clients, at least one.
    """
    ordered = np.sort(accuracies)
    tenth = max(1, len(ordered) // 10)
    return {
        "mean": float(ordered.mean()),
        "std": float(ordered.std()),
        "worst": float(ordered[0]),
        "worst_decile": float(ordered[:tenth].mean()),
        **{f"p{p}": float(np.percentile(ordered, p)) for p in PERCENTILES},
    }


def histogram(accuracies: np.ndarray) -> list[int]:
    """Clients in each of 20 equal parts of [0, 1]."""
    return np.histogram(accuracies, BINS, (0, 1))[0].tolist()


def report(name: str, accuracies: np.ndarray) -> dict[str, Any]:
    """The same with the names of a run's log."""
    told = {f"{name}_{key}": value for key, value in spread(accuracies).items()}
    return {**told, f"{name}_histogram": histogram(accuracies)}


def confusion(labels: np.ndarray, classes: np.ndarray, num_classes: int) -> np.ndarray:
    """How often each true class (row) was given each class (column)."""
    flat = np.bincount(labels.astype(np.int64) * num_classes + classes, minlength=num_classes**2)
    return flat.reshape(num_classes, num_classes)


def row_shares(matrix: np.ndarray) -> np.ndarray:
    """Each row of counts as shares of its sum; a row of zeros stays so."""
    return matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
