"""What a sweep varies, from a mapping or from a file of YAML or Python.

A file holds a mapping with ``algos`` and, if wanted, ``datasets``, ``seeds``, ``settings`` (values
of a run's settings), ``grid`` (lists of such values), ``per_algo`` and ``per_dataset``
(``settings`` and ``grid`` of one of them, which replace the general ones of the same name) and
``out``.
"""

import dataclasses
import numbers
import os
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np

from tf_fedsam import own_code, paths
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.runs.config import GROUPED, SETTINGS
from tf_fedsam.runs.config_files import read_mapping
from tf_fedsam.runs.names import LEFT_OUT
from tf_fedsam.sweeps import papers

# The settings that every cell gets from a list of the sweep.
LISTED = {"algo": "algos", "dataset": "datasets", "seed": "seeds"}
KEYS = (*LISTED.values(), "settings", "grid", "per_algo", "per_dataset", "out")

Values = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Axis:
    """Alternatives, one of which a cell has.

    Attributes:
        choices: each is some settings that go together, usually one; ``None`` leaves a setting out,
            and a text stands for what it would be on a command line.
        algos: the only algorithms that it is for; empty: all.
    """

    choices: tuple[Values, ...]
    algos: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        return {name for choice in self.choices for name in choice}


@dataclasses.dataclass(frozen=True)
class Layer:
    """Settings and axes that hold for all cells, or for those of a data set or an algorithm."""

    settings: Values = dataclasses.field(default_factory=dict)
    grid: Mapping[str, Axis] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Of all that it says something about."""
        return {*self.settings, *(name for axis in self.grid.values() for name in axis.names)}


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Everything a user said about a sweep.

    Attributes:
        algos, datasets, seeds: each with each.
        out: the folder of the sweep.
        common: for all cells.
        per_dataset, per_algo: for some; the later replaces the earlier.
        fixed: settings of every cell, which win over all others.
    """

    algos: tuple[str, ...]
    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    out: pathlib.Path
    common: Layer = Layer()
    per_dataset: Mapping[str, Layer] = dataclasses.field(default_factory=dict)
    per_algo: Mapping[str, Layer] = dataclasses.field(default_factory=dict)
    fixed: Values = dataclasses.field(default_factory=dict)

    @property
    def layers(self) -> list[tuple[Layer, tuple[str, ...]]]:
        """All layers, each with the algorithms that it is for."""
        general = [(layer, self.algos) for layer in (self.common, *self.per_dataset.values())]
        return general + [(layer, (algo,)) for algo, layer in self.per_algo.items()]


