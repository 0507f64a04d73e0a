"""Draws the loss around the solutions of runs that are done, on the same axes for all of them.

    python -m launch.landscape runs/fedavg runs/fedsam runs/mofedsam --out=landscape
    python -m launch.landscape runs/fedavg runs/fedsam --between --grid=51

Two random directions, the same for all runs and filter-normalised for each, span the surface. The
loss is the mean cross-entropy on examples that are the same for all runs. Flags go before or after
the folders. The same command goes on after an interruption and computes only what is missing.

Writes into --out: landscape.json (runs, settings, pictures; written last), contour.png, surface.png
and surface_2d.csv, line.png and line_1d.csv, and with --between, for each run and the next one of
the command, between.png and between.csv. Each run gets its contour into its TensorBoard folder.
"""

from launch import interrupts

if __name__ == "__main__":
    interrupts.quit_while_loading()

import csv
import dataclasses
import functools
import io
import itertools
import json
import math
import pathlib
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import flags
from tqdm import tqdm

from launch import exits, saved_runs, terminal
from launch.exits import DONE
from launch.saved_runs import Data, Run
from tf_fedsam.analysis import landscape, landscape_pictures
from tf_fedsam.analysis.landscape import LossFunction, Plane, PointStore, Solution
from tf_fedsam.analysis.landscape_pictures import Curve, Panel, Scale
from tf_fedsam.errors import InputError
from tf_fedsam.state.files import write_atomically
from tf_fedsam.state.lock import RunLock
from tf_fedsam.state.run_folder import without_nan

MAX_GRID = 501
RESULT, POINTS = "landscape.json", "points"
PICTURES = ("contour.png", "surface.png", "line.png", "between.png")
TABLES = ("surface_2d.csv", "line_1d.csv", "between.csv")
EVENTS_SUFFIX = ".landscape"

FLAGS = flags.FlagValues()  # its own: --seed and --batch_size mean something else in launch.main
FLAGS.set_gnu_getopt(True)


def _define() -> None:
    mine: Any = {"flag_values": FLAGS}
    text, whole = flags.DEFINE_string, flags.DEFINE_integer
    text("out", "landscape", "Folder for pictures and tables.", **mine)
    whole("grid", 21, "Points along each axis of the surface; odd, so that 0 is one.", **mine)
    flags.DEFINE_float("span", 1.0, "The axes go from -span to span, in filter norms.", **mine)
    flags.DEFINE_list("dimensions", ["1", "2"], "1: the line, 2: the surface, 1,2: both.", **mine)
    flags.DEFINE_bool("between", False, "The straight line from each run to the next one.", **mine)
    flags.DEFINE_enum("on", "train", ("train", "test"), "Whose loss.", **mine)
    whole(
        "examples",
        2000,
        "Examples the loss is the mean of; fewer if there are not so many.",
        **mine,
    )
    whole("seed", 0, "Of the directions and the choice of examples.", **mine)
    whole("batch_size", 250, "Examples that go through the network at a time.", **mine)
    flags.DEFINE_bool("tensorboard", True, "Add each run's contour to its TensorBoard.", **mine)


_define()


@dataclasses.dataclass(frozen=True)
class Work:
    """Points of a plane that are wanted, and where their values are kept.

    Planes are made when they are needed, since those of many large models fill the memory.
    """

    name: str
    make_plane: Callable[[], Plane]
    points: list[landscape.Point]
    store: PointStore


def main(folders: Sequence[str]) -> int:
    check_flags(folders)
    out = pathlib.Path(FLAGS.out).expanduser()
    check_out(out)
    runs = saved_runs.read_all([pathlib.Path(folder).expanduser() for folder in folders])
    data = saved_runs.load_examples(runs, FLAGS.on, FLAGS.examples, FLAGS.seed)
    network = saved_runs.build_network(runs[0], data)
    solutions = [saved_runs.read_solution(network, run) for run in runs]
    with RunLock(out):
        (out / POINTS).mkdir(exist_ok=True)
        around, between = plan(out, runs, data, network, solutions)
        terminal.say(start_table(runs, data, [*around, *between], out))
        compute(network, data, [*around, *between])
        terminal.say(write_results(out, runs, data, around, between))
    return DONE


