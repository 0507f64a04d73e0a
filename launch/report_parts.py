"""What the parts of a report's page are made of: what is on it, words, cells, tables.

Every text of a run folder goes through :func:`e` before it is HTML.
"""

import dataclasses
import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_fedsam.analysis import charts, compare
from tf_fedsam.analysis.compare import Group, Series, Spread

MEGA = 1e6
NONE = '<span class="none">&ndash;</span>'
COLUMNS = {
    "test_accuracy": "Last",
    "best_test_accuracy": "Best",
    "mean_last_10_test_accuracy": "Mean of last 10",
    "fedinit_test_accuracy": "FedInit",
}
COSTS = {
    "round": ("Rounds", 1.0),
    "bytes": ("MB", MEGA),
    "gradient_evaluations": ("Gradients", 1.0),
    "seconds": ("Seconds", 1.0),
    "vectors": ("Vectors", 1.0),
}


@dataclasses.dataclass(frozen=True)
class Section:
    """A group with what it is compared by.

    Attributes:
        group: the series.
        baseline: differences are to this one; ``None`` if there is nothing to compare.
        targets: test accuracies.
        targets_given: by the user, not chosen for them.
        styles: of the series that are drawn, by label.
        apart: what tells it from sections that would have the same title.
    """

    group: Group
    baseline: Series | None
    targets: Sequence[float]
    targets_given: bool
    styles: Mapping[str, int]
    apart: str = ""

    @property
    def drawn(self) -> list[Series]:
        return [s for s in self.group.series if s.label in self.styles]


@dataclasses.dataclass(frozen=True)
class Picture:
    """A PNG to be put into the page."""

    content: bytes
    alt: str
    folder: str


@dataclasses.dataclass(frozen=True)
class Report:
    """All that is on the page.

    Attributes:
        sections: a group each.
        skipped: runs that are not reported, and why.
        pictures: loss surfaces.
        command: that made the report.
        datasets: what data sets are called.
        version: of the package.
    """

    sections: Sequence[Section]
    skipped: Sequence[tuple[str, str]]
    pictures: Sequence[Picture]
    command: str
    datasets: Mapping[str, str]
    version: str


def e(value: Any) -> str:
    """Text for HTML, inside and outside of attributes."""
    return html.escape(compare.printable(str(value)))


def percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f}"


def short(value: float) -> str:
    """A number with about four digits."""
    size = abs(value)
    if value == 0 or 1e-3 <= size < 1e6:
        return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"
    return f"{value:.2e}"


def listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def between(values: np.ndarray) -> str:
    low, high = short(values.min()), short(values.max())
    return low if low == high else f"{low} to {high}"


