"""What loggers that send a run's numbers to a tracker of experiments share."""

import importlib
from collections.abc import Mapping
from typing import Any

from tf_fedsam.errors import InputError


def load(package: str, what: str) -> Any:
    """The tracker's package, if it is installed."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise InputError(
            f"{what} needs the package {package}, which is not installed. Install it with pip, or "
            f"leave the callback out."
        ) from None


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a round."""
    return {
        name: float(value)
        for name, value in record.items()
        if isinstance(value, (bool, int, float)) and name != "round"
    }


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with ``hparams.rho`` for entries of mappings."""
    plain: dict[str, Any] = {}
    for name, value in settings.items():
        inner = value if isinstance(value, Mapping) else None
        plain |= {name: value} if inner is None else {f"{name}.{k}": v for k, v in inner.items()}
    return plain
