"""The tables of the papers, each from a small file of YAML in ``papers/``.

paper, number, title   which one it is
statistic              the entry of a run's results that stands for its accuracy
cell, unit             what a printed cell holds, and whether accuracies are shares or per cent
seeds                  that are run
open, assumed          what the paper leaves open, and what is taken for it
settings               of every run
columns                a data set, settings, and if wanted a target, a cell or seeds of its own, or
                       why the column cannot be measured
rows                   an algorithm with its settings, or ``best_of`` some of them
beyond                 rows that the paper does not have
printed                the numbers, by row and column
pairs                  of rows whose difference is asked for, seed by seed
claims                 of the paper: numbers that should rise from place to place
order_only             the printed numbers are of other settings, only their order can be compared
suspect                cells that something speaks against, with the reason
"""

import dataclasses
import functools
import math
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tf_fedsam.errors import InputError, unknown
from tf_fedsam.runs.config_files import read_mapping

FOLDER = pathlib.Path(__file__).parent / "papers"
# What a cell can hold. The deviation belongs to the accuracy before it.
DEVIATION = "sd"
SHARES = (
    *("accuracy", "best", "mean_last_10"),
    *("train", "train_sd", "validation", "validation_sd"),
)
COUNTS = ("rounds", "seconds", "total_seconds")
FLATNESS = (
    *("flatness_distance", "sharpness", "sharpness_local_on_own"),
    "hessian_eigenvalue",
)
ITEMS = (*SHARES, *COUNTS, *FLATNESS)
UNITS = {"share": 1.0, "percent": 0.01}
KEYS = (
    *("paper", "number", "title", "statistic", "cell", "unit", "seeds", "open", "assumed"),
    *("settings", "columns", "rows", "beyond", "printed", "pairs", "claims", "order_only"),
    "suspect",
)
OPTIONAL = ("beyond", "printed", "pairs", "claims", "order_only", "suspect")
COLUMN_KEYS = ("dataset", "settings", "target", "cell", "seeds", "not_measured")
PAPERS = {
    "FedSAM": "Qu et al. Generalized Federated Learning via Sharpness Aware Minimization. 2022",
    "FedNSAM": "Liu et al. Consistency of Local and Global Flatness for Federated Learning. 2025",
    "FedWMSAM": "Huang et al. A Fast and Flat Federated Learning Method via Weighted Momentum "
    "and Sharpness-Aware Minimization. 2025",
    "FedInit": "Sun et al. Rethinking the Personalized Relaxed Initialization in the Federated "
    "Learning. 2026",
}

Values = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Number:
    """A printed number.

    Attributes:
        value: as a share of 1 for accuracies; ``None`` if it is not printed or cannot be read.
        sd: the deviation that is printed beside it.
        not_within: the rounds in which a target was not reached; ``inf`` if they are not printed.
    """

    value: float | None = None
    sd: float | None = None
    not_within: float | None = None

    @property
    def is_there(self) -> bool:
        return self.value is not None or self.not_within is not None


