"""The flags of a run, made from the declarations of its settings."""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
from absl import flags
from ml_collections import config_flags

import tasks  # noqa: F401  makes the data sets known
from launch.command_line import helping, own_flags
from launch.command_line.commands import command, of_config
from tf_fedsam import models
from tf_fedsam.algorithms import registry as algorithms
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.own_code import is_reference
from tf_fedsam.runs import task as known_tasks
from tf_fedsam.runs.config import FREE, GROUPED, SETTINGS, RunConfig, hparam_defaults
from tf_fedsam.runs.folder import read_config_of
from tf_fedsam.runs.settings import Setting

__all__ = ["command", "define", "of_config", "parse", "run_config", "with_files"]


@functools.cache
def define() -> None:
    """Defines the flags, once for all launchers of a process."""
    lists = {"dataset": list(known_tasks.all_tasks()), "model": list(models.names())}
    for setting in SETTINGS.values():
        if setting.name not in GROUPED:
            _define(setting, lists.get(setting.name, ()))
    flags.DEFINE_string("config", None, "A .yaml file that maps settings to values; flags win.")
    flags.DEFINE_string("from_config", None, "Repeat the run of this config.json or run folder.")
    flags.DEFINE_string(
        "output_dir", None, "Run folder; by default a name made from the settings, in runs/."
    )
    flags.DEFINE_bool("restart", False, "Begin again; what there is of the run is deleted.")
    flags.DEFINE_bool("verbose", False, "Show tracebacks of mistakes in files of your own.")
    flags.DEFINE_bool("list_algorithms", False, "Print the table of algorithms and stop.")
    flags.DEFINE_string(
        "describe", None, "Tell of a method, data set, model, probe or setting, and stop."
    )
    flags.DEFINE_multi_string("callback", [], "A callback of your own: path/to/file.py:Class.")


def _define(setting: Setting, names: Sequence[str]) -> None:
    text = setting.help + (f" There are: {', '.join(names)}." if names else "")
    if setting.choices:
        flags.DEFINE_enum(setting.name, None, setting.choices, text)
        return
    kinds: dict[type, Any] = {
        str: flags.DEFINE_string,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        bool: flags.DEFINE_bool,
        tuple: flags.DEFINE_list,
    }
    kinds[setting.kind](setting.name, None, text)


def parse(args: Sequence[str]) -> list[str]:
    """Parses a command line; the algorithm's and the model's own flags are typed by their defaults.

    Raises:
        InputError: for unknown flags and values of the wrong type.
    """
    values, args = flags.FLAGS, with_files(args)
    base = _described(args)
    _refuse_several(args)
    given = {name: _peek(args, name) or base.given.get(name) for name in ("dataset", "algo")}
    task = known_tasks.find(given["dataset"] or SETTINGS["dataset"].default)
    algorithm = algorithms.find(given["algo"] or SETTINGS["algo"].default)
    model = _peek(args, "model") or base.model
    model = model or task.settings.get("model", SETTINGS["model"].default)
    own = hparam_defaults(algorithm, task, model)
    groups = {
        "hparams": (f"hyper-parameter of {algorithm.name}", own),
        "model_options": (f"option of the model {model}", dict(models.options(model))),
    }
    for group, (kind, defaults) in groups.items():
        _check_names(args, group, kind, defaults)
        for name in [n for n in values if n == group or n.startswith(f"{group}.")]:
            delattr(values, name)
        config_flags.DEFINE_config_dict(
            group,
            ml_collections.ConfigDict(defaults),
            f"Typed: --{group}.NAME=VALUE.",
            sys_argv=args,
        )
    try:
        rest = values(args, known_only=False)
    except flags.UnrecognizedFlagError as error:
        name, received = error.flagname, _peek(args, re.escape(error.flagname)) or ""
        raise helping.unknown_flag(name, received, algorithm.name, model) from None
    except (flags.Error, AttributeError, TypeError, ValueError, KeyError) as error:
        defaults = {group: values for group, (_, values) in groups.items()}
        wrong = helping.wrong_value(error, defaults)
        raise wrong or InputError(f"{_first_line(error)} {helping.SEE_HELP}") from None
    own_flags.refuse_others(rest[1:])
    return rest


