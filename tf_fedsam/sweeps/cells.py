"""From what a sweep varies to its cells, each checked without training.

The cells are the product of data sets, algorithms, axes and seeds. A hyper-parameter goes only to
the algorithms that have it and a model's option only to the models that have it; cells that are the
same in the end are one. Cells of the first seed come first, so that there is a whole comparison
early.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tf_fedsam import models
from tf_fedsam.algorithms import registry as algorithms
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.runs import task as tasks
from tf_fedsam.runs.algorithm import make_algorithm
from tf_fedsam.runs.config import (
    GROUPED,
    SETTINGS,
    ResolvedConfig,
    RunConfig,
    hparam_defaults,
    parse_value,
)
from tf_fedsam.runs.folder import RunFolder
from tf_fedsam.sweeps import names
from tf_fedsam.sweeps.description import Axis, Layer, Sweep, Values
from tf_fedsam.sweeps.problems import Problems

MAX_CELLS = 10_000


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        name: of its folder, the same whenever the sweep is started.
        config: what it was given.
        resolved: with everything filled in.
        varied: the settings that the axes gave it, with their values as resolved.
        run: its folder.
    """

    name: str
    config: RunConfig
    resolved: ResolvedConfig
    varied: Mapping[str, Any]
    run: RunFolder

    @property
    def algo(self) -> str:
        return self.config.algo

    @property
    def dataset(self) -> str:
        return self.config.dataset

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def rounds(self) -> int:
        return self.resolved.rounds

    def is_complete(self) -> bool:
        """Whether its results count; an export that is gone is made good while that can be done."""
        settings = self.resolved.as_dict()
        if self.run.is_complete(settings):
            return True
        return self.run.came_to_its_end(settings) and not self.run.has_checkpoints()


@dataclasses.dataclass(frozen=True)
class _Draft:
    """A cell before it was looked at."""

    algo: str
    dataset: str
    seed: int
    model: str | None
    assigned: Values
    varied: tuple[str, ...]

    @property
    def name(self) -> str:
        return names.cell_name(
            self.algo, self.dataset, self.seed, {n: self.assigned[n] for n in self.varied}
        )

    def __str__(self) -> str:
        values = [f"{name}={self.assigned[name]}" for name in self.varied]
        return ", ".join([f"algo={self.algo}", *values])


def make(sweep: Sweep, devices: str | None = None) -> tuple[list[Cell], int]:
    """The cells, and how many were left out because they are the same as another.

    Args:
        sweep: what to vary.
        devices: for the cells that have no setting of it.

    Raises:
        InputError: lists everything that is wrong in any cell.
    """
    for cached in (_hparams, _options):
        cached.cache_clear()  # a user's own file may have changed
    problems = Problems()
    _check_papers(sweep, problems)
    drafts = list(_drafts(sweep))
    _check_names(sweep, drafts, problems)
    cells: dict[str, Cell] = {}
    origins: dict[str, _Draft] = {}
    known: set[str] = set()
    for draft in drafts:
        try:
            cell = _make_cell(draft, sweep, devices)
        except InputError as error:
            problems.add(error, draft.name)
            continue
        key = repr(sorted(cell.resolved.as_dict().items()))
        if key in known:
            continue
        known.add(key)
        if cell.name in cells:
            problems.add(
                f"Two cells with different settings would have the same folder. Received: "
                f"{origins[cell.name]} and {draft}. Use values whose names differ.",
                cell.name,
            )
        cells[cell.name], origins[cell.name] = cell, draft
    problems.refuse()
    return list(cells.values()), len(drafts) - len(cells)


def tuned_notes(cells: Sequence[Cell]) -> list[str]:
    """Where a data set brings values for one algorithm alone, which a comparison should know."""
    notes = []
    for key in dict.fromkeys(map(_brings, cells)):
        some = [cell for cell in cells if _brings(cell) == key]
        algo, dataset, model = key
        task, own = some[0].resolved.task, some[0].resolved.algorithm.name
        brought = {f"hparams.{n}": value for n, value in task.hparams_of(own, model).items()}
        brought |= task.algorithm_settings.get(own, {})
        used = {
            name: value
            for name, value in brought.items()
            if not all(_gives(cell.config, name) for cell in some)
        }
        if used:
            values = ", ".join(f"{name}={value}" for name, value in used.items())
            notes.append(f"{dataset} brings {values} for {algo}; set it for a fair comparison.")
    return notes


def _brings(cell: Cell) -> tuple[str, str, str]:
    return cell.algo, cell.dataset, cell.resolved.model


def _gives(config: RunConfig, name: str) -> bool:
    group, dot, inner = name.partition(".")
    return inner in getattr(config, group) if dot else getattr(config, name) is not None


def _drafts(sweep: Sweep) -> Iterator[_Draft]:
    plans = [
        (dataset, algo, *_merged(sweep, dataset, algo))
        for dataset, algo in itertools.product(sweep.datasets, sweep.algos)
    ]
    number = len(sweep.seeds) * sum(
        math.prod(len(axis.choices) for axis in axes) for _, _, _, axes in plans
    )
    if number > MAX_CELLS:
        raise InputError(
            f"The sweep would have {number:,} cells. Expected: at most {MAX_CELLS:,}. Shorten "
            f"the lists."
        )
    for seed in sweep.seeds:
        for dataset, algo, settings, axes in plans:
            seen = set()
            for choices in itertools.product(*(axis.choices for axis in axes)):
                varied: Values = {name: v for choice in choices for name, v in choice.items()}
                assigned = settings | varied
                model = _model({**assigned, **sweep.fixed}, dataset)
                own = sweep.per_algo.get(algo, Layer()).names
                assigned = {
                    name: value
                    for name, value in assigned.items()
                    if name in own or _applies(name, algo, model)
                }
                key = repr(assigned)
                if key not in seen:  # the axis is not for this algorithm or this model
                    seen.add(key)
                    left = tuple(name for name in varied if name in assigned)
                    yield _Draft(algo, dataset, seed, model, assigned, left)


