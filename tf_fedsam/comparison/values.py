"""Values of JSON files that anybody may have changed."""

import json
import math
from typing import Any


def number(value: Any) -> float | None:
    """The value as a finite number; ``None`` if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def key(value: Any) -> str:
    """The same for equal values only, whatever JSON they are; 1 and 1.0 are equal."""

    def equal(item: Any) -> Any:
        if isinstance(item, dict):
            return {str(k): equal(v) for k, v in item.items()}
        if isinstance(item, (list, tuple)):
            return [equal(v) for v in item]
        if isinstance(item, float) and item.is_integer():
            return int(item)
        return item

    return json.dumps(equal(value), sort_keys=True)


def plain(value: Any) -> str:
    """A setting's value as it is typed."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ",".join(map(plain, value))
    return str(value)
