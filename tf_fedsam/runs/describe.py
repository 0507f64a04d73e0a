"""What a method, a data set, a model, a probe or a setting is, by its name.

    print(tf_fedsam.describe("fedwmsam"))

Everything is taken from where it is declared.
"""

import dataclasses
import inspect
import re
import sys
import types
from collections.abc import Mapping
from typing import Any

from tf_fedsam import checks, hparams, models, text
from tf_fedsam.algorithms import registry as algorithms
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.analysis.probe_list import PROBES
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.hparams import Hparam
from tf_fedsam.own_code import is_reference
from tf_fedsam.runs import task as tasks
from tf_fedsam.runs.config import GROUPED, SETTINGS, hparam_defaults
from tf_fedsam.runs.consistency import ONLY_FOR
from tf_fedsam.runs.settings import Setting
from tf_fedsam.runs.task import Task

KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false", tuple: "list"}


class Description(str):
    """A text for a terminal, which a notebook shows as it is printed."""

    def __repr__(self) -> str:
        return str(self)


def describe(name: str) -> Description:
    """What the thing of this name is.

    Args:
        name: of a method, a data set, a model, a probe, a setting or a hyper-parameter; a method of
            your own is ``path/to/file.py:ClassName``.
    """
    if is_reference(name):
        return Description(_method(algorithms.find(name)))
    found = [of(name) for known, of in _kinds() if name in known]
    if not found and name.startswith("tfds:"):
        found = [_data_set(name)]
    if not found:
        found = _shared_hyper_parameter(name.removeprefix("hparams."))
    if not found:
        names = [known for kind, _ in _kinds() for known in kind]
        nearest = str(unknown("name", name, names)).partition(" Expected one of")[0]
        raise InputError(
            f"{nearest} Expected: a method, a data set ({', '.join(tasks.all_tasks())}), a model "
            f"({', '.join(models.names())}), a probe ({', '.join(PROBES)}), a setting or a "
            f"hyper-parameter."
        )
    return Description("\n\n".join(found))


def _kinds() -> tuple[tuple[Mapping[str, Any] | tuple[str, ...], Any], ...]:
    """What there is of each kind, and what tells of it."""
    return (
        (algorithms.all_algorithms(), lambda name: _method(algorithms.find(name))),
        (tasks.all_tasks(), _data_set),
        (models.names(), _model),
        (PROBES, _probe),
        (SETTINGS, lambda name: _setting(SETTINGS[name])),
    )


@dataclasses.dataclass(frozen=True)
class Told:
    """A hyper-parameter as people read of it.

    Attributes:
        declaration: of it.
        elsewhere: data set, or data set and model -> default there, where it is another one.
    """

    declaration: Hparam
    elsewhere: Mapping[str, Any]


def hyper_parameters(algorithm: type[Algorithm]) -> list[Told]:
    """The hyper-parameters of a method, with their defaults on all data sets that are known."""
    own = hparams.declared(algorithm.Hparams)
    elsewhere: dict[str, dict[str, Any]] = {name: {} for name in own}
    for place, task in tasks.all_tasks().items():
        model = task.settings.get("model", SETTINGS["model"].default)
        usual = hparam_defaults(algorithm, task, model)
        for name, h in own.items():
            if usual[name] != h.default:
                elsewhere[name][place] = usual[name]
        for model in task.model_hparams:
            with_it = hparam_defaults(algorithm, task, model)
            for name in own:
                if with_it[name] != usual[name]:
                    elsewhere[name][f"{place} with {model}"] = with_it[name]
    return [Told(h, elsewhere[name]) for name, h in own.items()]


def documentation(algorithm: type[Algorithm]) -> str:
    """The text at the head of a method's file: paper, update rule, what differs from the code."""
    return _head(sys.modules[algorithm.__module__])


def value(content: Any) -> str:
    """A value as a user writes it."""
    if isinstance(content, bool):
        return str(content).lower()
    if isinstance(content, (list, tuple)):
        return ",".join(map(str, content))
    if isinstance(content, Mapping):
        return ", ".join(f"{name}={value(inner)}" for name, inner in content.items()) or "none"
    return "none" if content is None else str(content) or '""'


def _method(algorithm: type[Algorithm]) -> str:
    state, down, up, gradients = algorithms.accounting(algorithm())
    facts = [
        ("method", f"{algorithm.name} ({algorithm.title}): {algorithm.summary}"),
        ("paper", algorithm.paper or "none"),
        ("gradients a step", gradients),
        ("vectors down, up", f"{down}, {up} of the model's size, a client and round"),
        ("client state", state),
    ]
    told = hyper_parameters(algorithm)
    rows = [row for one in told for row in _hyper_parameter(one)]
    ends = text.table(rows, "Hyper-parameters") if rows else "No hyper-parameters of its own."
    return "\n\n".join([text.table(facts), documentation(algorithm), ends])


