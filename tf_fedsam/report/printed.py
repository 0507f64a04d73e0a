"""Figures for papers, in one style and of a column's width, each with its data as CSV.

    tf_fedsam.compare("runs").figures("figures", formats=("pdf", "png"))

Fonts come with matplotlib and are put into the files, so a figure looks the same everywhere. There
is no title in a figure: that is what its caption is for.
"""

import csv
import io
import math
import os
import pathlib
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_fedsam import checks, looks, paths
from tf_fedsam.analysis.landscape import pictures
from tf_fedsam.comparison import clients
from tf_fedsam.comparison.curves import curve
from tf_fedsam.errors import InputError
from tf_fedsam.report import drawing
from tf_fedsam.report.curves import distinct, joint_title
from tf_fedsam.report.exports import harmless
from tf_fedsam.report.measures import ACCURACY, CHARTS, CLIENTS_EXAMPLES, X_AXES, Measure
from tf_fedsam.report.sections import Section, section_title
from tf_fedsam.report.surfaces import Drawn
from tf_fedsam.state.files import write_atomically

FORMATS = ("pdf", "svg", "png")
WIDTHS = {"one": 3.35, "two": 6.9}  # inches of one and of two columns
STYLES = {
    "serif": ["STIXGeneral", "DejaVu Serif"],  # as Times; the second has more letters
    "sans": ["DejaVu Sans"],
}
_DPI = 300
_LETTERS = 15  # of a legend, to an inch
_LINE = 0.155  # inches of a line of a legend


class Printed(NamedTuple):
    """A figure with its data.

    Attributes:
        name: of its files.
        figure: matplotlib's.
        table: its data as CSV.
    """

    name: str
    figure: Any
    table: str


def write(
    sections: Sequence[Section],
    folder: str | os.PathLike,
    *,
    formats: Sequence[str],
    style: str,
    width: str,
    surfaces: Sequence[Drawn] = (),
) -> list[pathlib.Path]:
    """Writes every figure there are numbers for, and gives the files.

    Args:
        sections: a problem each; files of several begin with ``problem1_``, ``problem2_``, ...
        folder: is made.
        formats: of ``pdf``, ``svg`` and ``png``.
        style: ``serif`` or ``sans``.
        width: ``one`` column or ``two``.
        surfaces: loss surfaces, drawn again in the same style.
    """
    import matplotlib as mpl

    check(formats, style, width)
    where = paths.expanded(folder)
    files: list[pathlib.Path] = []
    look: Any = _look(style)
    try:
        where.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(look):
            for printed in _all_figures(sections, surfaces, WIDTHS[width]):
                contents = {kind: _saved(printed.figure, kind) for kind in dict.fromkeys(formats)}
                contents["csv"] = printed.table.encode("utf-8", "replace")
                for kind, content in contents.items():
                    files.append(where / f"{printed.name}.{kind}")
                    write_atomically(files[-1], content)
    except OSError as error:
        raise InputError(
            f"figures={where} cannot be written ({error.strerror or error}). Expected: a folder. "
            f"Choose another place.",
            "figures",
        ) from None
    return files


def check(formats: Sequence[str], style: str, width: str) -> None:
    """Refuses what there is not."""
    wrong = [kind for kind in formats if kind not in FORMATS]
    if wrong or not formats:
        raise InputError(
            f"format must be some of {', '.join(FORMATS)}. Received: {', '.join(formats) or None}.",
            "format",
        )
    checks.choice("style", style, tuple(STYLES))
    checks.choice("width", width, tuple(WIDTHS))


def _look(style: str) -> dict[str, Any]:
    """Matplotlib's settings."""
    return {
        "font.family": STYLES[style],
        "font.size": 8,
        "axes.labelsize": 8,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "legend.fontsize": 7,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "lines.linewidth": 1.2,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.unicode_minus": False,
        "text.parse_math": False,  # a label may have a dollar sign in it
        "axes.formatter.use_mathtext": False,
        "pdf.fonttype": 42,  # outlines, which publishers ask for
        "svg.fonttype": "path",
        "svg.hashsalt": "tf_fedsam",  # the same file every time
        "savefig.dpi": _DPI,
    }


def _saved(figure: Any, kind: str) -> bytes:
    """The content of a file; the same figure gives the same bytes."""
    file = io.BytesIO()
    dates: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    figure.savefig(file, format=kind, metadata=dates.get(kind), dpi=_DPI)
    return file.getvalue()


def _all_figures(
    sections: Sequence[Section], surfaces: Sequence[Drawn], width: float
) -> Iterator[Printed]:
    for place, section in enumerate(sections, 1):
        prefix = f"problem{place}_" if len(sections) > 1 else ""
        for printed in _figures(section, width):
            yield printed._replace(name=prefix + printed.name)
    for place, drawn in enumerate(surfaces, 1):
        prefix = f"landscape{place}_" if len(surfaces) > 1 else ""
        for printed in _surfaces(drawn, width):
            yield printed._replace(name=prefix + printed.name)


def _figures(section: Section, width: float) -> Iterator[Printed]:
    """Accuracy over rounds and costs, every measure over rounds, and clients."""
    wanted = [(ACCURACY, ACCURACY.title, over) for over in X_AXES]
    for _, measures in CHARTS.values():
        for measure, twins in distinct(section, measures):
            wanted.append((measure, joint_title(measure, twins), "round"))
    for measure, title, over in wanted:
        found = _curves(section, measure, over, width, title)
        if found is not None:
            yield found
    for part in CLIENTS_EXAMPLES:
        found = _clients(section, part, width)
        if found is not None:
            yield found


