"""Figures, tables and numbers of what was computed."""

import csv
import dataclasses
import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_fedsam.analysis.landscape import pictures, points
from tf_fedsam.analysis.landscape.pictures import Curve, Panel, Scale
from tf_fedsam.analysis.landscape.survey import Survey, Work

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Numbers:
    """What a surface says in numbers.

    Attributes:
        loss, accuracy: of the solution.
        ring: mean loss on the circle of radius span / 2 around it.
        rise: how much that is above the solution's loss; a sharpness.
    """

    loss: float
    accuracy: float
    ring: float
    rise: float

    @classmethod
    def of(cls, work: Work, radius: float) -> "Numbers":
        loss, accuracy = work.store.read([(0.0, 0.0)])[0].tolist()
        ring = float(work.store.read(points.ring_points(radius))[:, 0].mean())
        return cls(loss, accuracy, ring, ring - loss)


@dataclasses.dataclass(frozen=True)
class Surfaces:
    """What the contours are drawn from."""

    panels: Sequence[Panel]
    axis: Sequence[float]
    scale: Scale


@dataclasses.dataclass
class Drawing:
    """What was computed, for people.

    Attributes:
        numbers: of each run.
        barriers: a row for each run and the next one.
        figures: by name.
        alts: what can be seen on a figure.
        tables: a row a point, as CSV, by name.
        surfaces: what the contours show, if there are some.
    """

    numbers: Sequence[Numbers]
    barriers: Sequence[Mapping[str, Any]] = ()
    figures: dict[str, "Figure"] = dataclasses.field(default_factory=dict)
    alts: dict[str, str] = dataclasses.field(default_factory=dict)
    tables: dict[str, bytes] = dataclasses.field(default_factory=dict)
    surfaces: Surfaces | None = None


def draw(survey: Survey) -> Drawing:
    """Draws what the view asks for."""
    radius = survey.view.ring_radius
    drawing = Drawing([Numbers.of(work, radius) for work in survey.around])
    if survey.view.surface:
        _draw_surfaces(drawing, survey)
    if survey.view.line:
        _draw_lines(drawing, survey)
    if survey.between:
        _draw_between(drawing, survey)
    return drawing


def _draw_surfaces(drawing: Drawing, survey: Survey) -> None:
    view, runs = survey.view, survey.runs
    grid, span = view.grid, view.span
    where, axis = points.surface_points(grid, span), points.axis(grid, span)
    values = [work.store.read(where) for work in survey.around]
    drawing.tables["surface_2d"] = _csv(
        ("run", "x", "y"), [((run.folder,), where, v) for run, v in _pairs(runs, values)]
    )
    panels = [
        Panel(
            run.label,
            f"loss {n.loss:.3g} in the middle, {n.rise:+.3g} at {view.ring_radius:g}",
            value[:, 0].reshape(grid, grid),
        )
        for run, n, value in zip(runs, drawing.numbers, values, strict=True)
    ]
    scale = Scale.of([panel.loss for panel in panels], survey.data.num_classes)
    drawing.surfaces = Surfaces(panels, axis, scale)
    what = (
        f"the {view.whose} loss around the {_solutions(survey)}, in two random filter-normalised "
        f"directions from {-span:g} to {span:g}, on one scale. {describe(survey, drawing.numbers)}"
    )
    for name, make, words in (
        ("contour", pictures.contours, "Contour plots of"),
        ("surface", pictures.surfaces, "3-D views of"),
    ):
        drawing.figures[name] = make(panels, axis, scale)
        drawing.alts[name] = f"{words} {what}"