def check_flags(folders: Sequence[str]) -> None:
    if not folders:
        raise InputError(
            "Received no run folder. Expected: at least one, as in "
            "python -m launch.landscape runs/one runs/two."
        )
    resolved = [pathlib.Path(folder).expanduser().resolve() for folder in folders]
    for folder in resolved:
        if resolved.count(folder) > 1:
            raise InputError(f"Every run counts once. Received twice: {folder}.")
    if not 3 <= FLAGS.grid <= MAX_GRID or FLAGS.grid % 2 == 0:
        raise InputError(
            f"--grid must be an odd number, 3 to {MAX_GRID}, so that the solution is one of "
            f"the points. Received: {FLAGS.grid}. 21 is quick, 51 makes a figure for print."
        )
    if not (math.isfinite(FLAGS.span) and FLAGS.span > 0):
        raise InputError(f"--span must be a finite number above 0. Received: {FLAGS.span}.")
    for name, least in (("examples", 1), ("batch_size", 1), ("seed", 0)):
        if getattr(FLAGS, name) < least:
            raise InputError(
                f"--{name} must be at least {least}. Received: {getattr(FLAGS, name)}."
            )
    if not FLAGS.dimensions or not set(FLAGS.dimensions) <= {"1", "2"}:
        raise InputError(
            f"--dimensions must be 1, 2 or 1,2. Received: {','.join(FLAGS.dimensions)!r}."
        )
    if FLAGS.between and len(folders) < 2:
        raise InputError("--between needs two runs or more. Received: one. Add a folder.")


