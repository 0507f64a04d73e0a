"""Curves of a comparison as a matplotlib figure."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from tf_fedsam import looks
from tf_fedsam.comparison.compared_run import ComparedRun
from tf_fedsam.comparison.curves import curve
from tf_fedsam.comparison.values import number
from tf_fedsam.errors import unknown
from tf_fedsam.report.measures import X_AXES, measure
from tf_fedsam.report.sections import Section, section_title

COLUMNS = 2
WIDTH, HEIGHT = 5.6, 3.8  # inches of one problem
LEGEND_LINE = 0.19  # inches
MOST_INSIDE, LONGEST_INSIDE = 6, 30  # lines of a legend between the curves, and letters of a line
TITLE_LETTERS = 60


def plot(sections: Sequence[Section], titles: Mapping[str, str], metric: str, over: str) -> Any:
    """Means over seeds with bands of one standard deviation, the axes of each problem apart.

    Args:
        sections: the problems and the styles of their series.
        titles: what data sets are called.
        metric: a number of the log.
        over: ``round`` or a cost.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if over not in X_AXES:
        raise unknown("x axis", over, X_AXES)
    _check_known(metric, [run for section in sections for run in section.group.runs])
    rows = [sections[start : start + COLUMNS] for start in range(0, len(sections), COLUMNS)]
    height = sum(HEIGHT + LEGEND_LINE * max(map(_lines_below, row)) for row in rows)
    columns = len(rows[0])
    with mpl.rc_context({"text.parse_math": False}):  # a label may have a dollar sign in it
        figure = Figure(figsize=(WIDTH * columns, height), layout="constrained")
        places = list(figure.subplots(len(rows), columns, squeeze=False).flat)
        for axes, section in zip(places, sections, strict=False):
            _draw(axes, section, metric, over)
            if len(sections) > 1:
                title = textwrap.fill(section_title(section, titles), TITLE_LETTERS)
                axes.set_title(title, fontsize="small")
        for axes in places[len(sections) :]:
            axes.remove()
    return figure


def _lines_below(section: Section) -> int:
    """Lines of the legend, if it has to be below the axes."""
    labels = list(section.styles)
    inside = len(labels) <= MOST_INSIDE and max(map(len, labels)) <= LONGEST_INSIDE
    return 0 if inside else len(labels)


def _check_known(metric: str, runs: Sequence[ComparedRun]) -> None:
    names = {
        name for run in runs for name, value in run.last_probe.items() if number(value) is not None
    }
    if metric not in names:
        raise unknown("number of the log", metric, names)


def _draw(axes: Any, section: Section, metric: str, over: str) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    _, xlabel, unit = X_AXES[over]
    shown = measure(metric)
    for series in section.drawn:
        found = curve(series.runs, metric, over)
        if found is None:
            continue
        x = found.x / unit
        look = looks.line(section.styles[series.label], len(x))
        if found.std is not None:
            low, high = found.mean - found.std, found.mean + found.std
            axes.fill_between(x, low, high, color=look["color"], alpha=0.18, linewidth=0)
        axes.plot(
            *(x, found.mean),
            **look,
            # Matplotlib leaves out what begins with an underscore.
            label=f" {series.label}" if series.label.startswith("_") else series.label,
        )
    axes.set(xlabel=xlabel, ylabel=shown.title)
    if over == "round":
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    if shown.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if shown.log and all((line.get_ydata() > 0).all() for line in axes.lines):
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    if axes.lines:
        below = {"loc": "upper left", "bbox_to_anchor": (0, -0.15), "frameon": False}
        axes.legend(fontsize="small", **(below if _lines_below(section) else {"framealpha": 0.6}))
