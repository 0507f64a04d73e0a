"""Means and spreads over seeds, and differences of pairs with a confidence interval."""

import dataclasses
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import numpy as np

CONFIDENCE = 0.95
_Key = TypeVar("_Key", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (over n - 1; ``None`` of a single value)."""

    mean: float
    std: float | None
    n: int

    def in_units_of(self, unit: float) -> "Spread":
        return Spread(self.mean / unit, None if self.std is None else self.std / unit, self.n)


def spread(values: Iterable[float | None]) -> Spread | None:
    """``None`` if a value is missing, or there is none at all."""
    numbers = list(values)
    present = [v for v in numbers if v is not None]
    if not present or len(present) < len(numbers):
        return None
    std = float(np.std(present, ddof=1)) if len(present) > 1 else None
    return Spread(float(np.mean(present)), std, len(present))


@dataclasses.dataclass(frozen=True)
class Difference:
    """Mean of the differences of n pairs, and half of its confidence interval.

    Attributes:
        half: ``None`` of a single pair, which has no interval.
    """

    mean: float
    half: float | None
    n: int

    @property
    def is_evidence(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.half is not None and abs(self.mean) > self.half


def difference(
    values: Mapping[_Key, float | None], baseline: Mapping[_Key, float | None]
) -> Difference | None:
    """Differences of what has the same key in both; ``None`` if nothing has.

    The interval is Student's, for differences that are normally distributed:
    mean +- t * std / sqrt(n).
    """
    pairs = [(value, baseline.get(key)) for key, value in values.items()]
    found = [a - b for a, b in pairs if a is not None and b is not None]
    if not found:
        return None
    n = len(found)
    if n == 1:
        return Difference(float(found[0]), None, 1)
    error = float(np.std(found, ddof=1)) / math.sqrt(n)
    return Difference(float(np.mean(found)), t_quantile((1 + CONFIDENCE) / 2, n - 1) * error, n)


def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t distribution, for a probability of at least one half."""
    if not 0.5 <= probability < 1 or degrees < 1:
        raise ValueError(
            f"Expected a probability in [0.5, 1) and at least 1 degree of freedom. Received: "
            f"{probability}, {degrees}."
        )
    within, low, high = 2 * probability - 1, 0.0, 1.0
    while _within(high, degrees) < within:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _within(middle, degrees) < within else (low, middle)
    return (low + high) / 2


def _within(t: float, degrees: int) -> float:
    """P(-t < T < t), which is a finite sum for whole degrees of freedom."""
    angle = math.atan2(t, math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term, total = cosine if odd else 1.0, 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
