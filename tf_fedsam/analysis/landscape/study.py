"""The whole of it: reads runs, computes what is missing, draws and writes.

import tasks, tf_fedsam

found = tf_fedsam.landscape(["runs/fedavg", "runs/fedsam"], "landscape", between=True)
found.numbers, found.figures["contour"]
"""

import os
import pathlib
from collections.abc import Sequence

from tf_fedsam import paths, text
from tf_fedsam.analysis.landscape import compared, results
from tf_fedsam.analysis.landscape.examples import load_examples
from tf_fedsam.analysis.landscape.results import Landscape
from tf_fedsam.analysis.landscape.survey import Survey, compute, plan
from tf_fedsam.analysis.landscape.view import View
from tf_fedsam.errors import InputError
from tf_fedsam.runs.run import Run
from tf_fedsam.runs.task import Task
from tf_fedsam.state.lock import RunLock

POINTS = "points"

RunOrFolder = Run | str | os.PathLike


def landscape(
    runs: RunOrFolder | Sequence[RunOrFolder],
    out: str | os.PathLike = "landscape",
    *,
    grid: int = View.grid,
    span: float = View.span,
    dimensions: Sequence[int] = View.dimensions,
    between: bool = View.between,
    on: str = View.on,
    examples: int = View.examples,
    seed: int = View.seed,
    batch_size: int = View.batch_size,
    tensorboard: bool = True,
    task: Task | None = None,
    verbose: bool = True,
) -> Landscape:
    """Draws the loss around the solutions of runs that are done, on the same axes for all of them.

    Two random directions, the same for all runs and filter-normalised for each, span the surface.
    The loss is the mean cross-entropy on examples that are the same for all runs. The same call
    goes on after an interruption and computes only what is missing.

    Args:
        runs: runs or their folders.
        out: folder for pictures and tables.
        grid: points along each axis of the surface; odd, so that 0 is one.
        span: the axes go from ``-span`` to ``span``, in filter norms.
        dimensions: 1: the line, 2: the surface.
        between: also the straight line from each run to the next one.
        on: whose loss, ``"train"`` or ``"test"``.
        examples: how many the loss is the mean of; fewer if there are not so many.
        seed: of the directions and the choice of examples.
        batch_size: examples that go through the network at a time.
        tensorboard: whether each run's contour is added to its TensorBoard folder.
        task: the data set; by default the one that the runs name.
        verbose: whether to show what is looked at, the progress and the results.
    """
    view = View(
        grid=grid,
        span=span,
        dimensions=tuple(dimensions),
        between=between,
        on=on,
        examples=examples,
        seed=seed,
        batch_size=batch_size,
    )
    chosen, folder = check_runs(runs, view), paths.expanded(out)
    check_out(folder)
    read = compared.read_all(chosen, task)
    data = load_examples(read, view.on, view.examples, view.seed)
    survey = plan(view, read, data, folder / POINTS)
    with RunLock(folder):
        (folder / POINTS).mkdir(exist_ok=True)
        if verbose:
            text.say(start_table(survey, folder))
        compute(survey, verbose)
        found = results.write(survey, folder, tensorboard)
    if verbose:
        text.say(found.report())
    return found


def check_runs(runs: RunOrFolder | Sequence[RunOrFolder], view: View) -> list[RunOrFolder]:
    """The runs as a list; refused if one is there twice, or if they are too few."""
    chosen = [runs] if isinstance(runs, (Run, str, os.PathLike)) else list(runs)
    if not chosen:
        raise InputError("Received no run. Expected: at least one run or run folder.")
    folders = [
        paths.expanded(run.folder if isinstance(run, Run) else run).resolve() for run in chosen
    ]
    for folder in folders:
        if folders.count(folder) > 1:
            raise InputError(f"Every run counts once. Received twice: {folder}.")
    if view.between and len(chosen) < 2:
        raise InputError("between needs two runs or more. Received: one. Add a folder.", "between")
    return chosen


def check_out(out: pathlib.Path) -> None:
    """Refuses a folder that holds something else."""
    if out.exists() and not out.is_dir():
        raise InputError(f"out={out} is a file. Expected: a folder. Choose another name.", "out")
    present = {path.name for path in out.iterdir()} - {".lock"} if out.exists() else set()
    if present and not present & {results.RESULT, POINTS}:
        raise InputError(
            f"out={out} holds files that are not of a loss surface: "
            f"{', '.join(sorted(present)[:5])}. Choose another folder.",
            "out",
        )


def start_table(survey: Survey, out: pathlib.Path) -> str:
    """What is looked at."""
    view, runs, data, problem = survey.view, survey.runs, survey.data, survey.runs[0].problem
    count = f"{len(data.examples):,} of {data.available:,}"
    count = count if data.available > len(data.examples) else f"all {data.available:,}"
    points = sum(len(set(work.points)) for work in survey.works)
    width = max(len(run.label) for run in runs)
    rows = [
        ("" if i else "runs", f"{run.label:<{width}}  {run.folder}") for i, run in enumerate(runs)
    ]
    return (
        text.table(
            [
                *rows,
                ("loss", f"mean over {count} {view.whose} examples"),
                ("data", problem.task.title),
                ("model", problem.model),
                ("points", f"{points:,}, axes from {-view.span:g} to {view.span:g}"),
                ("seed", view.seed),
                ("folder", out),
            ]
        )
        + "\n"
    )
