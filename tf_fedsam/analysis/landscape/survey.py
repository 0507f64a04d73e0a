"""What is to be computed for runs, and computing it."""

import dataclasses
import functools
import json
import pathlib
import sys
import time
from collections.abc import Callable, Sequence

import keras
from tqdm import tqdm

from tf_fedsam import text
from tf_fedsam.analysis.landscape import store
from tf_fedsam.analysis.landscape.compared import Compared, architecture, read_solution
from tf_fedsam.analysis.landscape.examples import Data
from tf_fedsam.analysis.landscape.loss import LossFunction
from tf_fedsam.analysis.landscape.plane import Plane, filter_axes, random_directions
from tf_fedsam.analysis.landscape.points import Point, between_points
from tf_fedsam.analysis.landscape.store import PointStore
from tf_fedsam.analysis.landscape.view import View
from tf_fedsam.errors import InputError
from tf_fedsam.runs.experiment import build_network


@dataclasses.dataclass(frozen=True)
class Work:
    """Points of a plane that are wanted, and where their values are kept.

    Planes are made when they are needed, since those of many large models fill the memory.
    """

    name: str
    make_plane: Callable[[], Plane]
    points: list[Point]
    store: PointStore


@dataclasses.dataclass(frozen=True)
class Survey:
    """Runs and the points of the planes around and between them.

    Attributes:
        view: what is looked at.
        runs: whose solutions are in the middle.
        data: what the loss is the mean of.
        network: of all runs; its values do not count.
        around: the planes around the runs.
        between: the lines from each run to the next one.
    """

    view: View
    runs: Sequence[Compared]
    data: Data
    network: keras.Model
    around: Sequence[Work]
    between: Sequence[Work]

    @property
    def works(self) -> list[Work]:
        return [*self.around, *self.between]


def plan(view: View, runs: Sequence[Compared], data: Data, points: pathlib.Path) -> Survey:
    """What is to be computed.

    Args:
        view: what is looked at.
        runs: that can be compared.
        data: what the loss is the mean of.
        points: folder of what is known already; it need not exist.
    """
    first = runs[0].problem
    shape = tuple(data.examples.x.shape[1:])
    network = build_network(first, shape, data.num_classes, pretrained=False)
    solutions = [read_solution(network, run) for run in runs]
    axes = filter_axes(network)
    if all(along is None for along in axes):
        raise InputError(
            f"The trainable part of the model ({first.trainable!r}) has only biases and "
            f"normalisation parameters, which do not move on a surface. Expected: some kernel."
        )
    shapes = [tuple(variable.shape) for variable in network.trainable_variables]
    directions = random_directions(shapes, view.seed)
    about = json.dumps([architecture(runs[0]), vars(data.preprocess)], default=str, sort_keys=True)

    def work(name: str, make: Callable[[], Plane], wanted: list[Point]) -> Work:
        key = store.fingerprint(make(), data.examples, about)
        return Work(name, make, wanted, PointStore(points / f"{key}.npz"))

    around = [
        work(run.label, functools.partial(Plane.around, solution, directions, axes), view.points())
        for run, solution in zip(runs, solutions, strict=True)
    ]
    between = [
        work(
            f"{runs[i].label} to {runs[i + 1].label}",
            functools.partial(Plane.between, solutions[i], solutions[i + 1]),
            between_points(view.grid),
        )
        for i in range(len(runs) - 1 if view.between else 0)
    ]
    return Survey(view, runs, data, network, around, between)


def compute(survey: Survey, verbose: bool = True) -> None:
    """Evaluates what is missing."""
    works, data = survey.works, survey.data
    total = sum(len(set(work.points)) for work in works)
    missing = sum(len(work.store.missing(work.points)) for work in works)
    if verbose and not missing:
        text.say("All points are known from before; nothing is computed.")
    elif verbose and missing < total:
        text.say(f"{total - missing:,} points are known from before.")
    if not missing:
        return
    losses = LossFunction(survey.network, data.examples, data.preprocess, survey.view.batch_size)
    progress = Progress(total - missing, total) if verbose else None
    try:
        for work in works:
            if work.store.missing(work.points):
                evaluate = functools.partial(losses, work.make_plane())
                if progress is None:
                    store.fill(work.store, work.points, evaluate)
                else:
                    progress.begin(work.name)
                    store.fill(work.store, work.points, evaluate, progress.advance)
    finally:
        if progress is not None:
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
            text.say(f"point {self._done:>5}/{self._total}  {self._name}")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
