"""Drawings for a page, as SVG to be put into it.

Colours are variables of the page's style (``--s0``, ``--s1``, ... for series, ``--grid``) and its
text colour, so that a drawing fits a light and a dark page and a series has one colour everywhere.
Words are text in the page's font. No text of a user is drawn: a ``$`` would be mathematics, and a
letter that matplotlib has not a box; names of classes are put in where marks were drawn.
"""

import dataclasses
import hashlib
import html
import io
import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tf_fedsam import looks
from tf_fedsam.analysis.landscape.pictures import Scale
from tf_fedsam.comparison.curves import Curve

MOST_POINTS = 300
WIDTH, HEIGHT = 440, 270  # of a chart in units that are about a pixel
MOST_NAMES, LONGEST_NAME = 24, 14  # of classes along an axis, and their letters
NAME_SIZE, NAME_WIDTH = 9, 5.4  # of its letters
_INK, _GRID, _SERIES = "#ab00fe", "#ab00fd", "#ab00{:02x}"
# The markers of matplotlib around the origin, for a swatch.
_MARKER_PATHS = {
    "o": "M-3.6 0A3.6 3.6 0 1 0 3.6 0A3.6 3.6 0 1 0 -3.6 0Z",
    "s": "M-3.2-3.2H3.2V3.2H-3.2Z",
    "^": "M0-4L4 3.4H-4Z",
    "v": "M0 4L4-3.4H-4Z",
    "D": "M0-4.4L4.4 0L0 4.4L-4.4 0Z",
    "P": "M-1.4-4H1.4V-1.4H4V1.4H1.4V4H-1.4V1.4H-4V-1.4H-1.4Z",
    "X": "M-4-2L-2-4L0-2L2-4L4-2L2 0L4 2L2 4L0 2L-2 4L-4 2L-2 0Z",
    "*": "M0-4.8L1.1-1.5H4.6L1.8.6L2.8 3.9L0 1.9L-2.8 3.9L-1.8.6L-4.6-1.5H-1.1Z",
}
_POINTS = 72  # matplotlib's units are points; one is made one unit of the drawing


@dataclasses.dataclass(frozen=True)
class Line:
    """A curve and the style it has in all charts."""

    curve: Curve
    style: int


def colour(style: int) -> str:
    """The colour of a style, for CSS."""
    return f"var(--s{looks.colour(style)})"


def dashes(style: int) -> str:
    """The dashes of a style, for ``stroke-dasharray``; empty is a solid line."""
    return " ".join(f"{length:g}" for length in looks.dashes(style))


def marker_path(style: int) -> str:
    """The outline of a style's marker around the origin, for the ``d`` of a path."""
    return _MARKER_PATHS[looks.marker(style)]


def lines(
    drawn: Sequence[Line],
    *,
    alt: str,
    xlabel: str,
    percent: bool = False,
    log: bool = False,
    from_zero: bool = True,
    reach: tuple[float, float] | None = None,
) -> str:
    """Curves with bands of one standard deviation.

    Args:
        drawn: later ones on top.
        alt: what the chart shows, for those who do not see it.
        xlabel: words at the x axis; what y is stands above the chart.
        percent: y is a share, written in percent.
        log: logarithmic y axis, if all values are above zero.
        from_zero: x is a number of something, which begins at zero.
        reach: of the y axis; as the curves need it by default.
    """
    log = log and all((line.curve.mean > 0).all() for line in drawn)

    def draw(axes: Any) -> None:
        for line in drawn:
            kept = thinned(line.curve.mean)
            x, mean = line.curve.x[kept], line.curve.mean[kept]
            own = _SERIES.format(looks.colour(line.style))
            if line.curve.std is not None:
                low, high = mean - line.curve.std[kept], mean + line.curve.std[kept]
                if log:
                    low = np.maximum(low, mean / 10)  # a band below zero has no logarithm
                axes.fill_between(x, low, high, color=own, alpha=0.18, linewidth=0)
            look = {**looks.line(line.style, len(x), size=4.5), "color": own}
            axes.plot(x, mean, linewidth=1.7, markeredgewidth=0, **look)
        curves = [line.curve for line in drawn]
        format_axes(axes, curves, percent=percent, log=log, from_zero=from_zero)
        if reach is not None:
            axes.set_ylim(*reach)
        axes.set_xlabel(xlabel)
        axes.grid(True, color=_GRID, linewidth=0.7)

    return _svg(draw, alt)


def histogram(shares: np.ndarray, style: int, *, alt: str, mark: float | None = None) -> str:
    """Shares of the clients in equal parts of [0, 1], and a mark at some accuracy."""

    def draw(axes: Any) -> None:
        edges = np.linspace(0, 1, len(shares) + 1)
        own = _SERIES.format(looks.colour(style))
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
    xnames: Sequence[str] = (),
    ynames: Sequence[str] = (),
) -> str:
    """A matrix in colours, rows from top to bottom, with a scale.

    Args:
        values: the matrix.
        alt: what it shows.
        xlabel, ylabel: words at the axes.
        square: its cells are.
        shares: values are shares, whose small ones are told apart too.
        xnames, ynames: of the columns and the rows, which else are numbers.
    """
    names = {"x": _shown(xnames), "y": _shown(ynames)}

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
            shown = names[axis.axis_name]
            if not shown:
                axis.set_major_locator(MaxNLocator(6, integer=True))
                continue
            marks = [_mark(axis.axis_name, place, name) for place, name in shown.items()]
            upright = 90 if axis is axes.xaxis and max(map(len, shown.values())) > 2 else 0
            axis.set_ticks(list(shown), labels=marks, fontsize=NAME_SIZE, rotation=upright)
        bar = axes.figure.colorbar(image, ax=axes, fraction=0.05, pad=0.03)
        bar.outline.set_visible(False)
        bar.ax.tick_params(colors=_INK, length=3)
        bar.ax.yaxis.set_major_locator(
            FixedLocator([0, 0.05, 0.2, 0.5, 1]) if shares else MaxNLocator(5)
        )
        if shares:
            bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g} %"))

    below, left = (
        round(NAME_WIDTH * max(0, max(map(len, shown.values()), default=0) - 2))
        for shown in names.values()
    )
    width, height = (340, 270) if square else (WIDTH, HEIGHT)
    if square:  # the room for names is not taken from the matrix
        width, height = width + left, height + below
    svg = _svg(draw, alt, width, height, margins=(44 + left, 46, 10, 38 + below))
    return re.sub(r">([xy])@(\d+)_*<", lambda m: f">{html.escape(names[m[1]][int(m[2])])}<", svg)


