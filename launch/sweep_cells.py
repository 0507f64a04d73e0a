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
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from launch import flags as settings_flags
from launch.experiment import (
    fingerprint,
    load_data,
    make_algorithm,
    make_partition,
    read_weights,
    training_options,
)
from launch.flags import DEFAULTS, FREE_ON_RESUME, Settings
from launch.repeat import GROUPS, PATHS
from launch.sweep_config import LEFT_OUT, TAKEN, Axis, Layer, Sweep, Values
from tasks import registry as tasks_registry
from tf_fedsam import models
from tf_fedsam.algorithms import registry as algorithms_registry
from tf_fedsam.data import sampling
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.own_code import is_reference
from tf_fedsam.state.run_folder import RunFolder

MAX_CELLS = 10_000
_SHOWN_CELLS, _SHOWN_PROBLEMS = 5, 20
_LONGEST_NAME = 150
_DATA = ("dataset", "data_file", "data_dir", "subset", "image_size", "stream")
_SPLIT = (
    *("partition", "num_clients", "alpha", "replacement", "size_sigma"),
    *("classes_per_client", "shards_per_client", "client_schedule", "init_weights"),
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        name: of its folder, the same whenever the sweep is started.
        algo, dataset, seed: of it.
        varied: the settings that the axes gave it, with their values as resolved.
        args: its command line.
        settings: as resolved.
        run: its folder.
    """

    name: str
    algo: str
    dataset: str
    seed: int
    varied: Mapping[str, Any]
    args: tuple[str, ...]
    settings: Settings
    run: RunFolder

    @property
    def rounds(self) -> int:
        return self.settings.rounds

    @property
    def command(self) -> str:
        return settings_flags.command(self.args)

    def is_complete(self) -> bool:
        return self.run.is_complete(self.rounds)


@dataclasses.dataclass(frozen=True)
class _Draft:
    """A cell before it was looked at."""

    algo: str
    dataset: str
    seed: int
    model: str | None
    assigned: Values
    varied: tuple[str, ...]


class Problems:
    """What is wrong, and in which cells."""

    def __init__(self) -> None:
        self._cells: dict[str, list[str]] = {}

    def add(self, error: InputError | str, *names: str) -> None:
        self._cells.setdefault(str(error), []).extend(names)

    def refuse(self) -> None:
        """Raises one error for all, if there are any."""
        if not self._cells:
            return
        lines = ["The sweep cannot run; nothing was started."]
        for message, names in list(self._cells.items())[:_SHOWN_PROBLEMS]:
            lines.append(f"- {message}")
            if names:
                more = len(names) - _SHOWN_CELLS
                rest = f" and {more} more" if more > 0 else ""
                lines.append(f"  in {', '.join(names[:_SHOWN_CELLS])}{rest}")
        if len(self._cells) > _SHOWN_PROBLEMS:
            lines.append(f"... and {len(self._cells) - _SHOWN_PROBLEMS} more.")
        raise InputError("\n".join(lines))


def make(sweep: Sweep, devices: str | None = None) -> tuple[list[Cell], int]:
    """The cells, and how many were left out because they are the same as another.

    Args:
        sweep: what to vary.
        devices: for the cells that have no setting of it.

    Raises:
        InputError: lists everything that is wrong in any cell.
    """
    problems = Problems()
    _check_arguments(sweep, problems)
    drafts = list(_drafts(sweep))
    _check_names(sweep, drafts, problems)
    cells: dict[str, Cell] = {}
    known: set[str] = set()
    for draft in drafts:
        try:
            cell = _make_cell(draft, sweep, devices)
        except InputError as error:
            problems.add(error, _name(draft, draft.assigned))
            continue
        key = repr(sorted(cell.settings.as_dict().items()))
        if key in known:
            continue
        known.add(key)
        if cell.name in cells:
            problems.add(
                f"Two cells with different settings would have the same folder. Received: "
                f"{cell.command} and {cells[cell.name].command}. Use values whose names differ.",
                cell.name,
            )
        cells[cell.name] = cell
    problems.refuse()
    return list(cells.values()), len(drafts) - len(cells)


def check_folders(cells: Sequence[Cell]) -> None:
    """Refuses folders that hold other runs."""
    problems = Problems()
    for cell in cells:
        run = cell.run
        try:
            inputs = run.config()["inputs"] if run.config_exists() else {}
            run.check(cell.settings.as_dict(), FREE_ON_RESUME, inputs)
        except InputError as error:
            problems.add(error)
    problems.refuse()


def check_data(cells: Sequence[Cell]) -> None:
    """Reads the labels of each data set once and makes each split for one seed.

    What is to be downloaded is so before two cells want it at the same time.
    """
    problems = Problems()
    of_data: dict[tuple, dict[tuple, list[Cell]]] = {}
    for cell in cells:
        data, split = ([getattr(cell.settings, n) for n in names] for names in (_DATA, _SPLIT))
        of_data.setdefault(tuple(data), {}).setdefault(tuple(split), []).append(cell)
    for splits in of_data.values():
        names = [cell.name for same in splits.values() for cell in same]
        try:
            loaded = load_data(next(iter(splits.values()))[0].settings, labels_only=True)
        except (InputError, OSError) as error:
            problems.add(str(error), *names)
            continue
        for same in splits.values():
            settings = same[0].settings
            try:
                make_partition(settings, loaded)
                if settings.client_schedule is not None:
                    sampling.load_schedule(settings.client_schedule)
                if settings.init_weights is not None:
                    read_weights(pathlib.Path(settings.init_weights))
            except (InputError, OSError) as error:
                problems.add(str(error), *(cell.name for cell in same))
    problems.refuse()


def tuned_notes(cells: Sequence[Cell]) -> list[str]:
    """Where a data set brings values for one algorithm alone, which a comparison should know."""
    notes = []
    for algo, dataset in dict.fromkeys((cell.algo, cell.dataset) for cell in cells):
        some = [cell for cell in cells if (cell.algo, cell.dataset) == (algo, dataset)]
        task, own = some[0].settings.task, some[0].settings.algorithm.name
        brought = {f"hparams.{name}": v for name, v in task.hparams.get(own, {}).items()}
        brought |= task.algorithm_settings.get(own, {})
        used = {
            name: value
            for name, value in brought.items()
            if any(_given(cell.args, name) is None for cell in some)
        }
        if used:
            values = ", ".join(f"{name}={value}" for name, value in used.items())
            notes.append(f"{dataset} brings {values} for {algo}; set it for a fair comparison.")
    return notes


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
                model = _model(assigned, sweep, dataset)
                own = sweep.per_algo.get(algo, Layer()).names
                assigned = {
                    name: value
                    for name, value in assigned.items()
                    if name in own or _applies(name, algo, model)
                }
                key = tuple(assigned.items())
                if key not in seen:  # the axis is not for this algorithm or this model
                    seen.add(key)
                    names = tuple(name for name in varied if name in assigned)
                    yield _Draft(algo, dataset, seed, model, assigned, names)


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


def _model(assigned: Values, sweep: Sweep, dataset: str) -> str | None:
    given = _given(sweep.passed, "model") or assigned.get("model")
    if given is not None:
        return given
    try:
        return tasks_registry.find(dataset).settings.get("model", DEFAULTS["model"])
    except InputError:
        return None


@functools.cache
def _hparams(algo: str) -> frozenset[str] | None:
    """Names of an algorithm's hyper-parameters; ``None`` if there is no such algorithm."""
    try:
        algorithm = algorithms_registry.find(algo)
    except InputError:
        return None  # the check of the cells says so
    return frozenset(field.name for field in dataclasses.fields(algorithm.Hparams))


@functools.cache
def _options(model: str | None) -> frozenset[str] | None:
    try:
        return None if model is None else frozenset(models.options(model))
    except InputError:
        return None


def _check_arguments(sweep: Sweep, problems: Problems) -> None:
    """What contradicts itself."""
    for name in TAKEN:
        if _given(sweep.passed, name) is not None:
            problems.add(f"--{name} is given by the sweep. Use {TAKEN[name]}, and remove it.")
    general = [sweep.common, *sweep.per_dataset.values()]
    layers = [(layer, sweep.algos) for layer in general]
    layers += [(layer, (algo,)) for algo, layer in sweep.per_algo.items()]
    for layer, algos in layers:
        for key, axis in layer.grid.items():
            if any(_given(sweep.passed, name) is not None for name in axis.names):
                problems.add(f"{key} is varied in the grid and given after --. Remove one of them.")
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
    assigned = {n: v for n, v in draft.assigned.items() if _given(sweep.passed, n) is None}
    args = [f"--algo={draft.algo}", f"--dataset={draft.dataset}", f"--seed={draft.seed}"]
    args += [f"--{name}={value}" for name, value in assigned.items() if value is not None]
    args += sweep.passed
    if devices is not None and _given(args, "devices") is None:
        args.append(f"--devices={devices}")
    settings = _resolve(args)
    varied = {name: _resolved(settings, name, draft.assigned[name]) for name in draft.varied}
    name = _name(draft, varied)
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 9]}-{fingerprint(settings)}"
    folder = sweep.out / name
    args.append(f"--output_dir={folder}")
    return Cell(
        name,
        draft.algo,
        draft.dataset,
        draft.seed,
        varied,
        tuple(args),
        settings,
        RunFolder(folder),
    )


