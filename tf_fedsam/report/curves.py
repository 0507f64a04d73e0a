"""The curves of a report's page."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tf_fedsam.comparison.curves import curve
from tf_fedsam.comparison.words import percent, short
from tf_fedsam.report import drawing
from tf_fedsam.report.cells import e, figure_grid, swatch
from tf_fedsam.report.measures import ACCURACY, CHARTS, ONE_SCALE, X_AXES, Measure
from tf_fedsam.report.sections import Section
from tf_fedsam.text import printable

SAME = 1e-4  # relative difference of curves that nobody sees


def legend(section: Section, values: Mapping[str, str]) -> str:
    items = "".join(
        f"<li>{swatch(section.styles[s.label])}{e(s.label)}"
        f"{f' <b>{values[s.label]}</b>' if values[s.label] else ''}</li>"
        for s in section.drawn
        if s.label in values
    )
    return f'<ul class="legend">{items}</ul>'


def chart(
    section: Section,
    measure: Measure,
    over: str = "round",
    twins: Sequence[Measure] = (),
    reach: tuple[float, float] | None = None,
) -> str:
    """A figure, or nothing if the logs have no curve of it.

    Args:
        section: whose series are drawn.
        measure: what.
        over: rounds or a cost.
        twins: measures that have the same curves, and are only named.
        reach: of the y axis, if it is not for this chart alone.
    """
    by, xlabel, scale = X_AXES[over]
    lines, ends = [], {}
    form = (lambda v: f"{percent(v, 1)} %") if measure.percent else short
    for series in section.drawn:
        found = curve(series.runs, measure.name, over)
        if found is None:
            continue
        found = dataclasses.replace(found, x=found.x / scale)
        lines.append(drawing.Line(found, section.styles[series.label]))
        ends[series.label] = form(float(found.mean[-1]))
    if not any(len(line.curve.x) > 1 for line in lines):
        return ""
    said = ", ".join(
        f"{label} {'ends ' if first else ''}at {end}"
        for first, (label, end) in zip((True, *[False] * len(ends)), ends.items(), strict=False)
    )
    log = measure.log and all((line.curve.mean > 0).all() for line in lines)
    title = f"{joint_title(measure, twins)} {by}"
    picture = drawing.lines(
        lines[::-1],
        alt=printable(f"{title}{', on a logarithmic scale' if log else ''}: {said}."),
        xlabel=xlabel,
        percent=measure.percent,
        log=log,
        reach=reach,
    )
    note = ' <span class="pm">log scale</span>' if log else ""
    caption = f"<figcaption>{e(title)}{note}</figcaption>"
    return f"<figure>{caption}{picture}{legend(section, ends)}</figure>"


def joint_title(measure: Measure, twins: Sequence[Measure]) -> str:
    """What a drawing of measures with the same curves shows."""
    return " = ".join([measure.title, *(twin.title.lower() for twin in twins)])


def distinct(
    section: Section, measures: Sequence[Measure]
) -> list[tuple[Measure, tuple[Measure, ...]]]:
    """Measures whose curves differ, each with others that have the same ones.

    Local models are as far from the new global model as from their mean where that is the new
    model: one drawing is enough.
    """
    found: dict[Measure, list[Measure]] = {}
    for measure in measures:
        twin = next((m for m in found if _same_curves(section, m, measure)), None)
        if twin is None:
            found[measure] = []
        else:
            found[twin].append(measure)
    return [(measure, tuple(twins)) for measure, twins in found.items()]


def _same_curves(section: Section, one: Measure, other: Measure) -> bool:
    pairs = [(curve(s.runs, one.name), curve(s.runs, other.name)) for s in section.drawn]
    there = [(a, b) for a, b in pairs if a is not None or b is not None]
    return bool(there) and all(
        a is not None
        and b is not None
        and np.array_equal(a.x, b.x)
        and np.allclose(a.mean, b.mean, rtol=SAME, atol=0)
        for a, b in there
    )


def _reach(section: Section, measures: Sequence[Measure]) -> tuple[float, float] | None:
    """A y axis on which all curves of some measures are seen, with their bands."""
    found = [curve(s.runs, measure.name) for s in section.drawn for measure in measures]
    bands = [(c.mean, 0.0 if c.std is None else c.std) for c in found if c is not None]
    if not bands:
        return None
    low = min(float((mean - std).min()) for mean, std in bands)
    high = max(float((mean + std).max()) for mean, std in bands)
    margin = 0.05 * (high - low)
    return (low - margin, high + margin) if margin else None


def curves(section: Section) -> str:
    left_out = len(section.group.series) - len(section.drawn)
    note = (
        f"<p>{len(section.drawn)} series are drawn: those with the best last accuracy and the "
        f"baseline. {left_out} more are in the tables; max_curves draws more.</p>"
        if left_out
        else ""
    )
    band = (
        "Lines are means over seeds, bands one standard deviation to each side; they end where the "
        "first seed has no value."
        if any(len(s.runs) > 1 for s in section.drawn)
        else "Each line is a single run, so there are no bands."
    )
    text = f"<h3>Accuracy</h3><p>{band} Numbers are the last ones.</p>{note}"
    text += figure_grid(chart(section, ACCURACY, over) for over in X_AXES)
    for title, (about, measures) in CHARTS.items():
        reach = _reach(section, measures) if title in ONE_SCALE else None
        drawn = figure_grid(
            chart(section, measure, twins=twins, reach=reach)
            for measure, twins in distinct(section, measures)
        )
        if drawn:
            text += f"<h3>{title}</h3><p>{about}</p>{drawn}"
    return text
