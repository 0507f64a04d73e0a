"""What a look at loss surfaces leaves: files in a folder, and an object to go on with."""

import base64
import dataclasses
import html
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tf_fedsam import text
from tf_fedsam.analysis.landscape import pictures
from tf_fedsam.analysis.landscape.compared import Compared
from tf_fedsam.analysis.landscape.drawing import Surfaces, draw
from tf_fedsam.analysis.landscape.points import RING_POINTS
from tf_fedsam.analysis.landscape.survey import Survey
from tf_fedsam.runs.folder import EVENTS, RunFolder, without_nan
from tf_fedsam.state.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULT = "landscape.json"
PICTURES = ("contour.png", "surface.png", "line.png", "between.png")
TABLES = ("surface_2d.csv", "line_1d.csv", "between.csv")
EVENTS_SUFFIX = ".landscape"


@dataclasses.dataclass(frozen=True, repr=False)
class Landscape:
    """Loss surfaces that were drawn; a notebook shows them.

    Attributes:
        folder: where the files are.
        numbers: a row for each run: loss and accuracy of its solution, the mean loss on a ring
            around it, and the rise from the one to the other; ``pandas.DataFrame(found.numbers)``
            is a table of them.
        barriers: a row for each run and the next one, if the line between them was wanted.
        figures: matplotlib figures by name: contour, surface, line, between.
        pngs: the figures as they were written; drawn again they may differ in a pixel.
        alts: what can be seen on a figure, in words.
        settings: what was looked at.
        notes: what could not be done.
    """

    folder: pathlib.Path
    numbers: Sequence[Mapping[str, Any]]
    barriers: Sequence[Mapping[str, Any]]
    figures: Mapping[str, "Figure"]
    pngs: Mapping[str, bytes]
    alts: Mapping[str, str]
    settings: Mapping[str, Any]
    notes: Sequence[str] = ()

    @property
    def files(self) -> list[pathlib.Path]:
        """Pictures, tables (a row a point), and the file that describes them."""
        names = (*PICTURES, *TABLES, RESULT)
        return [self.folder / name for name in names if (self.folder / name).exists()]

    def report(self) -> str:
        """The numbers as a table, with what they mean and where the files are."""
        radius = f"{self.settings['ring_radius']:g}"
        lines = [
            "",
            text.grid(*self._table()),
            "",
            *text.wrapped(
                f"Mean loss at {radius}: over {RING_POINTS} points on the circle of that radius "
                f"around the solution. Rise: that minus the loss; smaller is flatter."
            ),
        ]
        if self.barriers:
            labels = {row["folder"]: row["label"] for row in self.numbers}
            pairs = [
                (labels[b["from"]], labels[b["to"]], f"{b['barrier']:.4f}") for b in self.barriers
            ]
            lines += ["", text.grid(("from", "to", "barrier"), pairs), ""]
            lines += [
                "Barrier: how far the loss rises above the straight line between the two losses."
            ]
        files = [("" if i else "files", path) for i, path in enumerate(self.files)]
        notes = ["", *self.notes] if self.notes else []
        return "\n".join([*lines, *notes, "", text.table(files)])

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        ring = f"mean loss at {self.settings['ring_radius']:g}"
        rows = [
            (
                n["label"],
                f"{n['loss']:.4f}",
                f"{n['accuracy']:.2%}",
                f"{n['ring']:.4f}",
                f"{n['rise']:+.4f}",
            )
            for n in self.numbers
        ]
        return ("run", "loss", "accuracy", ring, "rise"), rows

    def __repr__(self) -> str:
        labels = ", ".join(row["label"] for row in self.numbers)
        return f"Landscape({str(self.folder)!r}, {labels})"

    def _repr_html_(self) -> str:
        """The numbers and the pictures as a notebook shows them."""
        header, rows = self._table()
        cells = "".join(
            f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in row)}</tr>"
            for tag, row in [("th", header), *(("td", row) for row in rows)]
        )
        images = "".join(
            f"<p><img src='data:image/png;base64,"
            f"{base64.b64encode(png).decode()}' style='max-width:100%' "
            f"alt='{html.escape(self.alts[name])}'></p>"
            for name, png in self.pngs.items()
        )
        return f"<table>{cells}</table>{images}"


def write(survey: Survey, out: pathlib.Path, tensorboard: bool) -> Landscape:
    """Draws; writes tables and pictures, then ``landscape.json``.

    Args:
        survey: with all points known.
        out: the folder.
        tensorboard: whether each run's contour is added to its TensorBoard folder.
    """
    drawing, view = draw(survey), survey.view
    notes: list[str] = []
    if tensorboard and drawing.surfaces is not None:
        notes = add_to_tensorboards(survey.runs, drawing.surfaces)
    pngs = {name: pictures.png(figure) for name, figure in drawing.figures.items()}
    files = {f"{name}.csv": content for name, content in drawing.tables.items()}
    files |= {f"{name}.png": content for name, content in pngs.items()}
    (out / RESULT).unlink(missing_ok=True)
    for name, content in files.items():
        write_atomically(out / name, content)
    for name in {*PICTURES, *TABLES} - set(files):
        (out / name).unlink(missing_ok=True)  # of a call with other settings
    found = Landscape(
        folder=out,
        numbers=[
            {
                "folder": str(run.folder),
                "label": run.label,
                "algo": run.run.algo,
                "rounds": len(run.run.records),
                **dataclasses.asdict(numbers),
            }
            for run, numbers in zip(survey.runs, drawing.numbers, strict=True)
        ],
        barriers=drawing.barriers,
        figures=drawing.figures,
        pngs=pngs,
        alts=drawing.alts,
        settings={
            "grid": view.grid,
            "span": view.span,
            "dimensions": sorted(set(view.dimensions)),
            "between": view.between,
            "on": view.on,
            "examples": len(survey.data.examples),
            "seed": view.seed,
            "ring_radius": view.ring_radius,
            "num_classes": survey.data.num_classes,
        },
        notes=notes,
    )
    write_atomically(out / RESULT, _as_json(found))
    return found


def _as_json(found: Landscape) -> bytes:
    result = {
        "runs": [without_nan(row) for row in found.numbers],
        "between": [without_nan(row) for row in found.barriers],
        "settings": found.settings,
        "pictures": [{"file": f"{name}.png", "alt": alt} for name, alt in found.alts.items()],
    }
    return f"{json.dumps(result, indent=2, allow_nan=False)}\n".encode()


def add_to_tensorboards(runs: Sequence[Compared], surfaces: Surfaces) -> list[str]:
    """Adds each run's own contour to its curves; gives what could not be done."""
    notes = []
    for run, panel in zip(runs, surfaces.panels, strict=True):
        folder = RunFolder(run.folder).tensorboard
        figure = pictures.contours([panel], surfaces.axis, surfaces.scale)
        picture = pictures.rgb(figure)
        try:
            before = list(folder.glob(f"{EVENTS}{EVENTS_SUFFIX}"))
            writer = tf.summary.create_file_writer(str(folder), filename_suffix=EVENTS_SUFFIX)
            with writer.as_default(step=len(run.run.records)):
                tf.summary.image("landscape/contour", picture[None])
            writer.close()
            for path in before:
                path.unlink()
        except (OSError, tf.errors.OpError) as error:
            reason = error.message if isinstance(error, tf.errors.OpError) else error.strerror
            line = str(reason).splitlines()[0]
            notes.append(f"{folder} cannot be written ({line}), so the contour is not in it.")
    return notes