def check_out(out: pathlib.Path) -> None:
    """Refuses a folder that holds something else."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out={out} is a file. Expected: a folder. Choose another name.")
    present = {path.name for path in out.iterdir()} - {".lock"} if out.exists() else set()
    if present and not present & {RESULT, POINTS}:
        raise InputError(
            f"--out={out} holds files that are not of a loss surface: "
            f"{', '.join(sorted(present)[:5])}. Choose another folder."
        )


def plan(
    out: pathlib.Path,
    runs: Sequence[Run],
    data: Data,
    network: keras.Model,
    solutions: Sequence[Solution],
) -> tuple[list[Work], list[Work]]:
    """The planes around the runs, and those of the lines between them."""
    axes = landscape.filter_axes(network)
    if all(along is None for along in axes):
        raise InputError(
            f"The trainable part of the model ({runs[0].settings.trainable!r}) has only biases and "
            f"normalisation parameters, which do not move on a surface. Expected: some kernel."
        )
    shapes = [tuple(variable.shape) for variable in network.trainable_variables]
    directions = landscape.random_directions(shapes, FLAGS.seed)
    about = json.dumps(
        [saved_runs.architecture(runs[0]), vars(data.preprocess)], default=str, sort_keys=True
    )

    def work(name: str, make: Callable[[], Plane], points: list[landscape.Point]) -> Work:
        key = landscape.fingerprint(make(), data.examples, about)
        return Work(name, make, points, PointStore(out / POINTS / f"{key}.npz"))

    points = [(0.0, 0.0), *landscape.ring_points(FLAGS.span / 2)]
    if "1" in FLAGS.dimensions:
        points += landscape.line_points(FLAGS.grid, FLAGS.span)
    if "2" in FLAGS.dimensions:
        points += landscape.surface_points(FLAGS.grid, FLAGS.span)
    around = [
        work(run.label, functools.partial(Plane.around, solution, directions, axes), points)
        for run, solution in zip(runs, solutions, strict=True)
    ]
    between = [
        work(
            f"{runs[i].label} to {runs[i + 1].label}",
            functools.partial(Plane.between, solutions[i], solutions[i + 1]),
            landscape.between_points(FLAGS.grid),
        )
        for i in range(len(runs) - 1 if FLAGS.between else 0)
    ]
    return around, between


def compute(network: keras.Model, data: Data, works: Sequence[Work]) -> None:
    """Evaluates what is missing."""
    total = sum(len(set(work.points)) for work in works)
    missing = sum(len(work.store.missing(work.points)) for work in works)
    if not missing:
        terminal.say("All points are known from before; nothing is computed.")
        return
    if missing < total:
        terminal.say(f"{total - missing:,} points are known from before.")
    losses = LossFunction(network, data.examples, data.preprocess, FLAGS.batch_size)
    progress = Progress(total - missing, total)
    try:
        for work in works:
            if work.store.missing(work.points):
                progress.begin(work.name)
                evaluate = functools.partial(losses, work.make_plane())
                landscape.fill(work.store, work.points, evaluate, progress.advance)
    finally:
        progress.close()


class Progress:
    """A bar on a terminal, else a line from time to time."""

    SECONDS = 10.0

    def __init__(self, done: int, total: int):
        self._done, self._total, self._name = done, total, ""
        self._said = time.monotonic()
        self._bar = None
        if sys.stdout.isatty():
            self._bar = tqdm(
                total=total, initial=done, unit="point", dynamic_ncols=True, file=sys.stdout
            )

    def begin(self, name: str) -> None:
        self._name = name
        if self._bar is not None:
            self._bar.set_postfix_str(name)

    def advance(self, count: int) -> None:
        self._done += count
        if self._bar is not None:
            self._bar.update(count)
        elif time.monotonic() - self._said >= self.SECONDS or self._done == self._total:
            self._said = time.monotonic()
            terminal.say(f"point {self._done:>5}/{self._total}  {self._name}")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


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
    def of(cls, work: Work) -> "Numbers":
        loss, accuracy = work.store.read([(0.0, 0.0)])[0].tolist()
        ring = float(work.store.read(landscape.ring_points(FLAGS.span / 2))[:, 0].mean())
        return cls(loss, accuracy, ring, ring - loss)


@dataclasses.dataclass
class Outcome:
    """What goes into the folder: files by name, texts for pictures, remarks for the user."""

    files: dict[str, bytes] = dataclasses.field(default_factory=dict)
    alts: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)


def write_results(
    out: pathlib.Path,
    runs: Sequence[Run],
    data: Data,
    around: Sequence[Work],
    between: Sequence[Work],
) -> str:
    """Tables and pictures, then landscape.json; gives what to tell the user."""
    numbers, outcome = [Numbers.of(work) for work in around], Outcome()
    barriers: list[dict[str, Any]] = []
    if "2" in FLAGS.dimensions:
        draw_surfaces(outcome, runs, numbers, around, data.num_classes)
    if "1" in FLAGS.dimensions:
        draw_lines(outcome, runs, around, data.num_classes)
    if between:
        barriers = draw_between(outcome, runs, between, data.num_classes)
    (out / RESULT).unlink(missing_ok=True)
    for name, content in outcome.files.items():
        write_atomically(out / name, content)
    for name in {*PICTURES, *TABLES} - set(outcome.files):
        (out / name).unlink(missing_ok=True)  # of a command with other flags
    result = {
        "runs": [
            {
                "folder": str(run.folder),
                "label": run.label,
                "algo": run.algo,
                "rounds": run.rounds,
                **without_nan(dataclasses.asdict(n)),
            }
            for run, n in zip(runs, numbers, strict=True)
        ],
        "between": [without_nan(entry) for entry in barriers],
        "settings": {
            "grid": FLAGS.grid,
            "span": FLAGS.span,
            "dimensions": sorted({int(d) for d in FLAGS.dimensions}),
            "between": FLAGS.between,
            "on": FLAGS.on,
            "examples": len(data.examples),
            "seed": FLAGS.seed,
            "ring_radius": FLAGS.span / 2,
        },
        "pictures": [
            {"file": name, "alt": outcome.alts[name]} for name in PICTURES if name in outcome.alts
        ],
    }
    text = json.dumps(result, indent=2, allow_nan=False)
    write_atomically(out / RESULT, f"{text}\n".encode())
    return results_table(out, runs, numbers, barriers, outcome.notes)


def draw_surfaces(
    outcome: Outcome,
    runs: Sequence[Run],
    numbers: Sequence[Numbers],
    works: Sequence[Work],
    num_classes: int,
) -> None:
    grid, span = FLAGS.grid, FLAGS.span
    points, axis = landscape.surface_points(grid, span), landscape.axis(grid, span)
    values = [work.store.read(points) for work in works]
    outcome.files["surface_2d.csv"] = _csv(
        ("run", "x", "y"), [((run.folder,), points, v) for run, v in _pairs(runs, values)]
    )
    panels = [
        Panel(
            run.label,
            f"loss {n.loss:.3g} in the middle, {n.rise:+.3g} at {span / 2:g}",
            value[:, 0].reshape(grid, grid),
        )
        for run, n, value in zip(runs, numbers, values, strict=True)
    ]
    scale = Scale.of([panel.loss for panel in panels], num_classes)
    where = (
        f"the {_whose()} loss around the {_solutions(runs)}, in two random filter-normalised "
        f"directions from {-span:g} to {span:g}, on one scale. {describe(runs, numbers)}"
    )
    for name, draw, words in (
        ("contour.png", landscape_pictures.contours, "Contour plots of"),
        ("surface.png", landscape_pictures.surfaces, "3-D views of"),
    ):
        outcome.files[name] = landscape_pictures.png(draw(panels, axis, scale))
        outcome.alts[name] = f"{words} {where}"
    if FLAGS.tensorboard:
        outcome.notes += add_to_tensorboards(runs, panels, axis, scale)


def draw_lines(
    outcome: Outcome, runs: Sequence[Run], works: Sequence[Work], num_classes: int
) -> None:
    points = landscape.line_points(FLAGS.grid, FLAGS.span)
    at, values = [x for x, _ in points], [work.store.read(points) for work in works]
    outcome.files["line_1d.csv"] = _csv(
        ("run", "x"), [((run.folder,), [(x,) for x in at], v) for run, v in _pairs(runs, values)]
    )
    curves = [Curve(run.label, at, v[:, 0], v[:, 1]) for run, v in _pairs(runs, values)]
    title = f"{_whose().capitalize()} loss and accuracy along a random direction"
    scale = Scale.of([curve.loss for curve in curves], num_classes)
    along = "distance along direction 1, in filter norms"
    outcome.files["line.png"] = landscape_pictures.png(
        landscape_pictures.lines(curves, scale, title, along)
    )
    ends = "; ".join(
        f"{c.label}: loss {c.loss[0]:.3g} at {at[0]:g}, {c.loss[len(at) // 2]:.3g} in the middle, "
        f"{c.loss[-1]:.3g} at {at[-1]:g}"
        for c in curves
    )
    outcome.alts["line.png"] = f"{title}, filter-normalised, around the {_solutions(runs)}. {ends}."


def draw_between(
    outcome: Outcome, runs: Sequence[Run], works: Sequence[Work], num_classes: int
) -> list[dict[str, Any]]:
    """Gives the barrier of each pair."""
    points = landscape.between_points(FLAGS.grid)
    at, values = [t for t, _ in points], [work.store.read(points) for work in works]
    couples = list(itertools.pairwise(runs))
    outcome.files["between.csv"] = _csv(
        ("from", "to", "t"),
        [((a.folder, b.folder), [(t,) for t in at], v) for (a, b), v in _pairs(couples, values)],
    )
    curves = [Curve(work.name, at, v[:, 0], v[:, 1]) for work, v in _pairs(works, values)]
    title = f"{_whose().capitalize()} loss and accuracy on the straight line between solutions"
    scale = Scale.of([curve.loss for curve in curves], num_classes)
    along = "share of the way from the first run to the second"
    marks = ((0.0, "first"), (1.0, "second"))
    outcome.files["between.png"] = landscape_pictures.png(
        landscape_pictures.lines(curves, scale, title, along, marks)
    )
    barriers = [landscape.barrier(at, curve.loss) for curve in curves]
    heights = "; ".join(
        f"{curve.label}: {height:.3g}" for curve, height in _pairs(curves, barriers)
    )
    outcome.alts["between.png"] = (
        f"{title}. The barrier, how far the loss rises above the straight line between the two "
        f"losses: {heights}."
    )
    return [
        {"from": str(a.folder), "to": str(b.folder), "barrier": height}
        for (a, b), height in _pairs(couples, barriers)
    ]


def describe(runs: Sequence[Run], numbers: Sequence[Numbers]) -> str:
    """The numbers of the surfaces in words, and which is the flattest."""
    radius = f"{FLAGS.span / 2:g}"
    each = "; ".join(
        f"{run.label}: {n.loss:.3g} in the middle, {n.ring:.3g} on average at distance {radius}"
        for run, n in zip(runs, numbers, strict=True)
    )
    rises = [n.rise for n in numbers]
    if len(runs) < 2 or not np.isfinite(rises).all():
        return f"{each}."
    least, most = runs[int(np.argmin(rises))], runs[int(np.argmax(rises))]
    return (
        f"{each}. Up to there the loss rises least around {least.label} ({min(rises):+.3g}) "
        f"and most around {most.label} ({max(rises):+.3g})."
    )


def add_to_tensorboards(
    runs: Sequence[Run], panels: Sequence[Panel], axis: Sequence[float], scale: Scale
) -> list[str]:
    """Adds each run's own contour to its curves; gives what could not be done."""
    notes = []
    for run, panel in zip(runs, panels, strict=True):
        folder = run.folder / "tensorboard"
        picture = landscape_pictures.rgb(landscape_pictures.contours([panel], axis, scale))
        try:
            before = list(folder.glob(f"*{EVENTS_SUFFIX}"))
            writer = tf.summary.create_file_writer(str(folder), filename_suffix=EVENTS_SUFFIX)
            with writer.as_default(step=run.rounds):
                tf.summary.image("landscape/contour", picture[None])
            writer.close()
            for path in before:
                path.unlink()
        except (OSError, tf.errors.OpError) as error:
            reason = error.message if isinstance(error, tf.errors.OpError) else error.strerror
            line = str(reason).splitlines()[0]
            notes.append(f"{folder} cannot be written ({line}), so the contour is not in it.")
    return notes