def with_files(args: Sequence[str]) -> list[str]:
    """The command line with the flags of the files that --flagfile names."""
    own_flags.check_files(args)
    try:
        return [args[0], *flags.FLAGS.read_flags_from_files(args[1:], force_gnu=False)]
    except (flags.Error, OSError, UnicodeDecodeError) as error:
        cause = error.__context__ or error  # absl hides that of the operating system
        file = getattr(cause, "filename", None) or _peek(args, "flagfile")
        reason = getattr(cause, "strerror", None) or _first_line(cause).removesuffix(".")
        told = f"--flagfile={file} cannot be read: {reason}. Expected: a file with one flag a line,"
        raise InputError(f"{told} such as --lr=0.1.") from None


def _refuse_several(args: Sequence[str]) -> None:
    """A run has one method, data set and seed."""
    for name in ("algo", "dataset", "seed"):
        received = _peek(args, name) or ""
        if "," in received and not is_reference(received):
            raise InputError(
                f"--{name} takes one. Received: {received!r}. Several at once are a sweep: "
                f"python -m launch.sweep --{name}s={received}"
            )


def run_config() -> RunConfig:
    """What the flags that were parsed describe."""
    values = flags.FLAGS
    base = RunConfig()
    if values.from_config is not None:
        base = RunConfig.of_run(read_config_of(values.from_config), values.from_config)
    elif values.config is not None:
        base = RunConfig.load(values.config)
    given: dict[str, Any] = {
        name: values[name].value
        for name in SETTINGS
        if name not in GROUPED and values[name].value is not None
    }
    if "hidden_units" in given:
        given["hidden_units"] = _whole_numbers("hidden_units", given["hidden_units"])
    grouped = {
        group: {
            name.removeprefix(f"{group}."): values[name].value
            for name in values
            if name.startswith(f"{group}.") and values[name].present
        }
        for group in GROUPED
    }
    return base.with_values({**given, **grouped})


def _described(args: Sequence[str]) -> RunConfig:
    """What a file that the command line names says, so that flags can be typed by it."""
    given = [match[1] for arg in args[1:] if (match := re.match(r"--?([^=]+)", arg))]
    if "from_config" in given:
        allowed = ["output_dir", *FREE]
        wrong = [
            name
            for name in given
            if name not in (*allowed, "from_config", "callback", "restart", "verbose")
        ]
        if wrong:
            raise InputError(
                f"--from_config repeats a run as it was. Received beside it: "
                f"--{', --'.join(wrong)}. Expected: nothing but --{', --'.join(allowed)}. "
                f"Remove it."
            )
        value = _peek(args, "from_config") or ""
        return RunConfig.of_run(read_config_of(value), value)
    file = _peek(args, "config")
    return RunConfig() if file is None else RunConfig.load(file)


def _peek(args: Sequence[str], name: str) -> str | None:
    """The last value of a flag, before flags are parsed."""
    value = None
    for position, arg in enumerate(args):
        if match := re.fullmatch(rf"--?{name}=(.*)", arg):
            value = match[1]
        elif re.fullmatch(rf"--?{name}", arg) and position + 1 < len(args):
            value = args[position + 1]
    return value


def _check_names(args: Sequence[str], group: str, kind: str, valid: Mapping[str, Any]) -> None:
    for arg in args:
        if match := re.match(rf"--?{group}\.([^=]*)", arg):
            if not valid:
                raise InputError(f"There is no {kind}. Received: {arg}. Remove it.")
            if match[1] not in valid:
                raise unknown(kind, match[1], valid)


def _whole_numbers(name: str, received: Sequence[str]) -> tuple[int, ...]:
    try:
        return tuple(int(item) for item in received)
    except ValueError:
        raise InputError(
            f"--{name} must be whole numbers with commas between. Received: {','.join(received)!r}."
        ) from None


def _first_line(error: BaseException) -> str:
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return line if line.endswith((".", "?")) else line + "."
