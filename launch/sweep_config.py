"""What a sweep varies, from flags or from a file of YAML or Python.

A file holds a mapping with ``algos`` and, if wanted, ``datasets``, ``seeds``, ``settings`` (values
of flags of launch.main), ``grid`` (lists of values of such flags), ``per_algo`` and ``per_dataset``
(``settings`` and ``grid`` of one of them, which replace the general ones of the same name) and
``out``. Flags win over the file.
"""

import dataclasses
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import ml_collections
import yaml

from launch import paper_grids
from launch.flags import DEFAULTS
from launch.repeat import GROUPS
from tf_fedsam import own_code
from tf_fedsam.errors import InputError, unknown

KEYS = ("algos", "datasets", "seeds", "settings", "grid", "per_algo", "per_dataset", "out")
# What the sweep itself gives to every cell.
TAKEN = {"algo": "algos", "dataset": "datasets", "seed": "seeds", "output_dir": "out"}
LEFT_OUT = "none"

Values = dict[str, str | None]


@dataclasses.dataclass(frozen=True)
class Axis:
    """Alternatives, one of which a cell has.

    Attributes:
        choices: each is some settings that go together, usually one; ``None`` leaves a flag out.
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
        common: for all cells.
        per_dataset, per_algo: for some; the later replaces the earlier.
        passed: arguments for every cell as they are, which win over all settings.
        out: the folder of the sweep.
    """

    algos: tuple[str, ...]
    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    out: pathlib.Path
    common: Layer = Layer()
    per_dataset: Mapping[str, Layer] = dataclasses.field(default_factory=dict)
    per_algo: Mapping[str, Layer] = dataclasses.field(default_factory=dict)
    passed: tuple[str, ...] = ()


def make(
    config: str | None = None,
    *,
    algos: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    seeds: Sequence[str] | None = None,
    grid: Sequence[str] = (),
    out: str | None = None,
    passed: Sequence[str] = (),
) -> Sweep:
    """A sweep from flags and, if there is one, a file."""
    content = {} if config is None else read(config)
    axes = dict(_axis_of_flag(text) for text in grid)
    if len(axes) < len(grid):
        raise InputError(f"--grid has a name twice. Received: {', '.join(grid)}. Give it once.")
    common = _layer(content, "the file")
    replaced = {n for axis in axes.values() for n in axis.names}
    common = Layer(
        {name: value for name, value in common.settings.items() if name not in replaced},
        {k: axis for k, axis in common.grid.items() if not axis.names & replaced} | axes,
    )
    own_datasets = content.get("datasets", [DEFAULTS["dataset"]])
    chosen_algos = _names("algos", algos, content.get("algos"))
    chosen_datasets = _names("datasets", datasets, own_datasets)
    where = out if out is not None else content.get("out")
    if where is None and config is not None:
        where = f"sweeps/{pathlib.Path(config.partition(':')[0]).stem}"
    if not isinstance(where, str) or not where:
        raise InputError("Where to? Expected: --out=FOLDER, in which each cell gets its folder.")
    return Sweep(
        chosen_algos,
        chosen_datasets,
        _seeds(seeds if seeds is not None else content.get("seeds", [DEFAULTS["seed"]])),
        pathlib.Path(where).expanduser(),
        common,
        _parts(content, "per_dataset", _names("datasets", None, own_datasets)),
        _parts(content, "per_algo", _names("algos", None, content.get("algos", chosen_algos))),
        tuple(passed),
    )


def read(reference: str) -> dict[str, Any]:
    """The mapping in ``path.yaml``, or in ``path.py``: ``get_config()``, or a dict ``sweep``."""
    if own_code.is_reference(reference):
        content = _from_python(reference)
    else:
        content = _from_yaml(pathlib.Path(reference).expanduser())
    if not isinstance(content, Mapping):
        raise InputError(
            f"--config={reference} must hold a mapping. Received: {content!r:.60}. Expected: "
            f"{', '.join(KEYS)}."
        )
    for key in content:
        if key not in KEYS:
            raise unknown(f"key of {reference}", key, KEYS)
    return dict(content)


