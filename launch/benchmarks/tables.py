"""Tables of what was measured: shown, kept, and compared with others."""

from __future__ import annotations  # of what is loaded later

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

import tf_fedsam
from tf_fedsam import devices, paths, text
from tf_fedsam.errors import InputError
from tf_fedsam.lazy import tf
from tf_fedsam.state.files import write_atomically

kept: dict[str, tuple[Sequence[str], list]] = {}  # by name, what was measured


def show(name: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a table and keeps it."""
    text.say(text.grid(header, rows))
    kept[name] = list(header), [[str(cell) for cell in row] for row in rows]


def write(path: str, args: Sequence[str]) -> None:
    """Writes what was shown, with the command that measured it."""
    content = {
        "command": shlex.join(["python", "-m", "launch.bench", *args]),
        "version": tf_fedsam.__version__,
        "tensorflow": tf.__version__,
        "cores": devices.available_cores(),
        "tables": {name: {"header": h, "rows": rows} for name, (h, rows) in kept.items()},
    }
    file = paths.expanded(path)
    file.parent.mkdir(parents=True, exist_ok=True)  # or what took minutes would be lost
    write_atomically(file, (json.dumps(content, indent=1) + "\n").encode())


def read(path: str) -> dict[str, list[list[str]]]:
    """The rows of the tables that a file of --json holds."""
    try:
        found = json.loads(paths.regular(paths.expanded(path)).read_text())["tables"]
        return {name: [list(map(str, row)) for row in t["rows"]] for name, t in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"--baseline must be a file that --json wrote. Received: {path!r} ({error})."
        ) from None


def over(
    then: Sequence[Sequence[str]], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], list[list[str]]]:
    """Each number over that of another measurement; rows are known by their words."""

    def number(cell: str) -> float | None:
        match = re.match(r"-?[\d,]*\.?\d+(e-?\d+)?", cell)
        return float(match[0].replace(",", "")) if match else None

    def words(row: Sequence[str]) -> tuple[str, ...]:
        return tuple(re.sub(r"[\d.,]+", "", c) if number(c) is not None else c for c in row)

    before = {words(row): row for row in then}
    compared = []
    for row in rows:
        old = before.get(words(row))
        if old is None or len(old) != len(row):
            continue
        ratios = []
        for cell, other in zip(row, old, strict=True):
            now, was = number(cell), number(other)
            ratios.append(cell if now is None or not was else f"{now / was:.2f}")
        compared.append(ratios)
    return header, compared
