"""What a setting of a run is.

A setting is declared once, as a field of :class:`tf_fedsam.runs.config.RunConfig` made by
:func:`setting`. Flags and their help, ``config.json``, what a resumed run may change, the names of
a sweep's cells, the groups of a report, fingerprints and the docs derive from that.
"""

import ast
import dataclasses
import enum
import math
import re
from collections.abc import Mapping
from typing import Any

from tf_fedsam.checks import contains, either, in_words
from tf_fedsam.errors import InputError


class Group(enum.Enum):
    """Where a user looks for a setting."""

    DATA = "Data and split"
    MODEL = "Model"
    METHOD = "Method"
    TRAINING = "Training"
    MEASURING = "Measuring"
    EXECUTION = "Execution"


class Role(enum.Enum):
    """What a setting decides.

    PROBLEM: what is to be solved; results of different problems are not compared.
    SOURCE: where the data lie; which data they are is told by their content.
    SEED: which of many equal runs it is.
    METHOD: how it is solved, in a way that is not tuned: another method.
    TUNING: how it is solved, in a way that is tuned.
    MEASURING: what is looked at; the training is the same.
    EXECUTION: where and how it is computed; the training is the same.
    """

    PROBLEM = "problem"
    SOURCE = "source"
    SEED = "seed"
    METHOD = "method"
    TUNING = "tuning"
    MEASURING = "measuring"
    EXECUTION = "execution"


_ROLE_OF_GROUP = {
    Group.DATA: Role.PROBLEM,
    Group.MODEL: Role.PROBLEM,
    Group.METHOD: Role.METHOD,
    Group.TRAINING: Role.TUNING,
    Group.MEASURING: Role.MEASURING,
    Group.EXECUTION: Role.EXECUTION,
}


class File(enum.Enum):
    """What a setting's value may name.

    DATA: files of the data set.
    INPUT: a file that is read.
    CODE: something by name, or ``path/to/file.py:Name``.
    """

    DATA = "data"
    INPUT = "input"
    CODE = "code"


@dataclasses.dataclass(frozen=True)
class Setting:
    """The declaration of a setting.

    Attributes:
        name: of the field, the flag and the entry of ``config.json``.
        kind: ``str``, ``int``, ``float``, ``bool``, ``tuple`` (of whole numbers) or ``dict``.
        default: what holds if neither the user nor the data set says anything.
        help: one or two sentences.
        group: where a user looks for it.
        role: what it decides.
        free: whether a run that goes on may have another value.
        valid: an interval such as ``"(0, 1]"`` for numbers; ``""`` for any finite number.
        choices: the values there are; empty for any.
        file: what a value may name.
        hint: how to put a wrong value right.
        goes_into: the mapping it is a short form for an entry of, such as ``"model_options"``; it
            is then not a part of the saved description.
        since: the version that brought it, if that is not the first; runs of before had the
            default.
        follows: the free setting that its value is chosen to suit, if the user gives none.
    """

    name: str
    kind: type
    default: Any
    help: str
    group: Group
    role: Role
    free: bool = False
    valid: str = ""
    choices: tuple[str, ...] = ()
    file: File | None = None
    hint: str = ""
    goes_into: str = ""
    since: str = ""
    follows: str = ""

    def check(self, value: Any) -> Any:
        """The value in the setting's type.

        Raises:
            InputError: if it has none, or is not a valid one.
        """
        if value is None:
            return None
        value = typed(self.name, value, self.kind)
        if self.choices and value not in self.choices:
            raise InputError(
                f"{self.name} must be {either(self.choices)}. Received: {value!r}.", self.name
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{self.name} must be a finite number. Received: {value}.", self.name)
        if self.valid and not contains(self.valid, value):
            hint = f" {self.hint}" if self.hint else ""
            raise InputError(
                f"{self.name} must be {in_words(self.valid)}. Received: {value}.{hint}",
                *(self.name, *re.findall(r"\w+=", hint)),
            )
        return value


def setting(
    group: Group,
    default: Any,
    help: str,
    *,
    kind: type | None = None,
    role: Role | None = None,
    **facts: Any,
) -> Any:
    """The field of a setting, which is ``None`` until somebody gives it a value.

    Args:
        group: where a user looks for it.
        default: see :class:`Setting`, as for all that is not here.
        help: one or two sentences.
        kind: by default that of the default.
        role: by default that of its group.
        **facts: further attributes of the declaration.
    """
    facts |= {"group": group, "default": default, "help": help, "kind": kind or type(default)}
    facts["role"] = role or _ROLE_OF_GROUP[group]
    empty: Any = {"default_factory": dict} if facts["kind"] is dict else {"default": None}
    return dataclasses.field(**empty, metadata={"setting": facts})


def declared(config: type) -> dict[str, Setting]:
    """The settings that a dataclass declares, by name."""
    return {
        field.name: Setting(field.name, **field.metadata["setting"])
        for field in dataclasses.fields(config)
        if "setting" in field.metadata
    }


def typed(name: str, value: Any, kind: type) -> Any:
    """A value of a kind; whole numbers are numbers, lists are tuples."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float and number:
        return float(value)
    if kind is int and number and float(value).is_integer():
        return int(value)
    if kind is tuple and isinstance(value, (list, tuple)):
        return tuple(value)
    if kind is dict and isinstance(value, Mapping):
        return dict(value)
    if kind in (bool, str) and isinstance(value, kind):
        return value
    raise InputError(
        f"{name.rpartition('.')[2]} must be {_KINDS.get(kind, kind.__name__)}. "
        f"Received: {value!r:.60}.",
        name,
    )


def parsed(name: str, text: str, kind: type) -> Any:
    """The value of a kind that a text, as on a command line, stands for."""
    if kind is bool and text.lower() in ("true", "false", "1", "0"):
        return text.lower() in ("true", "1")
    if kind is str or kind is type(None):
        return text
    try:
        if kind is float:
            return float(text)
        value = ast.literal_eval(text)
        if kind is tuple and not isinstance(value, (list, tuple)):
            value = (value,)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = text
    return typed(name, value, kind)


_KINDS = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "a text",
    tuple: "a list, with commas between",
    dict: "a mapping from names to values",
}