def describe(
    source: str | os.PathLike | Mapping[str, Any] | None = None,
    *,
    algos: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    seeds: Iterable[int | str] | None = None,
    grid: Mapping[str, Axis] | None = None,
    out: str | os.PathLike | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> Sweep:
    """A sweep from a mapping or a file, over which everything else that is given wins."""
    content, file = _content(source)
    common = _layer(content, "the sweep" if file is None else "the file")
    axes = dict(grid or {})
    replaced = {name for axis in axes.values() for name in axis.names}
    common = Layer(
        {name: value for name, value in common.settings.items() if name not in replaced},
        {k: axis for k, axis in common.grid.items() if not axis.names & replaced} | axes,
    )
    own_datasets = content.get("datasets", [SETTINGS["dataset"].default])
    chosen_algos = _names("algos", algos, content.get("algos"))
    return Sweep(
        chosen_algos,
        _names("datasets", datasets, own_datasets),
        _seeds(seeds if seeds is not None else content.get("seeds", [SETTINGS["seed"].default])),
        _folder(content.get("out") if out is None else out, file),
        common,
        _parts(content, "per_dataset", _names("datasets", None, own_datasets)),
        _parts(content, "per_algo", _names("algos", None, content.get("algos", chosen_algos))),
        {name: _value(name, value) for name, value in (fixed or {}).items()},
    )


def axes_of_texts(texts: Sequence[str]) -> dict[str, Axis]:
    """Axes that are written as ``NAME=VALUE,VALUE,...`` or ``NAME=@PAPER``.

    Between values that have commas stands ``;``, and ``none`` leaves the setting out.
    """
    axes = dict(_axis_of_text(text) for text in texts)
    if len(axes) < len(texts):
        raise InputError(
            f"grid has a name twice. Received: {', '.join(texts)}. Give it once.", "grid"
        )
    return axes


def _content(source: str | os.PathLike | Mapping[str, Any] | None) -> tuple[Values, str | None]:
    """The mapping, and the file that it is from."""
    if isinstance(source, ml_collections.ConfigDict):
        source = source.to_dict()
    if source is None or isinstance(source, Mapping):
        content, file = dict(source or {}), None
    else:
        file = os.fspath(source)
        content = _read(file)
    for key in content:
        if key not in KEYS:
            raise unknown(f"key of {'the sweep' if file is None else file}", key, KEYS)
    return content, file


def _folder(where: Any, file: str | None) -> pathlib.Path:
    if where is None and file is not None:
        where = f"sweeps/{pathlib.Path(file.partition(':')[0]).stem}"
    if not isinstance(where, (str, os.PathLike)) or not os.fspath(where):
        raise InputError(
            "Where to? Expected: out=FOLDER, in which each cell gets its folder.", "out"
        )
    return paths.expanded(where)


def _read(file: str) -> Values:
    """The mapping in ``path.yaml``, or in ``path.py``: ``get_config()``, or a dict ``sweep``."""
    if own_code.is_reference(file):
        return dict(_from_python(file))
    if pathlib.Path(file).suffix not in (".yaml", ".yml", ".json"):
        raise InputError(f"config must be a .yaml or a .py file. Received: {file}.", "config")
    return read_mapping(file)


def _from_python(reference: str) -> Mapping[str, Any]:
    module, wanted = own_code.load_module(reference, "Sweep")
    names = [wanted] if wanted else ["get_config", "sweep"]
    found = next((getattr(module, name) for name in names if hasattr(module, name)), None)
    if callable(found) and not isinstance(found, Mapping):
        try:
            found = found()
        except Exception as error:  # a user's own code may raise anything
            raise InputError(
                f"config={reference}: {names[0]}() failed: {own_code.describe(error)} Expected: "
                f"a mapping. Correct the file.",
                "config",
            ) from error
    if isinstance(found, ml_collections.ConfigDict):
        found = found.to_dict()
    if not isinstance(found, Mapping):
        raise InputError(
            f"config={reference} has no {' or '.join(names)}. Expected: a function "
            f"get_config() that returns a mapping, or a mapping named sweep.",
            "config",
        )
    return found


def _parts(content: Mapping[str, Any], key: str, valid: Collection[str]) -> dict[str, Layer]:
    parts = content.get(key) or {}
    if not isinstance(parts, Mapping):
        raise InputError(f"{key} must be a mapping from names. Received: {parts!r:.60}.")
    for name, part in parts.items():
        if name not in valid:
            raise unknown(f"name in {key}", name, map(str, valid))
        if not isinstance(part, Mapping) or set(part) - {"settings", "grid"}:
            raise InputError(
                f"{key}.{name} must be a mapping of settings and grid. Received: {part!r:.80}."
            )
    return {name: _layer(part, f"{key}.{name}") for name, part in parts.items()}


def _layer(content: Mapping[str, Any], where: str) -> Layer:
    settings = {
        name: _value(name, value) for name, value in _flat(content, "settings", where).items()
    }
    grid = {name: _axis(name, v) for name, v in _flat(content, "grid", where).items()}
    seen = set(settings)
    for name in settings:
        _refuse_listed(name)
    for axis in grid.values():
        if both := axis.names & seen:
            raise InputError(
                f"{where} says twice what {', '.join(sorted(both))} is. Leave it in one place."
            )
        seen |= axis.names
    return Layer(settings, grid)


def _flat(content: Mapping[str, Any], key: str, where: str) -> Values:
    """The mapping under a key, with ``hparams: {rho: x}`` as ``hparams.rho: x``."""
    found = content.get(key) or {}
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise InputError(
            f"{key} of {where} must be a mapping from settings. Received: {found!r:.60}."
        )
    return flat(found)


def flat(values: Mapping[str, Any]) -> Values:
    """Settings with the entries of mappings by their dotted names."""
    found: Values = {}
    for name, value in values.items():
        inside = value.items() if name in GROUPED and isinstance(value, Mapping) else None
        found |= {name: value} if inside is None else {f"{name}.{k}": v for k, v in inside}
    return found


def _axis_of_text(text: str) -> tuple[str, Axis]:
    name, equals, values = text.removeprefix("--").partition("=")
    if not equals or not name or not values:
        raise InputError(
            f"grid must be NAME=VALUE,VALUE,... Received: {text!r}. Try grid=lr=0.01,0.1.", "grid"
        )
    if values.startswith("@"):
        return name, _axis(name, values)
    parts = values.split(";" if ";" in values else ",")
    return name, _axis(name, [None if part == LEFT_OUT else part for part in parts])


def _axis(name: str, values: Any) -> Axis:
    _refuse_listed(name)
    if isinstance(values, str):
        grid = papers.find(values, name)
        return Axis(tuple({name: value} for value in grid.values), grid.algos)
    values = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(values, Sequence) or not values:
        raise InputError(
            f"grid: {name} must be a list of values, or the name of a paper's grid. Received: "
            f"{values!r:.60}. Try {name}: [0.01, 0.1]."
        )
    choices = []
    for value in values:
        if isinstance(value, Mapping):  # some settings that go together; the name is only a label
            choice = _flat({"choice": value}, "choice", f"grid.{name}")
            for inner in choice:
                _refuse_listed(inner)
            choices.append({inner: _value(inner, v) for inner, v in choice.items()})
        else:
            choices.append({name: _value(name, value)})
    return Axis(tuple(choices))


def _refuse_listed(name: str) -> None:
    if name in LISTED:
        raise InputError(f"{name} cannot be a setting or a grid. Use {LISTED[name]} instead.")


def _value(name: str, value: Any) -> Any:
    """A value as a setting may have it, lists as tuples."""
    plain = (bool, int, float, str)
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    if value is None or isinstance(value, plain):
        return value
    if isinstance(value, Sequence) and all(isinstance(item, plain) for item in value):
        return tuple(value)
    raise InputError(f"{name} has a value that no setting can have. Received: {value!r:.60}.")


def _names(key: str, given: Sequence[str] | None, described: Any) -> tuple[str, ...]:
    names = given if given is not None else described
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) and n for n in names):
        names = names if names is None else f"{names!r:.60}"
        example = "fedavg,fedsam" if key == "algos" else SETTINGS["dataset"].default
        raise InputError(
            f"{key} must be a list of names. Received: {names or 'none'}. Try {key}={example}.", key
        )
    return _each_once(key, names)


def _seeds(received: Any) -> tuple[int, ...]:
    try:
        if isinstance(received, (str, Mapping)):
            raise ValueError
        seeds = [int(seed) if isinstance(seed, str) else seed for seed in received]
        if not all(isinstance(s, numbers.Integral) and not isinstance(s, bool) for s in seeds):
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(
            f"seeds must be a list of whole numbers. Received: {received!r:.60}. Try seeds=0,1,2.",
            "seeds",
        ) from None
    return _each_once("seeds", map(int, seeds))


def _each_once(key: str, values: Iterable[Any]) -> tuple[Any, ...]:
    values = list(values)
    if not values or len(set(values)) < len(values):
        received = ",".join(map(str, values)) or "none"
        raise InputError(f"{key} must be at least one, each once. Received: {received}.", key)
    return tuple(values)