def _draw_lines(drawing: Drawing, survey: Survey) -> None:
    view, runs = survey.view, survey.runs
    where = points.line_points(view.grid, view.span)
    at, values = [x for x, _ in where], [work.store.read(where) for work in survey.around]
    drawing.tables["line_1d"] = _csv(
        ("run", "x"), [((run.folder,), [(x,) for x in at], v) for run, v in _pairs(runs, values)]
    )
    curves = [
        Curve(run.label, at, v[:, 0], v[:, 1], run.run.algo) for run, v in _pairs(runs, values)
    ]
    title = f"{view.whose.capitalize()} loss and accuracy along a random direction"
    scale = Scale.of([curve.loss for curve in curves], survey.data.num_classes)
    along = "distance along direction 1, in filter norms"
    drawing.figures["line"] = pictures.lines(curves, scale, title, along)
    ends = "; ".join(
        f"{c.label}: loss {c.loss[0]:.3g} at {at[0]:g}, {c.loss[len(at) // 2]:.3g} in the middle, "
        f"{c.loss[-1]:.3g} at {at[-1]:g}"
        for c in curves
    )
    drawing.alts["line"] = f"{title}, filter-normalised, around the {_solutions(survey)}. {ends}."


def _draw_between(drawing: Drawing, survey: Survey) -> None:
    view = survey.view
    where = points.between_points(view.grid)
    at, values = [t for t, _ in where], [work.store.read(where) for work in survey.between]
    couples = list(itertools.pairwise(survey.runs))
    drawing.tables["between"] = _csv(
        ("from", "to", "t"),
        [((a.folder, b.folder), [(t,) for t in at], v) for (a, b), v in _pairs(couples, values)],
    )
    curves = [  # in the colour of the run that a line begins at
        Curve(work.name, at, v[:, 0], v[:, 1], couple[0].run.algo)
        for work, v, couple in zip(survey.between, values, couples, strict=True)
    ]
    title = f"{view.whose.capitalize()} loss and accuracy on the straight line between solutions"
    scale = Scale.of([curve.loss for curve in curves], survey.data.num_classes)
    along = "share of the way from the first run to the second"
    marks = ((0.0, "first"), (1.0, "second"))
    drawing.figures["between"] = pictures.lines(curves, scale, title, along, marks)
    barriers = [points.barrier(at, curve.loss) for curve in curves]
    heights = "; ".join(
        f"{curve.label}: {height:.3g}" for curve, height in _pairs(curves, barriers)
    )
    drawing.alts["between"] = (
        f"{title}. The barrier, how far the loss rises above the straight line between the two "
        f"losses: {heights}."
    )
    drawing.barriers = [
        {"from": str(a.folder), "to": str(b.folder), "barrier": height}
        for (a, b), height in _pairs(couples, barriers)
    ]


def describe(survey: Survey, numbers: Sequence[Numbers]) -> str:
    """The numbers of the surfaces in words, and which is the flattest."""
    runs, radius = survey.runs, f"{survey.view.ring_radius:g}"
    each = "; ".join(
        f"{run.label}: {n.loss:.3g} in the middle, {n.ring:.3g} on average at distance {radius}"
        for run, n in _pairs(runs, numbers)
    )
    rises = [n.rise for n in numbers]
    if len(runs) < 2 or not np.isfinite(rises).all():
        return f"{each}."
    least, most = runs[int(np.argmin(rises))], runs[int(np.argmax(rises))]
    return (
        f"{each}. Up to there the loss rises least around {least.label} ({min(rises):+.3g}) "
        f"and most around {most.label} ({max(rises):+.3g})."
    )


def _solutions(survey: Survey) -> str:
    count = len(survey.runs)
    return "solution of one run" if count == 1 else f"solutions of {count} runs"


def _pairs(left: Iterable[Any], right: Iterable[Any]) -> Any:
    return zip(left, right, strict=True)


def _csv(keys: Sequence[str], blocks: Iterable[tuple[Sequence[Any], Any, np.ndarray]]) -> bytes:
    """A row a point: the block's own keys, the point, loss and accuracy."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow([*keys, "loss", "accuracy"])
    for names, where, values in blocks:
        for point, value in _pairs(where, values.tolist()):
            writer.writerow([*names, *(f"{number:.9g}" for number in (*point, *value))])
    return content.getvalue().encode()
