"""The results of a sweep: a row for each setting, over its seeds."""

import dataclasses
import functools
import html
from collections.abc import Mapping, Sequence
from typing import Any

from tf_fedsam import text
from tf_fedsam.analysis import results
from tf_fedsam.comparison import words
from tf_fedsam.comparison.statistics import Spread, spread
from tf_fedsam.comparison.targets import Reached, reached, reached_words
from tf_fedsam.runs.config import of_role
from tf_fedsam.runs.settings import Role
from tf_fedsam.sweeps.cells import Cell
from tf_fedsam.sweeps.names import short

ON_TEST, HELD_OUT = "mean_last_10_test_accuracy", "mean_last_10_validation_accuracy"
COLUMNS = {
    "test_accuracy": "last",
    "best_test_accuracy": "best",
    ON_TEST: "mean of last 10",
}
HELD_OUT_COLUMN = {HELD_OUT: "held out"}
MAX_ROWS = 60


@dataclasses.dataclass
class Row:
    """Cells that differ only in the seed.

    Attributes:
        cells: all of them.
        best: whether no other setting of its algorithm on the same problem did better.
        alone: there is no other setting to choose from.
        chosen_by: the result that the best is chosen by.
    """

    cells: list[Cell]
    best: bool = False
    alone: bool = True
    chosen_by: str = ON_TEST

    @functools.cached_property
    def complete(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.is_complete()]

    @functools.cached_property
    def summaries(self) -> list[Mapping[str, Any]]:
        """The results of the complete cells."""
        return [cell.run.summary() for cell in self.complete]

    def spread(self, name: str) -> Spread | None:
        """Of a result over the seeds that are there."""
        return spread(summary.get(name) for summary in self.summaries)

    @property
    def holds_out(self) -> bool:
        """Whether there are training examples that nobody trains on."""
        return bool(self.cells[0].resolved.holdout)

    def reached(self, target: float) -> Reached:
        """What it took the complete cells to reach a test accuracy."""
        costs = []
        for cell, summary in zip(self.complete, self.summaries, strict=True):
            told = summary.get("targets") or {}
            key = f"{target:g}"
            costs.append(told[key] if key in told else results.cost_to(cell.run.records(), target))
        rounds = min((summary["rounds"] for summary in self.summaries), default=0)
        return reached(costs, rounds)

    def as_dict(self, names: Sequence[str], targets: Sequence[float]) -> dict[str, Any]:
        """Plain values; what is not there is ``None``."""
        cell = self.cells[0]
        row: dict[str, Any] = {"algo": cell.algo, "dataset": cell.dataset}
        row |= {short(name): cell.varied.get(name) for name in names}
        row |= {"seeds": len(self.summaries), "missing_seeds": len(self.cells) - len(self.complete)}
        for name in COLUMNS:
            row |= _columns(name, self.spread(name))
        if self.holds_out:
            row |= _columns(HELD_OUT, self.spread(HELD_OUT))
            row |= _columns("chosen_test_accuracy", self.spread("chosen_test_accuracy"))
        for target in targets:
            row |= _columns(f"rounds_to_{target:g}", self.reached(target).costs.get("round"))
        return row | {"best": self.best, "best_by": self.chosen_by}


def _columns(name: str, found: Spread | None) -> dict[str, float | None]:
    mean, std = (None, None) if found is None else (found.mean, found.std)
    return {name: mean, f"{name}_std": std}


def rows(cells: Sequence[Cell]) -> list[Row]:
    """The settings in the order of the cells, with the best of each algorithm marked.

    It is chosen among cells of the same problem and the same method, which differ only in what is
    tuned, by the accuracy on held-out training examples if there are some, else by test accuracy.
    A setting of which some seed has no result is not chosen.
    """
    seed, tuned = of_role(Role.SEED), of_role(Role.SEED, Role.TUNING)
    found = [Row(same) for same in _alike(cells, seed).values()]
    rivals: dict[str, list[Row]] = {}
    for row in found:
        rivals.setdefault(_key(row.cells[0], tuned), []).append(row)
    for group in rivals.values():
        whole = [row for row in group if len(row.complete) == len(row.cells)]
        by = HELD_OUT if group[0].holds_out else ON_TEST
        for row in group:
            row.alone, row.chosen_by = len(group) == 1, by
        means = [(over.mean, row) for row in whole if (over := row.spread(by)) is not None]
        if len(group) > 1 and means:
            max(means, key=lambda pair: pair[0])[1].best = True
    return found


