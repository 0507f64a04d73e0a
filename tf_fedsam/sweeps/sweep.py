"""A sweep in Python: describe it, run it, look at it.

result = tf_fedsam.sweep(
    {"algos": ["fedavg", "fedsam"], "seeds": [0, 1, 2], "grid": {"lr": [0.03, 0.1]}},
    out="sweeps/first",
    jobs=2,
)
print(result.table())
"""

import dataclasses
import functools
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tf_fedsam import devices, text
from tf_fedsam.errors import InputError
from tf_fedsam.report.compare import Comparison, compare
from tf_fedsam.runs import task as tasks
from tf_fedsam.runs.run import Run
from tf_fedsam.state.lock import RunLock
from tf_fedsam.sweeps import cells as making
from tf_fedsam.sweeps import checks, display, results, texts
from tf_fedsam.sweeps.cells import Cell
from tf_fedsam.sweeps.description import Sweep, describe
from tf_fedsam.sweeps.runner import DONE, FAILED, Display, Job, Runner

Arguments = Callable[[Cell], Sequence[str]]


def sweep(
    description: Mapping[str, Any] | str | os.PathLike,
    out: str | os.PathLike | None = None,
    *,
    jobs: int = 1,
    retries: int = 0,
    verbose: bool = True,
    imports: Sequence[str] = (),
) -> "SweepResult":
    """Runs algorithms x data sets x settings x seeds, each cell in a process of its own.

    All cells are checked before the first one runs. The same call again skips what is done and goes
    on with what was cut. Cells of the same seed have the same split, the same clients in each round
    and the same batches.

    Args:
        description: ``algos`` and, if wanted, ``datasets``, ``seeds``, ``settings``, ``grid``,
            ``per_algo`` and ``per_dataset``, as a mapping or in a file of YAML or Python; see
            :mod:`tf_fedsam.sweeps.description`.
        out: folder of the sweep, in which each cell has its run folder; by default what the
            description says, or ``sweeps/NAME-OF-THE-FILE``.
        jobs: cells at a time.
        retries: how often a cell that failed is started again.
        verbose: whether to show what is run, the progress and the results.
        imports: modules that a cell's process imports first, such as one that adds a data set.

    Returns:
        The results; cells that failed or were interrupted are missing in them.
    """
    plan = Plan.of(describe(description, out=out), jobs=jobs, retries=retries)
    _check_tasks(plan.cells, imports)
    if verbose:
        text.say(plan.text())
    runner = plan.runner(
        functools.partial(python_arguments, imports=imports),
        command=f"tf_fedsam.sweep({description!r}, {str(plan.out)!r}, jobs={jobs})",
        environment={"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
    )
    plan.run(runner, display.make(plan.cells) if verbose else Display())
    if verbose:
        text.say(texts.end_text(runner.jobs, "The same call runs what is missing."))
    return SweepResult(plan.out, runner.jobs)


def python_arguments(cell: Cell, imports: Sequence[str] = ()) -> list[str]:
    """The arguments of Python that run a cell with the library alone."""
    return [
        *("-m", "tf_fedsam.runs", json.dumps(cell.config.given), str(cell.run.path)),
        *(f"--tasks={module}" for module in tasks.registered()),
        *(f"--import={module}" for module in imports),
    ]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Cells that can run, as far as can be told without their data.

    Attributes:
        out: folder of the sweep.
        cells: each one once.
        num_same: cells that were left out because they are the same as another.
        jobs: cells at a time.
        retries: how often a cell that failed is started again.
        gpus: names of the GPUs to share out.
    """

    out: pathlib.Path
    cells: list[Cell]
    num_same: int
    jobs: int = 1
    retries: int = 0
    gpus: tuple[str, ...] = ()

    @classmethod
    def of(cls, described: Sweep, *, jobs: int = 1, retries: int = 0) -> "Plan":
        """Makes and checks the cells of a sweep."""
        if jobs < 1 or retries < 0:
            raise InputError(
                f"jobs must be at least 1 and retries at least 0. Received: jobs={jobs}, "
                f"retries={retries}.",
                *("jobs", "retries"),
            )
        gpus = visible_gpus(jobs)
        cells, num_same = making.make(described, cell_devices(jobs, bool(gpus)))
        checks.check_folders(cells)
        return cls(described.out, cells, num_same, jobs, retries, tuple(gpus))

    def text(self) -> str:
        """What the sweep is, and what of it is there already."""
        return texts.start_text(self.cells, self.num_same, self.out)

    def runner(
        self, arguments: Arguments, *, command: str, environment: Mapping[str, str] | None = None
    ) -> Runner:
        """What runs the cells.

        Args:
            arguments: of Python, for the process of a cell.
            command: how the sweep was started, for ``sweep.json``.
            environment: more variables for the processes.
        """
        return Runner(
            self.cells,
            self.out,
            arguments,
            num_jobs=self.jobs,
            retries=self.retries,
            gpus=self.gpus,
            environment=environment,
            about={"command": command, "working_folder": os.getcwd()},
        )

    def run(self, runner: Runner, shown: Display) -> None:
        """Runs what is not complete, if the data are right."""
        checks.check_data([cell for cell in self.cells if not cell.is_complete()])
        with RunLock(self.out):
            # Somebody may have been here in between.
            checks.check_folders([cell for cell in self.cells if not cell.is_complete()])
            try:
                runner.run(shown)
            finally:
                shown.close()


class SweepResult:
    """What became of a sweep.

    Args:
        folder: of the sweep.
        jobs: its cells, and how they ended.

    Attributes:
        folder: its path.
        cells: name, settings and folder of each run.
    """

    def __init__(self, folder: pathlib.Path, jobs: Sequence[Job]):
        self.folder = folder
        self.cells = [job.cell for job in jobs]
        self._jobs = list(jobs)

    @property
    def complete(self) -> bool:
        """Whether all cells are done."""
        return all(job.status == DONE for job in self._jobs)

    @property
    def failed(self) -> dict[str, str]:
        """The cells that failed, by the names of their folders, with the last lines of each."""
        return {job.cell.name: job.error for job in self._jobs if job.status == FAILED}

    @functools.cached_property
    def runs(self) -> list[Run]:
        """The runs that are complete."""
        return [Run(cell.run.path) for cell in self.cells if cell.is_complete()]

    def rows(self) -> list[dict[str, Any]]:
        """A dict for each setting, over its seeds; ``pandas.DataFrame(result.rows())`` shows all.

        Accuracies are shares of 1, ``..._std`` are standard deviations of a sample. Rounds to a
        target are there only if all seeds reached it. ``best`` marks the best setting of an
        algorithm, and ``best_by`` says by what it was chosen: by the accuracy on held-out training
        examples if there are some (``holdout``), else by test accuracy.
        """
        names, targets = results.varied(self.cells), results.targets(self.cells)
        return [row.as_dict(names, targets) for row in results.rows(self.cells)]

    def table(self) -> str:
        """The settings over their seeds, in per cent of test accuracy."""
        return str(results.table(self.cells))

    def compare(
        self, *, baseline: str | None = None, targets: Iterable[float] | None = None
    ) -> Comparison:
        """The complete runs side by side; see :func:`tf_fedsam.compare`."""
        return compare(self.runs, baseline=baseline, targets=targets)

    def __repr__(self) -> str:
        done = sum(job.status == DONE for job in self._jobs)
        return f"SweepResult({str(self.folder)!r}, {done} of {len(self.cells)} cells done)"

    def _repr_html_(self) -> str:
        return results.table(self.cells).html()


def visible_gpus(num_jobs: int) -> list[str]:
    """Names of the GPUs to give to cells, if several run at a time."""
    number = len(tf.config.list_physical_devices("GPU"))
    if num_jobs == 1 or not number:
        return []
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return named if named != [""] else [str(i) for i in range(number)]


def cell_devices(num_jobs: int, on_gpus: bool) -> str | None:
    """A share of the cores, the same for every cell; one that runs alone takes what there is."""
    if num_jobs == 1 or on_gpus:
        return None
    return f"cpu:{max(1, devices.available_cores() // num_jobs)}"


def _check_tasks(cells: Sequence[Cell], imports: Sequence[str]) -> None:
    """A data set that was added in this process is not there in another."""
    added = sorted({cell.dataset for cell in cells} & set(tasks.added()))
    if added and not imports:
        raise InputError(
            f"A cell runs in a process of its own, where nobody adds the data set {added[0]}. Put "
            f"tf_fedsam.add_task(...) into a module and name it: sweep(..., imports=['MODULE'])."
        )