def start_table(runs: Sequence[Run], data: Data, works: Sequence[Work], out: pathlib.Path) -> str:
    settings = runs[0].settings
    count = f"{len(data.examples):,} of {data.available:,}"
    count = count if data.available > len(data.examples) else f"all {data.available:,}"
    points = sum(len(set(work.points)) for work in works)
    width = max(len(run.label) for run in runs)
    rows = [
        ("" if i else "runs", f"{run.label:<{width}}  {run.folder}") for i, run in enumerate(runs)
    ]
    return (
        terminal.table(
            [
                *rows,
                ("loss", f"mean over {count} {_whose()} examples"),
                ("data", settings.task.title),
                ("model", settings.model),
                ("points", f"{points:,}, axes from {-FLAGS.span:g} to {FLAGS.span:g}"),
                ("seed", FLAGS.seed),
                ("folder", out),
            ]
        )
        + "\n"
    )


def results_table(
    out: pathlib.Path,
    runs: Sequence[Run],
    numbers: Sequence[Numbers],
    barriers: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
) -> str:
    radius = f"{FLAGS.span / 2:g}"
    header = ("run", "loss", "accuracy", f"mean loss at {radius}", "rise")
    rows = [
        (run.label, f"{n.loss:.4f}", f"{n.accuracy:.2%}", f"{n.ring:.4f}", f"{n.rise:+.4f}")
        for run, n in zip(runs, numbers, strict=True)
    ]
    lines = [
        "",
        terminal.grid(header, rows),
        "",
        f"Mean loss at {radius}: over {landscape.RING_POINTS} points on the circle of that radius "
        f"around the solution.\nRise: that minus the loss; smaller is flatter.",
    ]
    if barriers:
        labels = {str(run.folder): run.label for run in runs}
        pairs = [(labels[b["from"]], labels[b["to"]], f"{b['barrier']:.4f}") for b in barriers]
        lines += ["", terminal.grid(("from", "to", "barrier"), pairs), ""]
        lines += ["Barrier: how far the loss rises above the straight line between the two losses."]
    files = [name for name in (*PICTURES, *TABLES, RESULT) if (out / name).exists()]
    folders = " ".join(shlex.quote(str(run.folder)) for run in runs)
    lines += [
        *([""] if notes else []),
        *notes,
        "",
        terminal.table([("files" if not i else "", out / name) for i, name in enumerate(files)]),
        "",
        "Put them into a report:",
        f"  python -m launch.report {folders} --landscape={shlex.quote(str(out))} "
        f"--out=report.html",
    ]
    return "\n".join(lines)