def _alike(cells: Sequence[Cell], apart_from: Sequence[str]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(_key(cell, apart_from), []).append(cell)
    return found


def _key(cell: Cell, apart_from: Sequence[str]) -> str:
    settings = cell.resolved.as_dict().items()
    return repr({name: value for name, value in settings if name not in apart_from})


def varied(cells: Sequence[Cell]) -> list[str]:
    """The names of what differs between cells, apart from algorithm, data set and seed."""
    return list(dict.fromkeys(name for cell in cells for name in cell.varied))


def targets(cells: Sequence[Cell]) -> list[float]:
    """The test accuracies that some cells are to reach."""
    return sorted({target for cell in cells for target in cell.resolved.target_accuracies})


@dataclasses.dataclass(frozen=True)
class Table:
    """What a sweep found, in per cent of test accuracy.

    Attributes:
        header: of the columns.
        lines: a row each.
        notes: how to read them.
    """

    header: list[str]
    lines: list[list[str]]
    notes: list[str]

    def __str__(self) -> str:
        notes = [line for note in self.notes for line in text.wrapped(note, indent="  ")]
        return "\n".join([text.grid(self.header, self.lines), "", *notes])

    def html(self) -> str:
        """For a notebook."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.header)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>"
            for line in self.lines
        )
        notes = html.escape(" ".join(self.notes))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{notes}</p>"


def table(cells: Sequence[Cell], elsewhere: str = "rows()") -> Table:
    """The settings, or the best of them if there are many.

    Args:
        cells: of the sweep.
        elsewhere: what has the others.
    """
    settings = rows(cells)
    shown = settings
    if len(shown) > MAX_ROWS:
        shown = [row for row in settings if row.best or row.alone]
    names, wanted = varied(cells), targets(cells)
    columns = {**COLUMNS, **(HELD_OUT_COLUMN if any(row.holds_out for row in shown) else {})}
    header = ["algo", "dataset", *map(short, names), "seeds", *columns.values()]
    header += [f"rounds to {target:.4g}" for target in wanted]
    lines = []
    for row in shown:
        cell = row.cells[0]
        number = f"{len(row.complete)}"
        if len(row.complete) < len(row.cells):
            number += f" of {len(row.cells)}"
        line = [f"{cell.algo}{' *' if row.best else ''}", cell.dataset]
        line += [_value(cell.varied.get(name, "")) for name in names]
        line += [number, *(_percent(row.spread(name)) for name in columns)]
        line += [reached_words(row.reached(target)) for target in wanted]
        lines.append(line)
    return Table(header, lines, _notes(settings, shown, elsewhere))


def _notes(settings: Sequence[Row], shown: Sequence[Row], elsewhere: str) -> list[str]:
    notes = ["Test accuracy in %, of one seed."]
    if any(len(row.complete) > 1 for row in shown):
        notes = ["Test accuracy in %; mean ± standard deviation over seeds (of a sample: n - 1)."]
    if any(row.holds_out for row in shown):
        notes += [
            "Held out: mean of the last 10 accuracies on training examples that nobody trains on."
        ]
    if any(row.best and row.chosen_by == HELD_OUT for row in shown):
        notes += [
            "* the best of its algorithm by the mean over seeds of the accuracy on held-out "
            "training examples. Test accuracy had no part in the choice: that of the marked "
            "setting is an honest one."
        ]
    if any(row.best and row.chosen_by == ON_TEST for row in shown):
        notes += [
            "* the best of its algorithm by the mean over seeds of the last 10 tests. It was "
            "chosen on test accuracy, so its numbers are better than fresh ones would be: for a "
            "claim, run it again with seeds that had no part in the choice."
        ]
    if len(shown) < len(settings):
        notes.append(f"Shown are the best; {elsewhere} has all {len(settings)} settings.")
    return notes


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _percent(found: Spread | None) -> str:
    return "-" if found is None else words.plus_minus(found, words.percent)