def _curves(
    section: Section, measure: Measure, over: str, width: float, title: str
) -> Printed | None:
    """Means over seeds with bands of one standard deviation."""
    _, xlabel, unit = X_AXES[over]
    drawn = [(s, found) for s in section.drawn if (found := curve(s.runs, measure.name, over))]
    if not any(len(found.x) > 1 for _, found in drawn):
        return None
    labels = [series.label for series, _ in drawn]
    figure, axes = _empty(width, labels)
    log = measure.log and all((found.mean > 0).all() for _, found in drawn)
    rows: list[list[Any]] = []
    for series, found in drawn:
        x, mean = found.x / unit, found.mean
        look = looks.line(section.styles[series.label], len(x), size=3.5)
        if found.std is not None:
            low = mean - found.std
            low = np.maximum(low, mean / 10) if log else low  # a band below zero has no logarithm
            axes.fill_between(
                x, low, mean + found.std, color=look["color"], alpha=0.18, linewidth=0
            )
        axes.plot(x, mean, markeredgewidth=0, **look)
        std = [None] * len(x) if found.std is None else found.std.tolist()
        head = [section_title(section, {}), series.label, series.algo, len(series.runs)]
        rows += [[*head, *numbers] for numbers in zip(x.tolist(), mean.tolist(), std, strict=True)]
    drawing.format_axes(axes, [found for _, found in drawn], percent=measure.percent, log=log)
    ylabel = f"{title}{', log scale' if log else ''}"
    axes.set(xlabel=xlabel, ylabel=textwrap.fill(ylabel, int(_ratio(width) * width * _LETTERS)))
    axes.grid(color="#dddddd", linewidth=0.5)
    _legend(figure, axes, labels)
    name = measure.name if over == "round" else f"{measure.name}_by_{over}"
    header = ("problem", "series", "algorithm", "seeds", xlabel, "mean", "std")
    return Printed(name, figure, _table(header, rows))


def _clients(section: Section, part: str, width: float) -> Printed | None:
    """How many clients have which accuracy, a panel each series."""
    found = [
        (series, told)
        for series in section.drawn
        if (told := clients.clients(series.runs, part)) is not None and told.histogram is not None
    ]
    if not found:
        return None
    columns = min(len(found), 2 if width < 5 else 4)
    lines = math.ceil(len(found) / columns)
    figure = _figure(width, lines * 1.15 + 0.2)
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    places, rows = list(grid.flat), list[list[Any]]()
    for axes, (series, told) in zip(places, found, strict=False):
        assert told.histogram is not None
        edges = np.linspace(0, 1, len(told.histogram) + 1)
        own = looks.line(section.styles[series.label])["color"]
        axes.stairs(told.histogram, edges, fill=True, color=own, alpha=0.45, linewidth=0)
        axes.stairs(told.histogram, edges, color=own, linewidth=0.9)
        axes.axvline(told.mean, color="#333333", linewidth=0.8)
        if told.worst_decile is not None:
            axes.axvline(told.worst_decile, color="#333333", linewidth=0.8, linestyle=(0, (3, 2)))
        axes.set_title(series.label, fontsize=7)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.5, 1], ["0", "50", "100 %"])
        axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:g} %")
        head = [section_title(section, {}), series.label, series.algo, len(series.runs)]
        bins = zip(edges[:-1].tolist(), edges[1:].tolist(), told.histogram.tolist(), strict=True)
        rows += [[*head, *numbers] for numbers in bins]
    for axes in places[len(found) :]:
        axes.remove()
    figure.supxlabel(f"accuracy on {CLIENTS_EXAMPLES[part]}", fontsize=8)
    figure.supylabel("clients", fontsize=8)
    header = ("problem", "series", "algorithm", "seeds", "from", "to", "share of clients")
    return Printed(f"clients_{part}", figure, _table(header, rows))


def _surfaces(drawn: Drawn, width: float) -> Iterator[Printed]:
    """Contours, 3-D views and lines of a folder of loss surfaces."""
    if drawn.panels:
        scale = drawn.scale([panel.loss for panel in drawn.panels])
        for name, make in (("contour", pictures.contours), ("surface", pictures.surfaces)):
            figure = make(drawn.panels, drawn.axis, scale, width)
            yield Printed(name, figure, drawn.tables["surface_2d"])
    if drawn.lines:
        scale = drawn.scale([c.loss for c in drawn.lines])
        along = "distance in filter norms"
        figure = pictures.lines(drawn.lines, scale, "", along, width=width)
        yield Printed("line", figure, drawn.tables["line_1d"])
    if drawn.between:
        scale = drawn.scale([c.loss for c in drawn.between])
        marks = ((0.0, "first"), (1.0, "second"))
        along = "share of the way between two runs"
        figure = pictures.lines(drawn.between, scale, "", along, marks, width)
        yield Printed("between", figure, drawn.tables["between"])


def _empty(width: float, labels: Sequence[str]) -> tuple[Any, Any]:
    """A figure with axes and room for a legend below."""
    lines = math.ceil(len(labels) / _columns(width, labels))
    figure = _figure(width, _ratio(width) * width + _LINE * lines)
    return figure, figure.subplots()


def _ratio(width: float) -> float:
    """Height of axes over the width of their figure."""
    return 0.66 if width < 5 else 0.42


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _columns(width: float, labels: Sequence[str]) -> int:
    """Entries of a legend side by side."""
    longest = max(map(len, labels))
    return max(1, min(len(labels), int(width * _LETTERS) // (longest + 6)))


def _legend(figure: Any, axes: Any, labels: Sequence[str]) -> None:
    """Below the axes, where it hides nothing."""
    figure.legend(
        axes.lines,
        labels,
        loc="outside lower center",
        ncols=_columns(figure.get_figwidth(), labels),
        frameon=False,
        handlelength=2.6,
        columnspacing=1.2,
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([harmless(value) for value in row] for row in rows)
    return file.getvalue()