def _hyper_parameter(told: Told) -> list[tuple[str, str]]:
    h = told.declaration
    first = f"{KINDS.get(h.kind, 'value')}, {value(h.default)} by default"
    if told.elsewhere:
        there = [f"{value(v)} on {data}" for data, v in told.elsewhere.items()]
        first += f" ({', '.join(there)})"
    rows = [(f"hparams.{h.name}", h.help or first)]
    if h.help:
        rows.append(("", first))
    if h.choices:
        rows += [("", f"{word}: {meaning}") for word, meaning in h.choices.items()]
    elif h.valid:
        rows.append(("", f"valid: {h.expected()}"))
    return [*rows, *([("", f"in the paper: {h.paper}")] if h.paper else [])]


def _shared_hyper_parameter(name: str) -> list[str]:
    """A hyper-parameter of this name in all methods that have one."""
    found = []
    for method, algorithm in algorithms.all_algorithms().items():
        for told in hyper_parameters(algorithm):
            if told.declaration.name == name:
                rows = _hyper_parameter(told)
                found.append(text.table([("method", method), *rows]))
    return found


def _data_set(name: str) -> str:
    task: Task = tasks.find(name)
    facts = [("data set", f"{task.name}: {task.title}")]
    facts += [(f"  {setting}", value(v)) for setting, v in task.settings.items()]
    of_methods: dict[str, dict[str, Any]] = {}
    for method, own in task.hparams.items():
        of_methods.setdefault(method, {}).update({f"hparams.{n}": v for n, v in own.items()})
    for method, own in task.algorithm_settings.items():
        of_methods.setdefault(method, {}).update(own)
    for model, methods in task.model_hparams.items():
        for method, own in methods.items():
            of_methods[f"{method}, {model}"] = {f"hparams.{n}": v for n, v in own.items()}
    rows = [
        (method, ", ".join(f"{n}={value(v)}" for n, v in own.items()))
        for method, own in of_methods.items()
    ]
    declaring = [m for m in sys.modules.values() if vars(m).get("TASK") is task]
    parts = [*(_head(module) for module in declaring[:1]), text.table(facts)]
    return "\n\n".join([*parts, *([text.table(rows, "For single methods")] if rows else [])])


def _head(module: types.ModuleType) -> str:
    return reflowed(inspect.cleandoc(module.__doc__ or ""))


def reflowed(words: str) -> str:
    """A docstring for a terminal, without marks of code.

    Formulas and tables, which are indented, stay as they are, if they fit.
    """
    parts = words.replace("``", "").split("\n\n")
    as_it_is = [any(line.startswith(" ") for line in part.split("\n")) for part in parts]
    return "\n\n".join(
        "\n".join(
            [row for line in part.split("\n") for row in _fitting(line)]
            if fixed
            else text.wrapped(" ".join(part.split()))
        )
        for part, fixed in zip(parts, as_it_is, strict=True)
    )


def _fitting(line: str) -> list[str]:
    """A formula in lines that fit: what is said beside it comes nearer, or stands below."""
    if len(line) <= text.WIDTH:
        return [line]
    beside = re.fullmatch(r"(\s*\S.*\S)\s{2,}(\S.*)", line)
    if beside is None:
        begin = " " * (len(line) - len(line.lstrip()))
        rows = text.wrapped(line.strip(), text.WIDTH - len(begin), indent=text.INDENT)
        return [begin + row for row in rows]
    formula, words = beside.groups()
    room = text.WIDTH - len(formula) - len(words)
    if room >= 2:
        return [formula + " " * room + words]
    return [*_fitting(formula), words.rjust(text.WIDTH)]


def _model(name: str) -> str:
    about, options = models.describe(name)
    rows = []
    for option, default in models.options(name).items():
        meaning, expected = options[option]
        words = [f"{meaning[:1].upper()}{meaning[1:]}" if meaning else ""]
        words += [f"{value(default)} by default", f"valid: {expected}" if expected else ""]
        rows += [
            (f"model_options.{option}" if first else "", line)
            for first, line in zip((True, False, False), filter(None, words), strict=False)
        ]
    parts = [text.table([("model", name)]), reflowed(about)]
    return "\n\n".join([*parts, *([text.table(rows, "Options")] if rows else [])])


def _probe(name: str) -> str:
    facts = PROBES[name]
    rows = [("probe", f"{name}: {facts.help}"), ("cost", facts.cost)]
    rows += [("needs", facts.needs)] if facts.needs else []
    own = [f"{setting}={value(SETTINGS[setting].default)}" for setting in facts.settings]
    rows += [("settings", ", ".join(own))] if own else []
    return text.table([*rows, ("by default", "yes" if facts.by_default else "no")])


def _setting(setting: Setting) -> str:
    kind = "names and values" if setting.name in GROUPED else KINDS[setting.kind]
    rows = [
        ("setting", f"{setting.name}: {setting.help}"),
        ("type", kind),
        ("default", value(setting.default)),
    ]
    if setting.choices or setting.valid:
        words = checks.either(setting.choices or (checks.in_words(setting.valid),))
        rows.append(("valid", words))
    if setting.name in ONLY_FOR:
        rows.append(("for", f"partition={checks.either(ONLY_FOR[setting.name])}"))
    there = {
        data: task.settings[setting.name]
        for data, task in tasks.all_tasks().items()
        if setting.name in task.settings and task.settings[setting.name] != setting.default
    }
    if there:
        rows.append(("on data sets", ", ".join(f"{value(v)} on {d}" for d, v in there.items())))
    return text.table(rows)
