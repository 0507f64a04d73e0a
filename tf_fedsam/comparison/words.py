"""Numbers in words, the same on a page, in a terminal and in a notebook."""

import math
from collections.abc import Callable, Iterable

import numpy as np

from tf_fedsam.comparison.statistics import Spread


def percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f}"


def short(value: float) -> str:
    """A number with about four digits."""
    size = abs(value)
    if value == 0 or 1e-3 <= size < 1e6:
        return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"
    return f"{value:.2e}"


def mean_and_std(found: Spread, form: Callable[[float], str] | None = None) -> tuple[str, str]:
    """Both as texts, the second empty for a single value.

    Args:
        found: what to write.
        form: writes a number; by default with as many digits as the deviation is worth.
    """
    mean, std = found.mean, found.std
    if std is None:
        return (form or short)(mean), ""
    if form is not None:
        return form(mean), form(std)
    if std and 1e-3 <= abs(mean) < 1e6:
        digits = min(6, max(0, 1 - math.floor(math.log10(std))))
        return f"{mean:,.{digits}f}", f"{std:,.{digits}f}"
    return short(mean), f"{std:.2g}"


def plus_minus(found: Spread, form: Callable[[float], str] | None = None) -> str:
    """Mean ± standard deviation."""
    mean, std = mean_and_std(found, form)
    return f"{mean} ± {std}" if std else mean


def listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def between(values: np.ndarray) -> str:
    low, high = short(values.min()), short(values.max())
    return low if low == high else f"{low} to {high}"


def counted(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"
