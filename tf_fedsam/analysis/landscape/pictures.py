"""Pictures of loss surfaces: contours and 3-D views side by side on one scale, and lines.

Losses are clipped where guessing would be far better, and coloured on a logarithmic scale, so that
corners in which the loss explodes do not hide the valley. The colour map (viridis) can be read with
any colour vision; lines look as their methods do everywhere.
"""

import dataclasses
import io
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_fedsam import looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOUR_MAP = "viridis"
WORSE_THAN_GUESSING = 3.0  # times the loss of guessing, where the scale ends
_NICE = (1, 1.5, 2, 3, 5, 7)
_NICE_AND_CLOSE = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
_FILLED_LEVELS = 40
_DPI = 120
_LEGEND_LETTERS = 13  # to an inch
_NARROWEST = 1.6  # inches of a panel in print
_STACKED = 5.0  # inches of width, below which two plots are one above the other


@dataclasses.dataclass(frozen=True)
class _Type:
    """Sizes of words in points, and letters of a line of a title."""

    title: float
    label: float
    tick: float
    note: float
    letters: int


_ON_SCREEN = _Type(10, 8, 7.5, 7.5, 30)
_IN_PRINT = _Type(8, 7, 6, 5.5, 22)


@dataclasses.dataclass(frozen=True)
class Scale:
    """The range of losses that all panels share.

    Attributes:
        low, high: its ends; losses outside are drawn as these.
        clipped: whether some are above.
    """

    low: float
    high: float
    clipped: bool

    @classmethod
    def of(cls, losses: Iterable[np.ndarray], num_classes: int) -> "Scale":
        every = np.concatenate([np.ravel(a) for a in losses])
        finite = every[np.isfinite(every)]
        if not finite.size:
            return cls(0.1, 1.0, True)
        least, most = float(finite.min()), float(finite.max())
        high = min(most, max(WORSE_THAN_GUESSING * math.log(num_classes), 2 * least))
        high = max(high, 1e-6)
        low = min(max(least, 1e-3 * high), high / 1.05)  # a constant loss still gets a range
        return cls(low, high, bool(most > high or finite.size < every.size))

    def clip(self, loss: np.ndarray) -> np.ndarray:
        return np.clip(np.nan_to_num(loss, nan=np.inf), self.low, self.high)

    def nice(self) -> list[float]:
        """Round numbers in the range, about six to twelve."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = _NICE if self.high > 12 * self.low else _NICE_AND_CLOSE
        found = [n * 10.0**p for p in powers for n in steps if self.low < n * 10.0**p < self.high]
        if len(found) < 4:
            return [float(f"{v:.3g}") for v in np.geomspace(self.low, self.high, 8)[1:-1]]
        return found[:: math.ceil(len(found) / 12)]


@dataclasses.dataclass(frozen=True)
class Panel:
    """One run's surface.

    Attributes:
        title: the run's label.
        note: a line of numbers below it.
        loss: [grid, grid], rows from the lowest y.
    """

    title: str
    note: str
    loss: np.ndarray


@dataclasses.dataclass(frozen=True)
class Curve:
    """Loss and accuracy along a line.

    Attributes:
        label: what it is called.
        at: places along it.
        loss, accuracy: there.
        method: whose colour it has.
    """

    label: str
    at: Sequence[float]
    loss: np.ndarray
    accuracy: np.ndarray
    method: str = ""


def contours(
    panels: Sequence[Panel], axis: Sequence[float], scale: Scale, width: float | None = None
) -> "Figure":
    """A contour plot for each run, with the same levels and colours.

    Args:
        panels: what to draw.
        axis: places along both axes.
        scale: of the losses.
        width: of the figure in inches, for print; by default what a screen has room for.
    """
    from matplotlib import patheffects
    from matplotlib.colors import LogNorm

    figure, places, columns = _figure(len(panels), 3.3, 3.55, width)
    type_ = _ON_SCREEN if width is None else _IN_PRINT
    norm = LogNorm(scale.low, scale.high)
    levels = np.geomspace(scale.low, scale.high, _FILLED_LEVELS)
    lines = scale.nice()
    axes: list[Any] = []
    filled: Any = None
    for number, (panel, place) in enumerate(zip(panels, places, strict=True)):
        ax = figure.add_subplot(place)
        loss = scale.clip(panel.loss)
        filled = ax.contourf(axis, axis, loss, levels, norm=norm, cmap=COLOUR_MAP)
        drawn = [v for v in lines if loss.min() < v < loss.max()]
        if drawn:
            inks = ["white" if norm(v) < 0.65 else "#222222" for v in drawn]
            rings = ax.contour(axis, axis, loss, drawn, colors=inks, linewidths=0.8)
            halo: list[Any] = [patheffects.withStroke(linewidth=2, foreground="white")]
            for text in ax.clabel(rings, fmt="%g", fontsize=type_.tick, colors="black"):
                text.set_path_effects(halo)
        ax.plot(0, 0, marker="+", color="white", markersize=9, markeredgewidth=1.6)
        title = _title(panel.title, type_.letters)
        ax.set_title(title, fontsize=type_.title, fontweight="bold", pad=1.8 * type_.title)
        ax.text(0.5, 1.025, panel.note, transform=ax.transAxes, ha="center", fontsize=type_.note)
        ax.set_aspect("equal")
        ax.set_xticks(_five(axis))
        ax.set_yticks(_five(axis))
        ax.tick_params(labelsize=type_.tick)
        if number >= len(panels) - columns:
            ax.set_xlabel("direction 1, in filter norms", fontsize=type_.label)
        if number % columns == 0:
            ax.set_ylabel("direction 2", fontsize=type_.label)
        axes.append(ax)
    bar = figure.colorbar(filled, ax=axes, shrink=0.85, pad=0.02, aspect=30, format="%g")
    _bar_ticks(bar, scale, type_)
    return figure


def surfaces(
    panels: Sequence[Panel], axis: Sequence[float], scale: Scale, width: float | None = None
) -> "Figure":
    """A 3-D view of each run's surface, with the same axes and from the same side.

    Args:
        panels, axis, scale, width: as for :func:`contours`.
    """
    from matplotlib import colormaps, rc_context
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    figure, places, _ = _figure(len(panels), 3.9, 3.7, width)
    type_ = _ON_SCREEN if width is None else _IN_PRINT
    norm = LogNorm(scale.low, scale.high)
    x, y = np.meshgrid(axis, axis)
    axes = []
    for panel, place in zip(panels, places, strict=True):
        with rc_context({"grid.color": "#d8d8d8", "grid.linewidth": 0.6}):
            ax: Any = figure.add_subplot(place, projection="3d")
        loss = scale.clip(panel.loss)
        ax.plot_surface(
            *(x, y, loss),
            facecolors=colormaps[COLOUR_MAP](norm(_quad_means(loss))),
            rstride=1,
            cstride=1,
            edgecolor=(0, 0, 0, 0.25),
            linewidth=0.2,
            antialiased=True,
            shade=False,
        )
        ax.set_zlim(0, scale.high)
        ax.view_init(elev=26, azim=-58)
        ax.set_box_aspect((1, 1, 0.8), zoom=0.9 if width is None else 0.8)
        ticks = _five(axis) if width is None else [axis[0], 0.0, axis[-1]]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        if width is not None:
            ax.zaxis.set_major_locator(MaxNLocator(3))
        ax.tick_params(labelsize=type_.tick - 0.5, pad=-1 if width is None else -4)
        ax.set_xlabel("direction 1", fontsize=type_.label, labelpad=-3 if width is None else -9)
        ax.set_ylabel("direction 2", fontsize=type_.label, labelpad=-3 if width is None else -9)
        for side in (ax.xaxis, ax.yaxis, ax.zaxis):
            side.set_pane_color((0.97, 0.97, 0.97, 1))
        title = _title(panel.title, type_.letters)
        ax.set_title(title, fontsize=type_.title, fontweight="bold", y=1.0)
        axes.append(ax)
    mapped = ScalarMappable(norm, colormaps[COLOUR_MAP])
    bar = figure.colorbar(mapped, ax=axes, shrink=0.75, pad=0.04, aspect=30, format="%g")
    _bar_ticks(bar, scale, type_)
    return figure


def lines(
    curves: Sequence[Curve],
    scale: Scale,
    title: str,
    along: str,
    marks: Sequence[tuple[float, str]] = (),
    width: float | None = None,
) -> "Figure":
    """Loss and accuracy along lines, all runs in one plot.

    Args:
        curves: what to draw.
        scale: of the losses.
        title: above the plot.
        along: what the horizontal axis is.
        marks: places on the horizontal axis to mark, each with a word.
        width: of the figure in inches, for print; by default what a screen has room for.
    """
    wide = 10.0 if width is None else width
    type_ = _ON_SCREEN if width is None else _IN_PRINT
    longest = max(len(curve.label) for curve in curves)
    columns = max(1, min(4, len(curves), int(wide * _LEGEND_LETTERS) // (longest + 8)))
    stacked = wide < _STACKED
    high = (1.3 if stacked else 0.42) * wide + 0.022 * type_.title * math.ceil(
        len(curves) / columns
    )
    figure = _empty((wide, high))
    left, right = figure.subplots(*((2, 1) if stacked else (1, 2)))
    styles = looks.styles([curve.method for curve in curves])
    for curve, style in zip(curves, styles, strict=True):
        look = {**looks.line(style, len(curve.at)), "linewidth": type_.title / 6}
        left.plot(curve.at, scale.clip(curve.loss), label=curve.label, **look)
        right.plot(curve.at, 100 * curve.accuracy, **look)
    if scale.high / scale.low > 20:
        left.set_yscale("log")
        left.set_yticks(scale.nice())
        left.yaxis.set_major_formatter("{x:g}")
        left.minorticks_off()
    clipped = f" (drawn up to {scale.high:.3g})" if scale.clipped else ""
    logarithmic = ", log scale" if left.get_yscale() == "log" else ""
    left.set_ylabel(f"mean cross-entropy{logarithmic}{clipped}", fontsize=type_.label + 1)
    right.set_ylabel("accuracy, %", fontsize=type_.label + 1)
    for ax in (left, right):
        ax.set_xlabel(along, fontsize=type_.label + 1)
        ax.grid(color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=type_.tick + 0.5)
        for place, word in marks:
            ax.axvline(place, color="#888888", linewidth=0.9, linestyle=(0, (2, 2)))
            ax.annotate(
                word,
                (place, 1),
                (0, 2),
                ("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                fontsize=type_.label,
                color="#555555",
            )
    if title:
        figure.suptitle(title, fontsize=type_.title + 1, fontweight="bold")
    small = {"fontsize": type_.label, "frameon": False}
    figure.legend(loc="outside lower center", ncols=columns, **small)
    return figure


def png(figure: "Figure") -> bytes:
    """The picture as a file's content."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=_DPI)
    return content.getvalue()