@dataclasses.dataclass(frozen=True)
class Column:
    """A column: a data set with settings.

    Attributes:
        name: in the file.
        dataset: name of the data set.
        settings: of its runs.
        target: the test accuracy that rounds count to.
        items: what its cells hold.
        seeds: that are run.
        not_measured: why nothing can stand beside the printed numbers; empty if it can.
    """

    name: str
    dataset: str
    settings: Values
    target: float | None
    items: tuple[str, ...]
    seeds: tuple[int, ...]
    not_measured: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    """A row: a method, or the best of some.

    Attributes:
        name: as the paper has it.
        variants: settings with ``algo``, by name; one unless the paper prints the best of some.
        beyond: the paper does not have it.
    """

    name: str
    variants: Mapping[str, Values]
    beyond: bool = False


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a paper says of numbers that it does not print.

    Attributes:
        says: the claim in words.
        item: what should rise.
        places: row and column, from the lowest number to the highest.
    """

    says: str
    item: str
    places: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a paper.

    Attributes:
        name: of its file.
        paper, number, title: which one it is.
        statistic: the entry of a run's results that stands for its accuracy.
        seeds: that some column runs.
        open: what the paper leaves open.
        assumed: what is taken for it.
        settings: of every run.
        columns, rows: by name.
        printed: by row, column and item.
        suspect: reasons, by row and column.
        pairs: rows, of which the first is compared with the second seed by seed.
        claims: of the paper.
        order_only: what is printed is of other settings: only its order is compared.
    """

    name: str
    paper: str
    number: int
    title: str
    statistic: str
    seeds: tuple[int, ...]
    open: tuple[str, ...]
    assumed: tuple[str, ...]
    settings: Values
    columns: Mapping[str, Column]
    rows: Mapping[str, Row]
    printed: Mapping[tuple[str, str, str], Number]
    suspect: Mapping[tuple[str, str], str]
    pairs: tuple[tuple[str, str], ...] = ()
    claims: tuple[Claim, ...] = ()
    order_only: bool = False

    @property
    def heading(self) -> str:
        return f"{self.paper}, Table {self.number}: {self.title}"

    def values(self, row: Mapping[str, Any], column: Column, seed: int) -> Values:
        """The settings of a run; the row's win over the column's, and those over the table's."""
        return {
            **self.settings,
            **column.settings,
            "dataset": column.dataset,
            **row,
            "seed": seed,
        }

    def chosen_columns(self, names: Sequence[str] = ()) -> list[Column]:
        """Columns by name, by data set, or by the beginning of a name; all if none is named.

        A data set goes first: cifar10 is the beginning of cifar100, too.
        """
        return _chosen(
            f"column of {self.name}",
            names,
            self.columns,
            lambda name, column: column.dataset == name,
            lambda name, column: column.name.startswith(name),
        )

    def chosen_rows(self, names: Sequence[str] = ()) -> list[Row]:
        """Rows by name, or by algorithm; all if none is named."""
        return _chosen(
            f"row of {self.name}",
            names,
            self.rows,
            lambda name, row: name in [v["algo"] for v in row.variants.values()],
        )


def names() -> list[str]:
    """Of all tables, by paper and number."""
    return sorted((path.stem for path in FOLDER.glob("*.yaml")), key=_order)


def find(name: str) -> Table:
    """The table of a name such as ``fedwmsam_table1``."""
    if name not in names():
        raise unknown("table", name, names(), "", "table")
    return read(FOLDER / f"{name}.yaml")


@functools.cache
def read(path: pathlib.Path) -> Table:
    """A table from its file.

    Raises:
        InputError: for what is missing, is not known, or does not fit together.
    """
    content = read_mapping(path)
    for key in content:
        if key not in KEYS:
            raise unknown(f"key of {path.name}", key, KEYS)
    if missing := [k for k in KEYS if k not in content and k not in OPTIONAL]:
        raise InputError(f"{path.name} lacks {', '.join(missing)}. Expected: {', '.join(KEYS)}.")
    columns = {
        name: _column(name, found, content, path.name) for name, found in content["columns"].items()
    }
    rows = {name: _row(name, found) for name, found in content["rows"].items()}
    rows |= {name: _row(name, found, True) for name, found in content.get("beyond", {}).items()}
    return Table(
        name=path.stem,
        paper=_one_of(f"paper of {path.name}", content["paper"], PAPERS),
        number=int(content["number"]),
        title=content["title"],
        statistic=content["statistic"],
        seeds=tuple(sorted({seed for column in columns.values() for seed in column.seeds})),
        open=tuple(content["open"]),
        assumed=tuple(content["assumed"]),
        settings=dict(content["settings"]),
        columns=columns,
        rows=rows,
        printed=_printed(content, columns, rows, path.name),
        suspect=_suspect(content.get("suspect", []), columns, rows, path.name),
        pairs=_pairs(content.get("pairs", []), rows, path.name),
        claims=_claims(content.get("claims", []), columns, rows, path.name),
        order_only=bool(content.get("order_only", False)),
    )


def _column(name: str, found: Mapping[str, Any], content: Mapping[str, Any], file: str) -> Column:
    for key in found:
        if key not in COLUMN_KEYS:
            raise unknown(f"key of the column {name} of {file}", key, COLUMN_KEYS)
    items = tuple(found.get("cell", content["cell"]))
    for item in items:
        if item not in (*ITEMS, DEVIATION):
            raise unknown(f"item of a cell of {file}", item, (*ITEMS, DEVIATION))
    target, why = found.get("target"), found.get("not_measured", "")
    if "rounds" in items and target is None and not why:
        raise InputError(f"{file}: the column {name} counts rounds to no target. Add target.")
    settings, seeds = dict(found.get("settings", {})), tuple(found.get("seeds", content["seeds"]))
    return Column(name, found["dataset"], settings, target, items, seeds, why)