def counted(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def plus_minus(found: Spread | None, form: Callable[[float], str] | None = None) -> str:
    """Mean ± standard deviation; without a form, as many digits as the deviation is worth."""
    if found is None:
        return NONE
    mean, std = (form or short)(found.mean), found.std
    if std is None:
        return mean
    if form is not None:
        return f'{mean} <span class="pm">± {form(std)}</span>'
    if std and 1e-3 <= abs(found.mean) < 1e6:
        digits = min(6, max(0, 1 - math.floor(math.log10(std))))
        return f'{found.mean:,.{digits}f} <span class="pm">± {std:,.{digits}f}</span>'
    return f'{mean} <span class="pm">± {std:.2g}</span>'


def dataset_title(section: Section, titles: Mapping[str, str]) -> str:
    name = section.group.problem["dataset"]
    return titles.get(name, name).split(" (")[0]


def section_title(section: Section, titles: Mapping[str, str]) -> str:
    problem = section.group.problem
    parts = [dataset_title(section, titles), str(scheme(section.group))]
    parts += [str(problem["model"]), counted(problem["rounds"], "round")]
    parts += [section.apart] if section.apart else []
    return compare.printable(", ".join(parts))


def scheme(group: Group) -> Any:
    partition = group.runs[0].config.get("partition")
    found = partition.get("scheme") if isinstance(partition, dict) else None
    return found or f"{group.problem['partition']} split"


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is shown, and what is sorted by."""

    content: str
    value: float | str | None = None


def table(
    caption: str, header: Sequence[tuple[str, str]], rows: Sequence[tuple[str, Sequence[Cell]]]
) -> str:
    """A table that scrolls within its box; header cells have a text and a hint."""
    words = {i for _, cells in rows for i, c in enumerate(cells) if isinstance(c.value, str)}
    heads = "".join(
        f'<th scope="col"{" class=text" * (i in words)} title="{e(hint)}">{e(text)}</th>'
        for i, (text, hint) in enumerate(header)
    )
    body = []
    for style, cells in rows:
        first, *rest = cells
        inner = f'<th scope="row" data-value="{e(first.value)}">{first.content}</th>'
        inner += "".join(
            f"<td{' class=text' * isinstance(c.value, str)} "
            f'data-value="{"" if c.value is None else e(c.value)}">{c.content}</td>'
            for c in rest
        )
        body.append(f'<tr class="{style}">{inner}</tr>')
    return (
        f'<div class="box" role="region" tabindex="0" aria-label="{e(caption)}">'
        f'<table class="sort"><caption>{e(caption)}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def swatch(style: int | None) -> str:
    """The line of a series, before its name."""
    if style is None:
        return '<svg class="swatch" aria-hidden="true" viewBox="0 0 22 8"></svg>'
    return (
        f'<svg class="swatch" aria-hidden="true" viewBox="0 0 22 8"><line x1="0" y1="4" x2="22" '
        f'y2="4" stroke="{charts.colour(style)}" stroke-width="3" '
        f'stroke-dasharray="{charts.dashes(style)}"/></svg>'
    )


def name_cell(section: Section, series: Series) -> Cell:
    badge = ""
    if series is section.baseline:
        badge = ' <span class="badge">baseline</span>'
    elif not series.complete:
        done = ", ".join(str(len(run.records)) for run in series.runs[:5])
        badge = f' <span class="badge">{done} of {e(section.group.problem["rounds"])} rounds</span>'
    label = f"{swatch(section.styles.get(series.label))}<span>{e(series.label)}{badge}</span>"
    return Cell(f'<span class="series">{label}</span>', series.label)


def seeds_cell(series: Series) -> Cell:
    return Cell(str(len(series.runs)), len(series.runs))


def best_of(values: Iterable[tuple[Series, float | None]], lowest: bool = False) -> list[Series]:
    """Complete series with the best value; nobody is best alone."""
    there = [(s, v) for s, v in values if v is not None and s.complete]
    if len(there) < 2:
        return []
    best = (min if lowest else max)(v for _, v in there)
    return [s for s, v in there if v == best]


def spread_cells(
    group: Group,
    found: Mapping[str, Spread | None],
    form: Callable[[float], str] | None = None,
    lowest: bool | None = False,
) -> dict[str, Cell]:
    """A column, the best value bold; ``lowest`` is ``None`` where no value is better."""
    means = [(s, None if (f := found[s.label]) is None else f.mean) for s in group.series]
    best = [] if lowest is None else best_of(means, lowest)
    cells = {}
    for series, mean in means:
        text = plus_minus(found[series.label], form)
        cells[series.label] = Cell(f"<strong>{text}</strong>" if series in best else text, mean)
    return cells


def target_cells(section: Section, target: float, cost: str) -> dict[str, Cell]:
    rounds, scale = section.group.problem["rounds"], COSTS[cost][1]
    found = {s.label: s.reached(target) for s in section.group.series}
    means = [
        (s, m.mean if (m := found[s.label].costs.get(cost)) else None) for s in section.group.series
    ]
    best, cells = best_of(means, lowest=True), {}
    for series, mean in means:
        there = found[series.label]
        if mean is not None:
            one = there.costs[cost]
            std = None if one.std is None else one.std / scale
            text = plus_minus(Spread(one.mean / scale, std, one.n))
            cells[series.label] = Cell(f"<strong>{text}</strong>" if series in best else text, mean)
        elif there.num_reached == there.n:
            cells[series.label] = Cell('<span class="none">not logged</span>')
        else:
            last = rounds if series.complete else min(len(run.records) for run in series.runs)
            some = f"by {there.num_reached} of {there.n}" if there.num_reached else ""
            never = some or (f"&gt;{last}" if cost == "round" else "&ndash;")
            cells[series.label] = Cell(f'<span class="none">{never}</span>')
    return cells
