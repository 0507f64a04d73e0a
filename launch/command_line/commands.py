"""Commands as they are typed, also where the environment is not active."""

import os
import pathlib
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from tf_fedsam.runs.config import GROUPED, RunConfig


def shown(command: str) -> str:
    """A command whose program is found: ``python`` may be ``.venv/bin/python`` here."""
    program, space, rest = command.partition(" ")
    return f"{_found(program)}{space}{rest}"


def _found(program: str) -> str:
    """The program of this environment, as short as it can be typed."""
    own = pathlib.Path(sys.executable).with_name(program)
    on_path = shutil.which(program)
    if not own.is_file() or (on_path is not None and _same_place(on_path, own)):
        return program
    here = os.path.relpath(own)
    return str(own) if here.startswith(os.pardir) else here


def _same_place(one: str, other: pathlib.Path) -> bool:
    """Whether two programs lie in one folder; links to a Python elsewhere are not followed."""
    return os.path.realpath(os.path.dirname(one)) == os.path.realpath(other.parent)


def of_config(config: RunConfig) -> list[str]:
    """The flags that describe a run."""
    args = []
    for name, value in config.given.items():
        if name in GROUPED:
            args += [f"--{name}.{inner}={_text(v, True)}" for inner, v in value.items()]
        else:
            args.append(f"--{name}={_text(value, False)}")
    return args


def _text(value: Any, in_group: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):  # in groups they are written as in Python
        return repr(tuple(value)) if in_group else ",".join(map(str, value))
    return str(value)


def command(args: Sequence[str] | None = None, module: str = "main") -> str:
    """The command line as it can be typed again."""
    args = sys.argv[1:] if args is None else args
    return " ".join([f"python -m launch.{module}", *map(_quoted, args)])


def _quoted(arg: str) -> str:
    return arg if re.fullmatch(r"[\w@%+=:,./-]+", arg) else "'" + arg.replace("'", "'\\''") + "'"
