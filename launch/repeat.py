"""``--from_config``: the flags of a run that was, from its ``config.json``."""

import os
import pathlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tf_fedsam.errors import InputError
from tf_fedsam.own_code import is_reference
from tf_fedsam.state.run_folder import read_config

PATHS = ("data_file", "data_dir", "init_weights", "client_schedule")
GROUPS = ("hparams", "model_options")


def config_of(value: str) -> dict[str, Any]:
    """What the flag's value names: a config.json, or the run folder around it."""
    path = pathlib.Path(value).expanduser()
    return read_config(path / "config.json" if path.is_dir() else path)


def expand(args: Sequence[str], known: Collection[str], free: Collection[str]) -> list[str]:
    """The command line with ``--from_config`` written out, if it is there.

    Args:
        args: the command line, with the program's name.
        known: the flags a config may set.
        free: the flags that may be given beside it, apart from ``output_dir``.
    """
    given = [match[1] for arg in args[1:] if (match := re.match(r"--?([^=]+)", arg))]
    if "from_config" not in given:
        return list(args)
    allowed = ["output_dir", *free]
    wrong = [name for name in given if name not in (*allowed, "from_config")]
    if wrong:
        raise InputError(
            f"--from_config repeats a run as it was. Received beside it: --{', --'.join(wrong)}. "
            f"Expected: nothing but --{', --'.join(allowed)}. Remove it."
        )
    position = next(i for i, arg in enumerate(args) if re.match(r"--?from_config", arg))
    _, equals, value = args[position].partition("=")
    if not equals:
        value = args[position + 1] if position + 1 < len(args) else ""
    return [args[0], *_flags(config_of(value), value, known), *args[1:]]


def _flags(config: Mapping[str, Any], path: str, known: Collection[str]) -> list[str]:
    settings = dict(config["settings"])
    if settings.get("local_steps") is not None:
        settings.pop("local_epochs", None)  # it was not used
    if settings.get("devices") == "auto":
        settings["devices"] = _devices(config.get("devices")) or "auto"
    result = []
    for name, value in settings.items():
        if name in GROUPS and isinstance(value, dict):
            result += [_flag(f"{name}.{inner}", v, path) for inner, v in value.items()]
        elif name not in known or name == "output_dir":
            raise InputError(
                f"{path} has a setting that does not exist: {name!r}. Expected: the config.json "
                f"of a run of this version."
            )
        else:
            result.append(_flag(name, _found(name, value, config), path))
    return [flag for flag in result if flag is not None]


def _flag(name: str, value: Any, path: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return f"--{name}={str(value).lower()}"
    if isinstance(value, list) and all(isinstance(v, (bool, int, float, str)) for v in value):
        return f"--{name}={tuple(value)!r}"
    if isinstance(value, (int, float, str)):
        return f"--{name}={value}"
    raise InputError(f"{path} has a value that no setting can have: {name} = {value!r:.50}.")


def _found(name: str, value: Any, config: Mapping[str, Any]) -> Any:
    """Relative paths are relative to where the run was started."""
    folder = config.get("working_folder")
    is_path = name in PATHS or (name in ("algo", "model") and is_reference(str(value)))
    if not (is_path and isinstance(value, str) and isinstance(folder, str)):
        return value
    if os.path.isabs(os.path.expanduser(value)) or folder == os.getcwd():
        return value
    return os.path.join(folder, value)


def _devices(names: Any) -> str | None:
    """As many devices as there were, since sums over devices depend on their number."""
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        return None
    return f"{'gpu' if 'GPU' in names[0].upper() else 'cpu'}:{len(names)}"