def _shown(names: Sequence[str]) -> dict[int, str]:
    """The names along an axis by their places; of very many, some."""
    every = math.ceil(len(names) / MOST_NAMES) or 1
    return {
        place: name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}\u2026"
        for place, name in enumerate(names)
        if place % every == 0
    }


def _mark(axis: str, place: int, name: str) -> str:
    """What is drawn in the place of a name, as long as it."""
    return f"{axis}@{place}".ljust(len(name), "_")


def contour(loss: np.ndarray, axis: Sequence[float], scale: Scale, *, alt: str) -> str:
    """A loss surface from above, on a scale that others share."""

    def draw(axes: Any) -> None:
        from matplotlib.colors import LogNorm

        norm, clipped = LogNorm(scale.low, scale.high), scale.clip(loss)
        levels = np.geomspace(scale.low, scale.high, 30)
        filled = axes.contourf(axis, axis, clipped, levels, norm=norm, cmap="viridis")
        filled.set_rasterized(True)  # thousands of corners are no gain
        rings = [level for level in scale.nice() if clipped.min() < level < clipped.max()]
        if rings:
            inks = ["#ffffff" if norm(level) < 0.65 else "#222222" for level in rings]
            axes.contour(axis, axis, clipped, rings, colors=inks, linewidths=0.7)
        axes.plot(0, 0, marker="+", color="#ffffff", markersize=9, markeredgewidth=1.6)
        axes.set_aspect("equal")
        axes.set_xticks([axis[0], 0, axis[-1]])
        axes.set_yticks([axis[0], 0, axis[-1]])

    return _svg(draw, alt, 270, 250, margins=(34, 6, 6, 22))


def scale_bar(scale: Scale) -> str:
    """The colours of losses, for surfaces that share them."""

    def draw(axes: Any) -> None:
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

        ramp = np.geomspace(scale.low, scale.high, 64)
        axes.pcolormesh(ramp, [0, 1], [np.linspace(0, 1, 63)], cmap="viridis", rasterized=True)
        axes.set_xscale("log")
        axes.set_xlim(scale.low, scale.high)
        axes.xaxis.set_major_locator(FixedLocator(scale.nice()[::2] or [scale.low, scale.high]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.yaxis.set_visible(False)
        axes.set_xlabel("mean cross-entropy, log scale")

    alt = f"Colours of losses from {scale.low:.3g} to {scale.high:.3g}."
    return _svg(draw, alt, 380, 62, margins=(10, 10, 4, 40))


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


def format_axes(
    axes: Any, curves: Sequence[Curve], *, percent: bool, log: bool, from_zero: bool = True
) -> None:
    """Ranges, ticks and their words, for axes that these curves are drawn on.

    Args:
        axes: of matplotlib.
        curves: that are drawn.
        percent: y is a share, written in percent.
        log: logarithmic y axis.
        from_zero: x is a number of something, which begins at zero.
    """
    from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

    if log:
        axes.set_yscale("log")
    axes.margins(x=0.02)
    _widen(axes, curves, log=log)
    if from_zero:
        axes.set_xlim(left=0)
        whole = all((curve.x == np.floor(curve.x)).all() for curve in curves)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=whole))
        thousands = EngFormatter(sep="")
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda x, _: thousands(x) if x >= 1000 else f"{x:g}")
        )
    if percent:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g} %"))
    elif log:
        _log_ticks(axes)


def _widen(axes: Any, curves: Sequence[Curve], *, log: bool) -> None:
    """Shows what is constant but for its last digits as constant."""
    low, high = (f([f(curve.mean) for curve in curves]) for f in (min, max))
    middle, least = (low + high) / 2, 1e-3 * max(abs(low), abs(high))
    if high - low < least:
        reach = (middle / 1.5, middle * 1.5) if log else (middle - 50 * least, middle + 50 * least)
        axes.set_ylim(*reach)


def _log_ticks(axes: Any) -> None:
    """Ticks of a logarithmic axis: at powers of ten if there are several, and never one alone."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator

    low, high = axes.get_ylim()
    for subs in ((1,), (1, 2, 5), tuple(range(1, 10))):
        found = LogLocator(subs=subs).tick_values(low, high)
        inside = [tick for tick in found if low <= tick <= high]
        if len(inside) >= (3 if subs == (1,) else 2):
            break
    else:
        inside = [t for t in MaxNLocator(4).tick_values(low, high) if low <= t <= high]
    axes.yaxis.set_major_locator(FixedLocator(inside))
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
        figure.savefig(file, format="svg", metadata={"Date": None}, dpi=2 * _POINTS)
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
    for index in range(len(looks.COLOURS)):
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