def _whose() -> str:
    return "training" if FLAGS.on == "train" else "test"


def _solutions(runs: Sequence[Run]) -> str:
    return "solution of one run" if len(runs) == 1 else f"solutions of {len(runs)} runs"


def _pairs(left: Iterable[Any], right: Iterable[Any]) -> Any:
    return zip(left, right, strict=True)


def _csv(keys: Sequence[str], blocks: Iterable[tuple[Sequence[Any], Any, np.ndarray]]) -> bytes:
    """A row a point: the block's own keys, the point, loss and accuracy."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow([*keys, "loss", "accuracy"])
    for names, points, values in blocks:
        for point, value in _pairs(points, values.tolist()):
            writer.writerow([*names, *(f"{number:.9g}" for number in (*point, *value))])
    return content.getvalue().encode()


def parse(args: Sequence[str]) -> list[str]:
    """Parses a command line, without the program's name; gives the run folders."""
    for name in FLAGS:
        FLAGS[name].unparse()
    try:
        return FLAGS(["launch.landscape", *args])[1:]
    except flags.Error as error:
        raise InputError(f"{str(error).rstrip('.')}. See --help for all flags.") from None


def failure(error: Exception) -> str:
    """What to tell of a failure."""
    if not isinstance(error, OSError):
        return "Not enough memory. Use a smaller --batch_size."
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    if {"--help", "--helpshort", "-h"} & set(args):
        print(f"{__doc__}\n{FLAGS.get_help(include_special_flags=False)}")
        return DONE
    failures = (OSError, tf.errors.ResourceExhaustedError)
    return exits.guarded(lambda: main(parse(args)), failures=failures, words=failure)


def console() -> None:
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
