"""What the tables of a report's page are made of.

Every text of a run folder goes through :func:`e` before it is HTML.
"""

import dataclasses
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_fedsam.comparison import targets
from tf_fedsam.comparison.series import Group, Series
from tf_fedsam.comparison.statistics import Difference, Spread
from tf_fedsam.comparison.words import mean_and_std, percent
from tf_fedsam.report import drawing
from tf_fedsam.report.sections import Section
from tf_fedsam.text import printable

MEGA = 1e6
NONE = '<span class="none">&ndash;</span>'
# After a box that may be wider than the page; shown if it is.
MORE = '<p class="more" aria-hidden="true">There is more to the right: scroll sideways.</p>'
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


def e(value: Any) -> str:
    """Text for HTML, inside and outside of attributes."""
    return html.escape(printable(str(value)))


def plus_minus(found: Spread | None, form: Callable[[float], str] | None = None) -> str:
    """Mean ± standard deviation; without a form, as many digits as the deviation is worth."""
    if found is None:
        return NONE
    mean, std = mean_and_std(found, form)
    return f'{mean} <span class="pm">± {std}</span>' if std else mean


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
        f"<tbody>{''.join(body)}</tbody></table></div>{MORE}"
    )


def figure_grid(parts: Iterable[str], kind: str = "charts") -> str:
    """Figures side by side; nothing if there is none."""
    found = "".join(parts)
    return f'<div class="{kind}">{found}</div>' if found else ""


def swatch(style: int | None) -> str:
    """The line of a series with its marker, before its name."""
    head = '<svg class="swatch" aria-hidden="true" viewBox="0 0 26 10">'
    if style is None:
        return f"{head}</svg>"
    own = drawing.colour(style)
    return (
        f'{head}<line x1="0" y1="5" x2="26" y2="5" stroke="{own}" stroke-width="2.4" '
        f'stroke-dasharray="{drawing.dashes(style)}"/>'
        f'<path d="{drawing.marker_path(style)}" transform="translate(13 5)" fill="{own}"/></svg>'
    )


def name_cell(section: Section, series: Series) -> Cell:
    badges = ["baseline"] if series is section.baseline else []
    short_ones = series.stopped if series.complete else series.runs
    if short_ones:
        done = ", ".join(str(len(run.records)) for run in short_ones[:5])
        end = ", stopped early" if series.complete else ""
        badges.append(f"{done} of {section.group.problem['rounds']} rounds{end}")
    text = "".join(f' <span class="badge">{e(badge)}</span>' for badge in badges)
    label = f"{swatch(section.styles.get(series.label))}<span>{e(series.label)}{text}</span>"
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
    group, unit = section.group, COSTS[cost][1]
    found = {s.label: s.reached(target) for s in group.series}
    means = [(s, m.mean if (m := found[s.label].costs.get(cost)) else None) for s in group.series]
    best, cells = best_of(means, lowest=True), {}
    for series, mean in means:
        there = found[series.label]
        if mean is not None:
            text = plus_minus(there.costs[cost].in_units_of(unit))
            cells[series.label] = Cell(f"<strong>{text}</strong>" if series in best else text, mean)
        else:
            said = targets.reached_words(there, cost)
            text = NONE if said == "-" else f'<span class="none">{e(said)}</span>'
            cells[series.label] = Cell(text)
    return cells


def difference_cell(section: Section, series: Series, name: str, reach: float = 0) -> Cell:
    """The difference to the baseline in points; ``reach`` is what the small drawing spans."""
    if series is section.baseline:
        return Cell('<span class="none">baseline</span>', 0.0)
    if section.baseline is None or not series.complete:
        return Cell(NONE)
    if series.values(name) and None in series.values(name).values():
        return Cell(NONE)
    found = series.difference(section.baseline, name)
    if found is None:
        return Cell('<span class="none">no common seed</span>')
    if found.half is None:
        text = f'{100 * found.mean:+.2f} <span class="pm">no interval, 1 seed</span>'
        return Cell(text, found.mean)
    text = f'{100 * found.mean:+.2f} <span class="pm">± {percent(found.half)}, n={found.n}</span>'
    return Cell(text + (interval(found, reach) if reach else ""), found.mean)


def interval(found: Difference, reach: float) -> str:
    """The interval as a line with its middle, around zero; only a repetition of the numbers."""
    assert found.half is not None
    place = lambda v: 50 + 48 * float(np.clip(v / reach, -1, 1))  # noqa: E731
    low, middle, high = (place(found.mean + sign * found.half) for sign in (-1, 0, 1))
    kind = "evidence" if found.is_evidence else "open"
    return (
        f'<svg class="interval {kind}" aria-hidden="true" viewBox="0 0 100 10">'
        f'<line class="zero" x1="50" y1="0" x2="50" y2="10"/>'
        f'<line x1="{low:.1f}" y1="5" x2="{high:.1f}" y2="5"/>'
        f'<circle cx="{middle:.1f}" cy="5" r="3"/></svg>'
    )
