"""Runs that are done, read from their folders to be looked at side by side."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from tf_fedsam import models
from tf_fedsam.analysis.landscape.plane import Solution
from tf_fedsam.errors import InputError
from tf_fedsam.own_code import is_reference
from tf_fedsam.runs import export
from tf_fedsam.runs.config import SETTINGS, ResolvedConfig, RunConfig, of_group, of_role
from tf_fedsam.runs.run import Run
from tf_fedsam.runs.settings import Group, Role
from tf_fedsam.runs.task import Task

# Of a run's settings, those that say what the data and the model are.
DATA = (*of_group(Group.DATA), *of_role(Role.SEED))
MODEL = tuple(name for name in of_group(Group.MODEL) if SETTINGS[name].role is Role.PROBLEM)
# Those that may be told apart by: not where things lie, nor what leaves the training as it is. The
# method begins the label, and its own values are told among runs of that method only.
TOLD = {*of_role(Role.PROBLEM, Role.SEED, Role.METHOD, Role.TUNING)} - {"algo", "hparams"}
NEEDED = ("summary.json", "final_weights.npz")


class IncompleteRunError(InputError):
    """A run that is not done.

    Attributes:
        what: what is missing, in a sentence.
        folder: of the run.
    """

    def __init__(self, what: str, folder: pathlib.Path):
        super().__init__(
            f"{what} Finish it first:\n  run = tf_fedsam.Run({str(folder)!r})\n"
            f"  tf_fedsam.run(run.config, run.folder)"
        )
        self.what = what
        self.folder = folder


@dataclasses.dataclass(frozen=True)
class Compared:
    """A run that is done.

    Attributes:
        run: it.
        problem: its data and model; its algorithm, which may be a file that is gone, is left out.
        label: for people, unique among the runs compared.
    """

    run: Run
    problem: ResolvedConfig
    label: str = ""

    @property
    def folder(self) -> pathlib.Path:
        return self.run.folder

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Fingerprints of what the run read."""
        return self.run.config_file["inputs"]


def read_all(runs: Sequence[Run | str | os.PathLike], task: Task | None = None) -> list[Compared]:
    """Runs that can be compared, with labels."""
    compared = labelled([read(run, task) for run in runs])
    check_comparable(compared)
    return compared


def read(run: Run | str | os.PathLike, task: Task | None = None) -> Compared:
    """A run from its folder; refused if it is not complete."""
    run = Run(run.folder if isinstance(run, Run) else run)  # it may have gone on since
    needed = (*NEEDED, export.network_file(run.folder).name)
    lacking = [name for name in needed if not (run.folder / name).is_file()]
    if lacking:
        what = f"The run {run.folder} is not complete: {', '.join(lacking)} is not there."
        raise IncompleteRunError(what, run.folder)
    kept = {n: v for n, v in run.config.given.items() if n in (*DATA, *MODEL)}
    return Compared(run, RunConfig(**kept).resolve(task))


def labelled(compared: Sequence[Compared]) -> list[Compared]:
    """The runs with labels: the algorithm and what differs."""
    settings = [each.run.config_file["settings"] for each in compared]
    names = sorted(set.intersection(*map(set, settings)) & TOLD)
    told = [name for name in names if len({repr(each[name]) for each in settings}) > 1]
    labels = []
    for each, mine in zip(compared, settings, strict=True):
        rivals = [other for other in settings if other.get("algo") == mine.get("algo")]
        own = _hparams(mine)
        varying = [
            name for name in own if len({repr(_hparams(rival).get(name)) for rival in rivals}) > 1
        ]
        different = [f"{name}={own[name]}" for name in varying]
        different += [f"{name}={mine[name]}" for name in told if mine[name] is not None]
        labels.append(" ".join([each.run.algo, *different]))
    labels = [
        f"{label} ({each.folder.name or each.folder})" if labels.count(label) > 1 else label
        for each, label in zip(compared, labels, strict=True)
    ]
    if len(set(labels)) < len(labels):
        labels = [f"{i + 1}: {label}" for i, label in enumerate(labels)]
    return [dataclasses.replace(c, label=label) for c, label in zip(compared, labels, strict=True)]


def _hparams(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    found = settings.get("hparams")
    return found if isinstance(found, dict) else {}


def check_comparable(compared: Sequence[Compared]) -> None:
    """Refuses runs whose losses are not of one function of one kind of weights."""
    first = compared[0]
    for each in compared[1:]:
        there, now = (c.inputs.get("data") for c in (first, each))
        if there != now:
            settings = [
                {name: c.run.config_file["settings"].get(name) for name in DATA}
                for c in (first, each)
            ]
            words = _different(*settings) or f"the content, {there} and {now}"
            raise InputError(
                f"{first.folder} and {each.folder} have different data, so their losses cannot be "
                f"compared. Different: {words}. Draw them one by one, each with its own out.",
                "out",
            )
        different = _different(architecture(first), architecture(each))
        if different:
            raise InputError(
                f"{first.folder} and {each.folder} have different architectures, so that they "
                f"cannot share directions. Different: {different}. Draw them one by one, each with "
                f"its own out.",
                "out",
            )


def _different(left: Mapping[str, Any], right: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{name}, {left.get(name)!r} and {right.get(name)!r}"
        for name in sorted({*left, *right})
        if left.get(name) != right.get(name)
    )


def architecture(compared: Compared) -> dict[str, Any]:
    """All that decides a model apart from its weights."""
    problem = compared.problem
    own = is_reference(problem.model)
    inert = models.inert_options(problem.model)
    return {
        "model": problem.model.rpartition(":")[2] if own else problem.model,
        "content of the model's file": compared.inputs.get("model"),
        "trainable": problem.trainable,
        **{name: v for name, v in problem.model_options.items() if name not in inert},
    }


def read_solution(network: keras.Model, compared: Compared) -> Solution:
    """The run's weights and BatchNorm statistics."""
    export.read_model(network, compared.folder)
    solution = Solution.of(network)
    if not all(np.isfinite(value).all() for value in (*solution.weights, *solution.state)):
        raise InputError(
            f"The model of {compared.folder} is not finite: the run diverged, and there is no "
            f"surface around it. Leave it out."
        )
    return solution
