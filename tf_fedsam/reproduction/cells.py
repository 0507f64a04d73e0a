"""From a table to the runs that it takes, as cells of a sweep.

Cells of the first seed come first, and among them those of the first column. Rows and columns that
ask for the same run share it.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tf_fedsam.reproduction.tables import Column, Row, Table
from tf_fedsam.runs.algorithm import make_algorithm
from tf_fedsam.runs.config import SETTINGS, ResolvedConfig, RunConfig, of_role, with_defaults
from tf_fedsam.runs.folder import RunFolder
from tf_fedsam.runs.settings import Role
from tf_fedsam.sweeps.cells import Cell

# What decides the result of a run, wherever its data lie and whatever is measured.
DECISIVE = of_role(Role.PROBLEM, Role.SEED, Role.METHOD, Role.TUNING)


@dataclasses.dataclass(frozen=True)
class Place:
    """A place of a table that a run is for.

    Attributes:
        row, column: names.
        variant: which method of the row.
        seed: of the run.
        cell: the run.
        changed: settings that are not the table's, with the table's values.
    """

    row: str
    column: str
    variant: str
    seed: int
    cell: Cell
    changed: Mapping[str, Any]


def places(
    table: Table,
    out: pathlib.Path,
    *,
    columns: Sequence[Column] | None = None,
    rows: Sequence[Row] | None = None,
    seeds: Sequence[int] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> list[Place]:
    """The places of some columns and rows, with their runs in ``out``.

    Args:
        table: what to reproduce.
        out: a folder for the runs.
        columns, rows: all by default.
        seeds: of every column; by default each has those of the table.
        fixed: settings of every run that win over the table's, such as where the data lie.

    Raises:
        InputError: if a run cannot be.
    """
    found = []
    columns = list(table.columns.values()) if columns is None else columns
    runs: dict[str, Cell] = {}
    wanted_targets = sorted({c.target for c in table.columns.values() if c.target is not None})
    targets = {"targets": ",".join(f"{target:g}" for target in wanted_targets)}
    given = dict(fixed or {})
    for seed in table.seeds if seeds is None else seeds:
        for column in columns:
            if seeds is None and seed not in column.seeds:
                continue
            for row in list(table.rows.values()) if rows is None else rows:
                for variant, values in row.variants.items():
                    wanted = table.values(values, column, seed)
                    cell = _cell(f"{variant}-{column.name}", wanted, out, {**targets, **given})
                    cell = runs.setdefault(key(cell.resolved.as_dict()), cell)
                    changed = _changed(wanted, cell.resolved)
                    found.append(Place(row.name, column.name, variant, seed, cell, changed))
    return found


def cells(found: Sequence[Place]) -> list[Cell]:
    """The runs of some places, each once."""
    return list({place.cell.name: place.cell for place in found}.values())


def key(settings: Mapping[str, Any]) -> str:
    """The same text for runs that must come to the same result.

    Args:
        settings: resolved, as ``config.json`` has them.
    """
    whole = with_defaults(settings)
    decisive = {
        name: whole.get(name)
        for name in DECISIVE
        if not SETTINGS[name].goes_into
        and not (SETTINGS[name].since and whole.get(name) == SETTINGS[name].default)
    }
    return json.dumps(decisive, sort_keys=True)


def file_name(name: str) -> str:
    """A name for a file or a folder."""
    return re.sub(r"[^\w.+=-]+", "_", name).strip("_").lower()


def _cell(
    name: str,
    wanted: Mapping[str, Any],
    out: pathlib.Path,
    fixed: Mapping[str, Any],
) -> Cell:
    config = RunConfig.from_values({**wanted, **fixed})
    resolved = config.resolve()
    make_algorithm(resolved)
    resolved.training_options()
    name = file_name(f"{name}-seed{wanted['seed']}")
    return Cell(name, config, resolved, {}, RunFolder(out / name))


def _changed(wanted: Mapping[str, Any], resolved: ResolvedConfig) -> dict[str, Any]:
    """What of the table's settings is not so in the run, with the table's values."""
    alone = RunConfig.from_values(wanted).resolve().as_dict()
    there = resolved.as_dict()
    return {name: alone[name] for name in DECISIVE if name in there and alone[name] != there[name]}
