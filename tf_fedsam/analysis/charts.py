"""Drawings for a page, as SVG to be put into it.

Colours are variables of the page's style (``--s0``, ``--s1``, ... for series, ``--grid``) and its
text colour, so that a drawing fits a light and a dark page and a series has one colour everywhere.
Words are text in the page's font. No text of a user is drawn: a ``$`` would be mathematics.
"""

import dataclasses
import hashlib
import html
import io
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tf_fedsam.analysis.compare import Curve

NUM_COLOURS = 8
DASHES = ("", "6 2.5", "1.5 2", "7 2 1.5 2")  # a colour's first, second, ... series
NUM_STYLES = NUM_COLOURS * len(DASHES)
MOST_POINTS = 300
WIDTH, HEIGHT = 440, 270  # of a chart in units that are about a pixel
_INK, _GRID, _SERIES = "#ab00fe", "#ab00fd", "#ab00{:02x}"
_POINTS = 72  # matplotlib's units are points; one is made one unit of the drawing


@dataclasses.dataclass(frozen=True)
class Line:
    """A curve and the style it has in all charts, from 0 to NUM_STYLES."""

    curve: Curve
    style: int


def colour(style: int) -> str:
    """The colour of a style, for CSS."""
    return f"var(--s{style % NUM_COLOURS})"


def dashes(style: int) -> str:
    """The dashes of a style, for ``stroke-dasharray``; empty is a solid line."""
    return DASHES[style // NUM_COLOURS % len(DASHES)]


def lines(
    drawn: Sequence[Line],
    *,
    alt: str,
    xlabel: str,
    percent: bool = False,
    log: bool = False,
) -> str:
    """Curves with bands of one standard deviation.

    Args:
        drawn: later ones on top.
        alt: what the chart shows, for those who do not see it.
        xlabel: words at the x axis; what y is stands above the chart.
        percent: y is a share, written in percent.
        log: logarithmic y axis, if all values are above zero.
    """
    log = log and all((line.curve.mean > 0).all() for line in drawn)

    def draw(axes: Any) -> None:
        for line in drawn:
            kept = thinned(line.curve.mean)
            x, mean = line.curve.x[kept], line.curve.mean[kept]
            own = _SERIES.format(line.style % NUM_COLOURS)
            if line.curve.std is not None:
                low, high = mean - line.curve.std[kept], mean + line.curve.std[kept]
                if log:
                    low = np.maximum(low, mean / 10)  # a band below zero has no logarithm
                axes.fill_between(x, low, high, color=own, alpha=0.18, linewidth=0)
            dash = [float(d) for d in dashes(line.style).split()]
            # A curve of a single point is a dot: nobody sees a line without length.
            axes.plot(
                *(x, mean),
                color=own,
                linewidth=1.7,
                linestyle=(0, dash) if dash else "solid",
                marker="o" if len(x) < 8 else "",
                markersize=3.5,
            )
        if log:
            axes.set_yscale("log")
        whole = all((line.curve.x == np.floor(line.curve.x)).all() for line in drawn)
        _axis_formats(axes, whole=whole, percent=percent, log=log)
        axes.set_xlabel(xlabel)
        axes.margins(x=0.02)
        axes.set_xlim(left=0)
        _widen(axes, drawn, log=log)
        axes.grid(True, color=_GRID, linewidth=0.7)

    return _svg(draw, alt)


def histogram(shares: np.ndarray, style: int, *, alt: str, mark: float | None = None) -> str:
    """Shares of the clients in equal parts of [0, 1], and a mark at some accuracy."""

    def draw(axes: Any) -> None:
        edges = np.linspace(0, 1, len(shares) + 1)
        own = _SERIES.format(style % NUM_COLOURS)
        axes.stairs(shares, edges, fill=True, color=own, alpha=0.45, linewidth=0)
        axes.stairs(shares, edges, color=own, linewidth=1.4)
        if mark is not None:
            axes.axvline(mark, color=_INK, linewidth=1.2, linestyle=(0, (3, 2)))
        axes.set(xlim=(0, 1), ylim=(0, max(1e-9, float(shares.max())) * 1.08))
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
        axes.yaxis.set_visible(False)
        axes.spines["left"].set_visible(False)

    return _svg(draw, alt, width=270, height=100, margins=(10, 20, 6, 22))


def heat_map(
    values: np.ndarray,
    *,
    alt: str,
    xlabel: str,
    ylabel: str,
    square: bool = False,
    shares: bool = False,
) -> str:
    """A matrix in colours, rows from top to bottom, with a scale.

    Args:
        values: the matrix.
        alt: what it shows.
        xlabel, ylabel: words at the axes.
        square: its cells are.
        shares: values are shares, whose small ones are told apart too.
    """

    def draw(axes: Any) -> None:
        from matplotlib.colors import PowerNorm
        from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

        image = axes.imshow(
            values,
            aspect="equal" if square else "auto",
            interpolation="none",
            cmap="viridis",
            norm=PowerNorm(0.5, 0, 1) if shares else None,
        )
        axes.set(xlabel=xlabel, ylabel=ylabel)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(6, integer=True))
        bar = axes.figure.colorbar(image, ax=axes, fraction=0.05, pad=0.03)
        bar.outline.set_visible(False)
        bar.ax.tick_params(colors=_INK, length=3)
        bar.ax.yaxis.set_major_locator(
            FixedLocator([0, 0.05, 0.2, 0.5, 1]) if shares else MaxNLocator(5)
        )
        if shares:
            bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g} %"))

    size = (340, 270) if square else (WIDTH, HEIGHT)
    return _svg(draw, alt, *size, margins=(44, 46, 10, 38))


