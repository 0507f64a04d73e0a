"""The tables of the reference as Markdown, made from the declarations in the code."""

import csv
import importlib
import inspect
import pathlib
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import flags

import tasks as _tasks  # noqa: F401  makes the data sets known
import tf_fedsam
from launch import main
from launch.command_line import flags as settings_flags
from launch.command_line import start
from tf_fedsam import models as _models
from tf_fedsam.algorithms.registry import accounting, all_algorithms
from tf_fedsam.data.partition.registry import SCHEMES
from tf_fedsam.reproduction import tables as reproduced
from tf_fedsam.reproduction import texts
from tf_fedsam.runs import task
from tf_fedsam.runs.config import GROUPED, SETTINGS
from tf_fedsam.runs.describe import Told, hyper_parameters
from tf_fedsam.runs.settings import Group, Setting, in_words

KINDS = {str: "text", int: "whole number", float: "number", bool: "yes or no", tuple: "list"}


def settings() -> str:
    """All settings by group."""
    return "\n".join(_group(group) for group in Group)


def methods() -> str:
    """The table of the README."""
    header = ("`--algo`", "paper", "client state", "down", "up", "gradients a step", "what it does")
    return table(
        header,
        (
            (f"[`{a.name}`](#{a.name})", f"{a.title}: {a.paper}", *accounting(a()), a.summary)
            for a in all_algorithms().values()
        ),
    )


def update_rules() -> str:
    """Every method as its file describes it, with its hyper-parameters."""
    parts = []
    for algorithm in all_algorithms().values():
        text = inspect.cleandoc(sys.modules[algorithm.__module__].__doc__ or "")
        first, _, rest = text.partition("\n")
        title = first if first.endswith(".") else f"{algorithm.title}."
        parts.append(f"### {algorithm.title} {{ #{algorithm.name} }}\n\n{title}\n{rest}\n")
        parts.append(_hparams(algorithm))
    return "\n".join(parts)


def data_sets() -> str:
    """Every data set as its file describes it, with the settings it fills in."""
    parts = []
    for name, one in task.all_tasks().items():
        about = inspect.getdoc(importlib.import_module(f"tasks.{name}")) or ""
        parts += [f"## {name} {{ #{name} }}\n", about, "", f"Fills in {values(one.settings)}."]
        parts += [_of_methods("Hyper-parameters", one.hparams)]
        for model, methods in one.model_hparams.items():
            parts += [_of_methods(f"Hyper-parameters with `{model}`", methods)]
        parts += [_of_methods("Settings for one method only", one.algorithm_settings), ""]
    return "\n".join(parts)


def model_options() -> str:
    """Every model's options with their defaults."""
    return table(
        ("`model`", "options and defaults"),
        ((f"`{name}`", values(_models.options(name))) for name in _models.names()),
    )


def papers_tables() -> str:
    """Every table of the papers, and what it leaves open."""
    parts = []
    for name in reproduced.names():
        one = reproduced.find(name)
        told = "\n".join(f"- {left}: {right}" for left, right in texts.about(one))
        parts.append(f"## {name}\n\n{one.heading}.\n\n{told}")
    return "\n\n".join(parts)


def first_look() -> str:
    """All methods on one problem, from the CSV of a report; the best first."""
    with (pathlib.Path(__file__).parents[1] / "first_look/glyphs.csv").open() as file:
        series = [row for row in csv.DictReader(file) if row["complete"] == "True"]
    series.sort(key=lambda row: -float(row["test_accuracy_mean"]))
    target = next(n.removeprefix("reached_") for n in series[0] if n.startswith("reached_"))
    baseline = series[0]["baseline"]
    rows = []
    for row in series:
        names = ("test_accuracy", "mean_last_10_test_accuracy")
        accuracies = (
            _percent(row[f"{n}_mean"], row[f"{n}_std"], "{:.1f}", " ({:.1f})") for n in names
        )
        half = row["difference_half_interval"]
        is_baseline = row["series"] == baseline
        told = (
            "baseline" if is_baseline else _percent(row["difference"], half, "{:+.1f}", " ± {:.1f}")
        )
        reached = row[f"reached_{target}"] == row["n"]
        rounds = f"{float(row[f'round_to_{target}_mean']):.0f}" if reached else "not all"
        rows.append((row["series"], row["n"], *accuracies, told, rounds))
    header = (
        "method",
        "seeds",
        "last",
        "last 10",
        f"difference to {baseline}",
        f"rounds to {target}",
    )
    return table(header, rows)