def _from_yaml(path: pathlib.Path) -> Any:
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise InputError(f"--config must be a .yaml or a .py file. Received: {path}.")
    try:
        text = path.read_text()
        _refuse_repeated_keys(yaml.compose(text, Loader=yaml.SafeLoader), path)
        return yaml.safe_load(text)
    except OSError as error:
        raise InputError(f"--config={path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"--config={path} is not YAML: {reason}.") from None


def _refuse_repeated_keys(node: yaml.Node | None, path: pathlib.Path) -> None:
    """YAML would quietly take the last one."""
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                line = node.start_mark.line + 1
                raise InputError(f"{path} has {key!r} twice in the mapping of line {line}.")
    for child in node.value if isinstance(node, yaml.CollectionNode) else ():
        for inner in child if isinstance(child, tuple) else (child,):
            _refuse_repeated_keys(inner, path)


def _from_python(reference: str) -> Any:
    module, wanted = own_code.load_module(reference, "Sweep")
    names = [wanted] if wanted else ["get_config", "sweep"]
    found = next((getattr(module, name) for name in names if hasattr(module, name)), None)
    if callable(found) and not isinstance(found, Mapping):
        try:
            found = found()
        except Exception as error:  # a user's own code may raise anything
            raise InputError(
                f"--config={reference}: {names[0]}() failed: {own_code.describe(error)} Expected: "
                f"a mapping. Correct the file."
            ) from error
    if isinstance(found, ml_collections.ConfigDict):
        found = found.to_dict()
    if not isinstance(found, Mapping):
        raise InputError(
            f"--config={reference} has no {' or '.join(names)}. Expected: a function "
            f"get_config() that returns a mapping, or a mapping named sweep."
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
        name: _text(name, value) for name, value in _flat(content, "settings", where).items()
    }
    grid = {name: _axis(name, v) for name, v in _flat(content, "grid", where).items()}
    seen = set(settings)
    for name in settings:
        _refuse_taken(name)
    for axis in grid.values():
        if both := axis.names & seen:
            raise InputError(
                f"{where} says twice what {', '.join(sorted(both))} is. Leave it in one place."
            )
        seen |= axis.names
    return Layer(settings, grid)


def _flat(content: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    """The mapping under a key, with ``hparams: {rho: x}`` as ``hparams.rho: x``."""
    found = content.get(key) or {}
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise InputError(
            f"{key} of {where} must be a mapping from flags of launch.main. Received: "
            f"{found!r:.60}."
        )
    flat: dict[str, Any] = {}
    for name, value in found.items():
        inside = value.items() if name in GROUPS and isinstance(value, Mapping) else None
        flat |= {name: value} if inside is None else {f"{name}.{k}": v for k, v in inside}
    return flat


def _axis_of_flag(text: str) -> tuple[str, Axis]:
    name, equals, values = text.removeprefix("--").partition("=")
    if not equals or not name or not values:
        raise InputError(
            f"--grid must be NAME=VALUE,VALUE,... Received: {text!r}. Try --grid=lr=0.01,0.1."
        )
    if values.startswith("@"):
        return name, _axis(name, values)
    parts = values.split(";" if ";" in values else ",")
    return name, _axis(name, [None if part == LEFT_OUT else part for part in parts])


def _axis(name: str, values: Any) -> Axis:
    _refuse_taken(name)
    if isinstance(values, str):
        grid = paper_grids.find(values, name)
        return Axis(tuple({name: _text(name, v)} for v in grid.values), grid.algos)
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
                _refuse_taken(inner)
            choices.append({inner: _text(inner, v) for inner, v in choice.items()})
        else:
            choices.append({name: _text(name, value)})
    return Axis(tuple(choices))


def _refuse_taken(name: str) -> None:
    if name in TAKEN:
        raise InputError(f"{name} cannot be a setting or a grid. Use {TAKEN[name]} instead.")


def _text(name: str, value: Any) -> str | None:
    """A value as on the command line."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(float(value))
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Sequence) and all(isinstance(v, (bool, int, float, str)) for v in value):
        in_group = name.partition(".")[0] in GROUPS  # these are written as in Python
        return repr(tuple(value)) if in_group else ",".join(map(str, value))
    raise InputError(f"{name} has a value that no setting can have. Received: {value!r:.60}.")


def _names(key: str, given: Sequence[str] | None, in_file: Any) -> tuple[str, ...]:
    names = given if given is not None else in_file
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) and n for n in names):
        names = names if names is None else f"{names!r:.60}"
        raise InputError(
            f"{key} must be a list of names. Received: {names or 'none'}. "
            f"Try --{key}={'fedavg,fedsam' if key == 'algos' else DEFAULTS['dataset']}."
        )
    return _each_once(key, names)


def _seeds(received: Any) -> tuple[int, ...]:
    try:
        if isinstance(received, (str, Mapping)):
            raise ValueError
        seeds = [int(seed) if isinstance(seed, str) else seed for seed in received]
        if not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(
            f"seeds must be a list of whole numbers. Received: {received!r:.60}. Try --seeds=0,1,2."
        ) from None
    return _each_once("seeds", seeds)


def _each_once(key: str, values: Iterable[Any]) -> tuple[Any, ...]:
    values = list(values)
    if not values or len(set(values)) < len(values):
        received = ",".join(map(str, values)) or "none"
        raise InputError(f"{key} must be at least one, each once. Received: {received}.")
    return tuple(values)