def rgb(figure: "Figure") -> np.ndarray:
    """The picture as a uint8 array [height, width, 3]."""
    canvas: Any = figure.canvas
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _figure(
    count: int, width: float, height: float, whole: float | None
) -> tuple["Figure", list[Any], int]:
    """A figure, the places of so many panels in it, and its columns.

    Args:
        count: of panels.
        width, height: of a panel in inches, on a screen.
        whole: width of the figure in print.
    """
    columns = _columns(count)
    if whole is not None:
        columns = max(1, min(columns, int(whole / _NARROWEST)))
        width, height = (whole - 0.6) / columns, height / width * (whole - 0.6) / columns
    rows = math.ceil(count / columns)
    size = (columns * width + 0.9, rows * height + 0.1) if whole is None else (whole, rows * height)
    figure = _empty(size)
    grid = figure.add_gridspec(rows, columns)
    return figure, [grid[i // columns, i % columns] for i in range(count)], columns


def _empty(size: tuple[float, float]) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _columns(count: int) -> int:
    """Four at most, and no row with a single panel if that can be helped."""
    return count if count <= 4 else 3 if count in (5, 6, 9) else 4


def _title(label: str, letters: int) -> str:
    return "\n".join(textwrap.wrap(label, letters, max_lines=3, placeholder=" ..."))


def _bar_ticks(bar: Any, scale: Scale, type_: _Type) -> None:
    bar.set_ticks(scale.nice())
    bar.minorticks_off()
    bar.ax.tick_params(labelsize=type_.tick + 0.5)
    above = f" (yellow: {scale.high:.3g} or more)" if scale.clipped else ""
    bar.set_label(f"mean cross-entropy{above}, log scale", fontsize=type_.label)


def _five(axis: Sequence[float]) -> list[float]:
    return [axis[0], axis[0] / 2, 0.0, axis[-1] / 2, axis[-1]]


def _quad_means(z: np.ndarray) -> np.ndarray:
    """A value for each quadrilateral of a surface."""
    return (z[:-1, :-1] + z[1:, :-1] + z[:-1, 1:] + z[1:, 1:]) / 4