def _resolve(args: Sequence[str]) -> Settings:
    """The settings of a command line, with all checks that need no data."""
    settings_flags.define()
    for flag in flags.FLAGS.flags_by_module_dict()[settings_flags.__name__]:
        flag.unparse()  # what the last cell had
    if _given(args, "from_config") is not None or _given(args, "list_algorithms") is not None:
        raise InputError("--from_config and --list_algorithms are not for a sweep. Remove them.")
    settings_flags.parse(["launch.main", *args])
    settings = settings_flags.resolve(flags.FLAGS)
    make_algorithm(settings)
    training_options(settings)
    return settings


def _resolved(settings: Settings, name: str, given: str | None) -> Any:
    """A setting's value; what was given if it is none, such as how much is logged."""
    group, dot, inner = name.partition(".")
    if dot and group in GROUPS:
        return getattr(settings, group)[inner]
    if name == "hidden_units":
        return settings.model_options.get(name, given)
    return settings.values.get(name, given)


def _given(args: Sequence[str], name: str) -> str | None:
    """The value that arguments give a flag, if they do; of ``--flag`` alone it means nothing."""
    value = None
    for position, arg in enumerate(args):
        if match := re.fullmatch(rf"--?(?:no)?{re.escape(name)}(?:=(.*))?", arg, re.DOTALL):
            following = args[position + 1] if position + 1 < len(args) else ""
            value = following if match[1] is None else match[1]
    return value


def _name(draft: _Draft, values: Mapping[str, Any]) -> str:
    """Does not depend on the order in which axes are given."""
    varied = sorted(short(name) + _after(_plain(name, values[name])) for name in draft.varied)
    algo, dataset = _plain("algo", draft.algo), _plain("dataset", draft.dataset)
    return "-".join([algo, dataset, *varied, f"seed{draft.seed}"])


def short(name: str) -> str:
    """``rho`` for ``hparams.rho``, unless a flag has that name, too."""
    settings_flags.define()
    inner = name.partition(".")[2]
    return inner if inner and inner not in flags.FLAGS else name


def _after(value: str) -> str:
    return value if re.match(r"-?\d", value) else f"-{value}"


def _plain(name: str, value: Any) -> str:
    """A value for the name of a folder."""
    if value is None:
        return LEFT_OUT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    text = "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    if name in PATHS:
        text = pathlib.Path(text).stem
    elif is_reference(text):
        file, _, inner = text.rpartition(":")
        text = f"{pathlib.Path(file).stem}-{inner}"
    return re.sub(r"[^\w.+]+", "-", text).strip("-") or LEFT_OUT
