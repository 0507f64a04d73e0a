"""Refuses arguments that no scheme can work with."""

import math
import operator
from typing import Any

import numpy as np

from tf_fedsam.errors import InputError

_MAX_CLASSES = 1_000_000
# Priors and class counts are dense [num_clients, num_classes] tables of 8-byte numbers (4 GB here).
_MAX_TABLE_ENTRIES = 500_000_000


def labels(labels: Any) -> np.ndarray:
    """The labels as int64, one class per example."""
    array = np.asarray(labels)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
        raise InputError(
            f"Received labels of shape {array.shape} and type {array.dtype}. Expected one integer "
            "class per example in a non-empty one-dimensional array. Flatten or convert them first."
        )
    if array.min() < 0 or array.max() >= _MAX_CLASSES:
        raise InputError(
            f"Received labels from {array.min()} to {array.max()}. Expected class numbers from 0 "
            f"to at most {_MAX_CLASSES - 1}. Renumber the classes, for example with "
            "np.unique(labels, return_inverse=True)."
        )
    return array.astype(np.int64, copy=False)


def num_clients(num_clients: Any) -> int:
    """The number of clients, at least one."""
    return count("num_clients", num_clients)


def count(name: str, value: Any, minimum: int = 1) -> int:
    """The value as an integer that is not below the minimum."""
    number = integer(name, value)
    if number < minimum:
        raise InputError(
            f"Received {name}={number}. Expected a whole number, {minimum} or more. Raise it."
        )
    return number


def integer(name: str, value: Any) -> int:
    """The value as an integer."""
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(
            f"Received {name}={value!r}. Expected a whole number. Write it without a fraction."
        ) from None


def finite(name: str, value: Any) -> float:
    """The value as a float that is neither NaN nor infinite."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"Received {name} = {value!r}. Expected a finite number. Correct it.")
    return number


def alpha(alpha: Any) -> float:
    """The concentration of a Dirichlet distribution."""
    number = finite("alpha of the Dirichlet distribution", alpha)
    if number <= 0:
        raise InputError(
            f"Received alpha={number:g}. Expected a positive concentration of the Dirichlet "
            "distribution. Use 0.1 for strong, 0.6 for mild label skew, or the iid scheme for none."
        )
    return number


def table(num_clients: int, num_classes: int) -> None:
    """Refuses tables of clients by classes that would not fit into memory."""
    if num_clients * num_classes > _MAX_TABLE_ENTRIES:
        raise InputError(
            f"Received {num_clients} clients x {num_classes} classes. Expected a table of at most "
            f"{_MAX_TABLE_ENTRIES} entries. Number the classes from 0 without large gaps, or lower "
            "num_clients."
        )
