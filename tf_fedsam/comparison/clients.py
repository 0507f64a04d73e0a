"""How a model serves each client, which classes it confuses, and which classes clients have."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_fedsam.analysis import fairness
from tf_fedsam.comparison.compared_run import ComparedRun
from tf_fedsam.comparison.statistics import spread
from tf_fedsam.comparison.values import number


@dataclasses.dataclass(frozen=True)
class Clients:
    """Accuracy of the global model on each client at the last probe, means over seeds.

    Attributes:
        mean, std, worst_decile: over clients; ``None`` if not logged.
        histogram: shares of the clients in equal parts of [0, 1]; ``None`` if not logged.
    """

    mean: float
    std: float | None
    worst_decile: float | None
    histogram: np.ndarray | None


def clients(runs: Sequence[ComparedRun], part: str) -> Clients | None:
    """How fair a series is on clients' ``train`` examples, or on ``test`` examples in their mix."""

    def over_seeds(name: str) -> float | None:
        values = [number(run.last_probe.get(f"client_{part}_accuracy_{name}")) for run in runs]
        found = spread(values)
        return None if found is None else found.mean

    mean = over_seeds("mean")
    if mean is None:
        return None
    shares = [
        _counts(run.last_probe.get(f"client_{part}_accuracy_histogram"), dims=1) for run in runs
    ]
    histogram = None
    if all(s is not None and s.sum() > 0 and len(s) == len(shares[0]) for s in shares):  # type: ignore[arg-type]
        histogram = np.mean([s / s.sum() for s in shares], axis=0)  # type: ignore[union-attr]
    return Clients(mean, over_seeds("std"), over_seeds("worst_decile"), histogram)


def confusion(runs: Sequence[ComparedRun]) -> np.ndarray | None:
    """Examples by true (rows) and predicted class at the last probe, all seeds together."""
    found = [_counts(run.last_probe.get("confusion"), dims=2) for run in runs]
    matrices = [m for m in found if m is not None and m.shape[0] == m.shape[1] and m.sum() > 0]
    if not matrices or any(m.shape != matrices[0].shape for m in matrices):
        return None
    return np.sum(matrices, axis=0)


def most_confused(matrix: np.ndarray, most: int = 3) -> list[tuple[int, int, float]]:
    """The most frequent mistakes: true class, predicted class, share of the true class."""
    shares = fairness.row_shares(matrix)
    np.fill_diagonal(shares, 0)
    order = np.argsort(-shares, axis=None, kind="stable")[:most]
    pairs = [tuple(int(i) for i in np.unravel_index(k, shares.shape)) for k in order]
    return [(a, b, float(shares[a, b])) for a, b in pairs if shares[a, b] > 0]


def class_counts(run: ComparedRun) -> np.ndarray | None:
    """Examples of each class (columns) on each client, as far as the config has them."""
    split = run.config.get("split")
    return _counts(split.get("class_counts"), dims=2) if isinstance(split, dict) else None


def _counts(value: Any, dims: int) -> np.ndarray | None:
    """An array of counts from JSON; ``None`` if it is not one."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError, OverflowError):
        return None
    good = array.ndim == dims and array.size and np.isfinite(array).all() and (array >= 0).all()
    return array if good else None