def _merged(sweep: Sweep, dataset: str, algo: str) -> tuple[Values, list[Axis]]:
    """Settings and axes; what is said for some cells replaces what is said for all."""
    settings: Values = {}
    axes: dict[str, Axis] = {}
    for layer in (
        sweep.common,
        sweep.per_dataset.get(dataset, Layer()),
        sweep.per_algo.get(algo, Layer()),
    ):
        new = layer.names
        settings = {name: v for name, v in settings.items() if name not in new} | layer.settings
        axes = {key: axis for key, axis in axes.items() if not axis.names & new}
        axes |= {k: a for k, a in layer.grid.items() if not a.algos or algo in a.algos}
    return settings, list(axes.values())


def _applies(name: str, algo: str, model: str | None) -> bool:
    """Whether an algorithm and a model have what a setting is about, as far as is known."""
    group, _, inner = name.partition(".")
    if group == "hparams":
        known = _hparams(algo)
    elif group == "model_options":
        known = _options(model)
    else:
        return True
    return known is None or inner in known


def _model(assigned: Mapping[str, Any], dataset: str) -> str | None:
    given = assigned.get("model")
    if given is not None:
        return str(given)
    try:
        return tasks.find(dataset).settings.get("model", SETTINGS["model"].default)
    except InputError:
        return None


@functools.cache
def _hparams(algo: str) -> frozenset[str] | None:
    """Names of an algorithm's hyper-parameters; ``None`` if there is no such algorithm."""
    try:
        algorithm = algorithms.find(algo)
    except InputError:
        return None  # the check of the cells says so
    return frozenset(field.name for field in dataclasses.fields(algorithm.Hparams))


@functools.cache
def _options(model: str | None) -> frozenset[str] | None:
    try:
        return None if model is None else frozenset(models.options(model))
    except InputError:
        return None


def _check_papers(sweep: Sweep, problems: Problems) -> None:
    """Grids that a paper states for other algorithms."""
    for layer, algos in sweep.layers:
        for key, axis in layer.grid.items():
            if axis.algos and not set(axis.algos) & set(algos):
                problems.add(
                    f"The paper states the values of {key} for {', '.join(axis.algos)}. Received: "
                    f"{', '.join(algos)}. Give a list of values instead."
                )


def _check_names(sweep: Sweep, drafts: Sequence[_Draft], problems: Problems) -> None:
    """Hyper-parameters and options for all that nobody has."""
    general = {n for layer in (sweep.common, *sweep.per_dataset.values()) for n in layer.names}
    for name in sorted(general):
        group, _, inner = name.partition(".")
        if group == "hparams":
            kind, having = "hyper-parameter", sweep.algos
            valid = {n for algo in having for n in _hparams(algo) or ()}
        elif group == "model_options":
            kind, having = "option", tuple(sorted({str(draft.model) for draft in drafts}))
            valid = {n for model in having for n in _options(model) or ()}
        else:
            continue
        if inner in valid:
            continue
        whose = ", ".join(having)
        if valid:
            problems.add(unknown(f"{kind} of any of {whose}:", inner, valid))
        else:
            problems.add(f"There is no {kind} of {whose}. Received: {name}. Remove it.")


def _make_cell(draft: _Draft, sweep: Sweep, devices: str | None) -> Cell:
    listed = {"algo": draft.algo, "dataset": draft.dataset, "seed": draft.seed}
    given = {**draft.assigned, **sweep.fixed, **listed}
    values = {name: _typed(name, v, draft) for name, v in given.items() if v is not None}
    config = RunConfig.from_values({"devices": devices, **values})
    resolved = config.resolve()
    make_algorithm(resolved)
    resolved.training_options()
    varied = {name: _value_in(resolved, name) for name in draft.varied}
    name = names.cell_name(draft.algo, draft.dataset, draft.seed, varied)
    name = names.shortened(name, resolved.fingerprint())
    return Cell(name, config, resolved, varied, RunFolder(sweep.out / name))


def _typed(name: str, value: Any, draft: _Draft) -> Any:
    """A value in the type of its setting; lists and numbers can stand for a text."""
    group, dot, inner = name.partition(".")
    if dot and group in GROUPED:
        like = _defaults(group, draft).get(inner)
        kind = type(like)
    elif name in SETTINGS:
        like, kind = None, SETTINGS[name].kind
    else:
        return value  # the config says that there is no such setting
    if isinstance(value, str):
        return parse_value(name, value, like)
    if kind is str:
        return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return value


def _defaults(group: str, draft: _Draft) -> Mapping[str, Any]:
    if group == "hparams":
        task = tasks.find(draft.dataset)
        return hparam_defaults(algorithms.find(draft.algo), task, draft.model or "")
    return {} if draft.model is None else models.options(draft.model)


def _value_in(config: ResolvedConfig, name: str) -> Any:
    """A setting's value; that of a short form is in the mapping it goes into."""
    place = SETTINGS[name].goes_into if name in SETTINGS else ""
    return getattr(config, place).get(name) if place else config.get(name)
