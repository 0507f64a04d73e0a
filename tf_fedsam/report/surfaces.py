"""Loss surfaces read back from the folder they were written into, to be drawn again."""

import contextlib
import csv
import dataclasses
import io
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_fedsam import paths
from tf_fedsam.analysis.landscape.pictures import Curve, Panel, Scale
from tf_fedsam.errors import InputError

FALLBACK_CLASSES = 10  # of folders that do not say it


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What a folder of loss surfaces holds.

    Attributes:
        folder: its path.
        panels: a surface each run; empty if none was asked for.
        axis: places along both axes of the surfaces.
        lines: loss and accuracy along a line around each run.
        between: the same from each run to the next one.
        num_classes: labels there are.
        tables: the files the above was read from, by name.
    """

    folder: pathlib.Path
    panels: Sequence[Panel]
    axis: Sequence[float]
    lines: Sequence[Curve]
    between: Sequence[Curve]
    num_classes: int
    tables: Mapping[str, str]

    def scale(self, losses: Sequence[np.ndarray]) -> Scale:
        return Scale.of(losses, self.num_classes)


def read_surfaces(folder: str | os.PathLike) -> Drawn:
    """What is in a folder that loss surfaces were drawn into.

    Raises:
        InputError: if there is nothing, or it was changed.
    """
    place = paths.expanded(folder)
    try:
        about = json.loads(paths.regular(place / "landscape.json").read_text())
        runs = {str(row["folder"]): row for row in about["runs"]}
        tables = {
            name: paths.regular(place / f"{name}.csv").read_text()
            for name in ("surface_2d", "line_1d", "between")
            if (place / f"{name}.csv").exists()
        }
        if not tables:
            raise ValueError("no tables in it")
        radius = float(about["settings"]["ring_radius"])
        panels, axis = _panels(_rows(tables.get("surface_2d", "")), runs, radius)
        lines = [
            Curve(str(runs[run]["label"]), *_columns(rows, "x"), str(runs[run]["algo"]))
            for (run,), rows in _blocks(_rows(tables.get("line_1d", "")), "run")
        ]
        between = [
            Curve(
                f"{runs[a]['label']} to {runs[b]['label']}",
                *_columns(rows, "t"),
                str(runs[a]["algo"]),
            )
            for (a, b), rows in _blocks(_rows(tables.get("between", "")), "from", "to")
        ]
        num_classes = int(about["settings"].get("num_classes", FALLBACK_CLASSES))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or repr(error)
        raise InputError(
            f"{place} has no loss surfaces that can be drawn again ({reason}). Expected: a folder "
            f"that loss surfaces were drawn into, with its tables. Draw them again."
        ) from None
    return Drawn(place, panels, axis, lines, between, max(2, num_classes), tables)


def readable_surfaces(folders: Sequence[str | os.PathLike]) -> list[Drawn]:
    """Of some folders, what can be drawn again; of others there are pictures."""
    found = []
    for folder in folders:
        with contextlib.suppress(InputError):
            found.append(read_surfaces(folder))
    return found


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _blocks(rows: Sequence[Mapping[str, str]], *keys: str) -> list[tuple[tuple[str, ...], Any]]:
    """The rows of each value of the keys, in their order."""
    found: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return list(found.items())


def _columns(rows: Any, along: str) -> tuple[list[float], np.ndarray, np.ndarray]:
    number = lambda name: [float(row[name]) for row in rows]  # noqa: E731
    return number(along), np.asarray(number("loss")), np.asarray(number("accuracy"))


def _panels(
    rows: Sequence[Mapping[str, str]], runs: Mapping[str, Any], radius: float
) -> tuple[list[Panel], list[float]]:
    """The surfaces, and the places along their axes, which are the same for all."""
    panels, axis = [], list[float]()
    for (run,), block in _blocks(rows, "run"):
        losses = {(float(r["y"]), float(r["x"])): float(r["loss"]) for r in block}
        axis = sorted({x for _, x in losses})
        about = runs[run]
        note = f"loss {about['loss']:.3g} in the middle, {about['rise']:+.3g} at {radius:g}"
        grid = np.asarray([[losses[y, x] for x in axis] for y in axis])
        panels.append(Panel(str(about["label"]), note, grid))
    return panels, axis