def thinned(values: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """Positions of the points worth drawing: the extremes of equal parts, and both ends."""
    if len(values) <= most:
        return np.arange(len(values))
    bounds = np.linspace(0, len(values), most // 2).astype(int)
    kept = {0, len(values) - 1}
    for start, stop in itertools.pairwise(bounds):
        part = values[start:stop]
        kept |= {start + int(np.argmin(part)), start + int(np.argmax(part))}
    return np.asarray(sorted(kept))


def _widen(axes: Any, drawn: Sequence[Line], *, log: bool) -> None:
    """Shows what is constant but for its last digits as constant."""
    low, high = (f([f(line.curve.mean) for line in drawn]) for f in (min, max))
    middle, least = (low + high) / 2, 1e-3 * max(abs(low), abs(high))
    if not log and high - low < least:
        axes.set_ylim(middle - 50 * least, middle + 50 * least)


def _axis_formats(axes: Any, *, whole: bool, percent: bool, log: bool) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=whole))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if percent:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g} %"))
    elif log:
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda y, _: ""))


def _svg(
    draw: Callable[[Any], None],
    alt: str,
    width: int = WIDTH,
    height: int = HEIGHT,
    margins: tuple[int, int, int, int] = (50, 10, 8, 38),
) -> str:
    """One drawing of one pair of axes; margins are left, right, top and bottom."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    left, right, top, bottom = margins
    style: Any = {
        "svg.fonttype": "none",
        # Names within a drawing are its own, and the same every time.
        "svg.hashsalt": hashlib.sha256(alt.encode("utf-8", "replace")).hexdigest(),
        "font.size": 11,
        "text.parse_math": False,
        "axes.formatter.use_mathtext": False,
        **{f"{part}.color": _INK for part in ("text", "xtick", "ytick")},
        "axes.labelcolor": _INK,
        "axes.edgecolor": _INK,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(width / _POINTS, height / _POINTS), facecolor="none")
        FigureCanvasSVG(figure)
        axes = figure.add_axes(
            (
                left / width,
                bottom / height,
                1 - (left + right) / width,
                1 - (top + bottom) / height,
            ),
            facecolor="none",
        )
        draw(axes)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return _fitted(file.getvalue(), alt, width, height)


def _fitted(svg: str, alt: str, width: int, height: int) -> str:
    """Matplotlib's file as a small part of a page: its colours, its font, no names that clash."""
    svg = svg[svg.index("<svg") :]
    for noise in ("<metadata>.*?</metadata>", "<style.*?</style>", "<!--.*?-->"):
        svg = re.sub(noise, "", svg, flags=re.DOTALL)
    svg = svg.replace("xlink:href", "href")
    used = {a or b for a, b in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)}
    svg = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", svg)
    svg = svg.replace(_INK, "currentColor").replace(_GRID, "var(--grid)")
    for index in range(NUM_COLOURS):
        svg = svg.replace(_SERIES.format(index), f"var(--s{index})")
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    svg = re.sub(r" font-family: [^;\"]*;", "", svg)
    # A tenth of a unit is less than a pixel.
    shorter = lambda m: re.sub(r"(\.\d)\d+", r"\1", m[0]).replace("\n", " ")  # noqa: E731
    svg = re.sub(r' (?:d|x|y)="[^"]*"', shorter, svg)
    head = f'<svg class="chart" role="img" aria-label="{html.escape(alt)}" '
    head += f'viewBox="0 0 {width} {height}">'
    svg = re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)
    return re.sub(r"\s*\n\s*", "\n", svg).strip()