def _row(name: str, found: Mapping[str, Any], beyond: bool = False) -> Row:
    variants = found.get("best_of", {name: found})
    return Row(name, {n: dict(values) for n, values in variants.items()}, beyond)


def _printed(
    content: Mapping[str, Any],
    columns: Mapping[str, Column],
    rows: Mapping[str, Row],
    file: str,
) -> dict[tuple[str, str, str], Number]:
    unit = UNITS[_one_of(f"unit of {file}", content["unit"], UNITS)]
    found: dict[tuple[str, str, str], Number] = {}
    for row, cells in content.get("printed", {}).items():
        _one_of(f"row of {file}", row, rows)
        for column, cell in cells.items():
            items = columns[_one_of(f"column of {file}", column, columns)].items
            values = cell if isinstance(cell, list) else [cell]
            if len(values) != len(items):
                raise InputError(
                    f"{file}: {row}, {column} must hold {', '.join(items)}. Received: {cell}."
                )
            given = dict(zip(items, values, strict=True))
            deviation = given.pop(DEVIATION, None)
            for item, value in given.items():
                scale = unit if item in SHARES else 1.0
                own = deviation if item == "accuracy" else None
                found[row, column, item] = _number(value, own, scale)
    return found


def _number(value: Any, deviation: Any, scale: float) -> Number:
    if isinstance(value, str):  # ">500", or ">R" if the paper does not tell how many
        match = re.fullmatch(r">(\d+|R)", value)
        if match is None:
            raise InputError(f"A printed number must be a number or >ROUNDS. Received: {value!r}.")
        return Number(not_within=math.inf if match[1] == "R" else float(match[1]))
    if value is None:
        return Number()
    return Number(scale * value, None if deviation is None else scale * deviation)


def _suspect(
    entries: Iterable[Mapping[str, Any]],
    columns: Mapping[str, Column],
    rows: Mapping[str, Row],
    file: str,
) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for entry in entries:
        for row in entry["rows"]:
            for column in entry["columns"]:
                key = (
                    _one_of(f"row of {file}", row, rows),
                    _one_of(f"column of {file}", column, columns),
                )
                both = [found[key]] if key in found else []
                found[key] = "; ".join([*both, entry["reason"]])
    return found


def _pairs(
    entries: Iterable[Sequence[str]], rows: Mapping[str, Row], file: str
) -> tuple[tuple[str, str], ...]:
    found = []
    for entry in entries:
        if len(entry) != 2:
            raise InputError(f"{file}: a pair has two rows. Received: {list(entry)}.")
        first, second = (_one_of(f"row of {file}", row, rows) for row in entry)
        found.append((first, second))
    return tuple(found)


def _claims(
    entries: Iterable[Mapping[str, Any]],
    columns: Mapping[str, Column],
    rows: Mapping[str, Row],
    file: str,
) -> tuple[Claim, ...]:
    found = []
    for entry in entries:
        if sorted(entry) != ["item", "rising", "says"] or len(entry["rising"]) < 2:
            raise InputError(
                f"{file}: a claim has says, item, and rising with two places or more. Received: "
                f"{entry}."
            )
        item = _one_of(f"item of a claim of {file}", entry["item"], dict.fromkeys(ITEMS))
        places = tuple(
            (_one_of(f"row of {file}", row, rows), _one_of(f"column of {file}", column, columns))
            for row, column in entry["rising"]
        )
        found.append(Claim(entry["says"], item, places))
    return tuple(found)


def _one_of(kind: str, name: Any, valid: Mapping[str, Any]) -> str:
    if name not in valid:
        raise unknown(kind, str(name), valid)
    return name


def _chosen(kind: str, wanted: Sequence[str], there: Mapping[str, Any], *fits: Any) -> list[Any]:
    """What is named; each of the functions is asked only if what is before it finds nothing."""
    if not wanted:
        return list(there.values())
    found: dict[str, Any] = {}
    for name in wanted:
        some = {name: there[name]} if name in there else {}
        for fit in fits:
            some = some or {n: one for n, one in there.items() if fit(name, one)}
        if not some:
            raise unknown(kind, name, there)
        found |= some
    return [one for name, one in there.items() if name in found]


def _order(name: str) -> tuple[int, int, str]:
    paper, _, rest = name.partition("_")
    papers = [p.lower() for p in PAPERS]
    number = re.search(r"\d+$", rest)
    place = papers.index(paper) if paper in papers else len(papers)
    return place, int(number[0]) if number else 0, rest