def _percent(mean: str, spread: str, one: str, other: str) -> str:
    """A number of a CSV in per cent, with how sure it is if that is known."""
    return one.format(100 * float(mean)) + (other.format(100 * float(spread)) if spread else "")


def _group(group: Group) -> str:
    of_group = [s for s in SETTINGS.values() if s.group is group]
    return f"## {group.value}\n\n" + table(
        ("setting", "type", "default", "valid", "what it is", "may change"),
        (
            (
                f'<span id="{s.name}"></span>`{s.name}`',
                "names and values" if s.name in GROUPED else KINDS[s.kind],
                "" if s.name in GROUPED else code(s.default),
                _valid(s),
                _meaning(s),
                "yes" if s.free else "",
            )
            for s in of_group
        ),
    )


def _valid(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(map(code, setting.choices))
    return in_words(setting.valid) if setting.valid else ""


def _meaning(setting: Setting) -> str:
    parts = [setting.help]
    splits = [scheme.name for scheme in SCHEMES.values() if setting.name in scheme.options]
    if splits:
        parts.append(f"For the split{'s' * (len(splits) > 1)} {', '.join(map(code, splits))}.")
    if setting.goes_into:
        parts.append(f"Short for an entry of {code(setting.goes_into)}.")
    return " ".join(parts)


def _hparams(algorithm: type) -> str:
    told = hyper_parameters(algorithm)
    if not told:
        return "No hyper-parameters of its own.\n"
    header = ("hyper-parameter", "default", "other defaults", "in the paper", "valid", "what it is")
    return table(header, (_hparam(one) for one in told))


def _hparam(told: Told) -> tuple[str, ...]:
    one = told.declaration
    there = (f"{code(value)} on {place}" for place, value in told.elsewhere.items())
    words = (f"{code(word)}: {meaning}" for word, meaning in one.choices.items())
    return (
        f"`{one.name}`",
        code(one.default),
        ", ".join(there),
        one.paper or "not told",
        "; ".join(words) or one.expected(),
        one.help,
    )


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in lines) + "\n"


def _cell(content: Any) -> str:
    return str(content).replace("|", "\\|").replace("\n", " ")


def code(value: Any) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


def values(mapping: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in mapping.items())


def _of_methods(title: str, mapping: Mapping[str, Mapping[str, Any]]) -> str:
    if not mapping:
        return ""
    rows = ((f"`{name}`", values(own)) for name, own in mapping.items())
    return f"\n{title}:\n\n" + table(("method", "values"), rows)


def public_names() -> str:
    """What ``tf_fedsam`` exports, with links to the pages that describe it."""
    rows = []
    for name in tf_fedsam.__all__:
        found = getattr(tf_fedsam, name)
        place = getattr(found, "__module__", None)
        target = found.__name__ if place is None else f"{place}.{found.__qualname__}"
        about = (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ")
        rows.append((f"[`{name}`][{target}]", about))
    return table(("name", "what it is"), rows)


def commands() -> str:
    """Every launcher as its file describes it, with the flags that are its own."""
    parts = []
    for command, name in start.COMMANDS.items():
        module = importlib.import_module(f"launch.{name}")
        about = inspect.cleandoc(module.__doc__ or "")
        title = f"## `python -m launch.{name}` {{ #{name} }}"
        parts.append(f"{title}\n\nAlso `tf-fedsam {command}`.\n\n{about}\n")
        parts.append(_flags(module))
    return "\n".join(parts)


def _flags(module: types.ModuleType) -> str:
    """A launcher's flags that are no settings; those for itself are left out."""
    own = getattr(module, "FLAGS", None)
    if own is not None:
        found = [own[name] for name in own]
    else:
        run = flags.FLAGS.get_flags_for_module(settings_flags.__name__) if module is main else []
        run = [flag for flag in run if flag.name not in SETTINGS]
        found = [*run, *flags.FLAGS.get_flags_for_module(module.__name__)]
    return table(
        ("flag", "default", "what it is"),
        (
            (f"`--{flag.name}`", _default(flag), str(flag.help).partition(";\n")[0])
            for flag in sorted(found, key=lambda flag: flag.name)
            if not str(flag.help).startswith("For itself")
        ),
    )


def _default(flag: flags.Flag) -> str:
    return code(",".join(flag.default) if isinstance(flag.default, list) else flag.default)
