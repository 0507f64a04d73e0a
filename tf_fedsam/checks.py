"""Checks of what a user gave: "NAME must be EXPECTED. Received: VALUE."

A value is called by its setting, such as ``"lr"`` or ``"hparams.rho"``; messages say ``rho``.
Intervals are written as usual: ``"[0, 1)"``, ``"(0, inf)"``.
"""

import math
import numbers
from collections.abc import Sequence
from typing import Any

from tf_fedsam.errors import InputError


def require(condition: bool, setting: str, received: Any, expected: str, fix: str = "") -> None:
    """Raises an :class:`InputError` unless the condition holds.

    Args:
        condition: what has to hold.
        setting: the value's name.
        received: the value.
        expected: completes "must be".
        fix: a sentence on how to put it right.
    """
    if not condition:
        name, more = setting.rpartition(".")[2], f" {fix}" if fix else ""
        raise InputError(f"{name} must be {expected}. Received: {received!r}.{more}", setting)


def number(setting: str, value: Any, interval: str = "(-inf, inf)", fix: str = "") -> None:
    """A finite number in an interval."""
    require(_is(numbers.Real, value), setting, value, "a number", fix)
    require(math.isfinite(value), setting, value, "a finite number", fix)
    require(contains(interval, value), setting, value, in_words(interval), fix)


def whole(setting: str, value: Any, interval: str = "[1, inf)", fix: str = "") -> None:
    """A whole number in an interval."""
    require(_is(numbers.Integral, value), setting, value, "a whole number", fix)
    require(contains(interval, value), setting, value, in_words(interval), fix)


def choice(setting: str, value: Any, choices: Sequence[str]) -> None:
    """One of a few words."""
    require(value in choices, setting, value, either(choices))


def flag(setting: str, value: Any) -> None:
    """True or false."""
    require(isinstance(value, bool), setting, value, "true or false")


def contains(interval: str, value: float) -> bool:
    """Whether a number lies in an interval."""
    low, high = _ends(interval)
    above = value > low if interval[0] == "(" else value >= low
    below = value < high if interval[-1] == ")" else value <= high
    return above and below


def in_words(interval: str) -> str:
    """An interval for people."""
    low, high = _ends(interval)
    if math.isinf(high):
        return f"> {low:g}" if interval[0] == "(" else f"at least {low:g}"
    return f"in {interval}"


def either(words: Sequence[str]) -> str:
    """The words with commas and an "or"."""
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _ends(interval: str) -> tuple[float, float]:
    low, high = interval[1:-1].split(",")
    return float(low), float(high)


def _is(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
