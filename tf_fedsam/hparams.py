"""Hyper-parameters of a method: each declared once, with its range and its meaning.

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        rho: float = hparam(0.1, "[0, inf)", "Radius of the perturbation.", paper="0.5")
        server: str = hparam("mu", {"mu": "as in the code", "mu_minus_e": "as in the paper"}, "...")

Checks, ``describe`` and the manual derive from that. A plain dataclass that checks itself, or not
at all, is as good for a method; there is then less to tell of it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tf_fedsam import checks


@dataclasses.dataclass(frozen=True)
class Hparam:
    """The declaration of a hyper-parameter.

    Attributes:
        name: of the field.
        default: of the method, where the data set has no other.
        valid: an interval such as ``"[0, inf)"`` for numbers; ``""`` for any finite one.
        choices: for words, what each of them means.
        help: a sentence on what it is.
        paper: the value in the paper or, where it says so, in the authors' code; ``""`` if neither
            tells one.
    """

    name: str
    default: Any
    valid: str = ""
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    help: str = ""
    paper: str = ""

    @property
    def kind(self) -> type:
        return type(self.default)

    def check(self, value: Any) -> None:
        """Refuses a value that is not valid."""
        setting = f"hparams.{self.name}"
        if self.kind is bool:
            checks.flag(setting, value)
        elif self.choices:
            checks.choice(setting, value, tuple(self.choices))
        elif self.kind in (int, float):
            check = checks.whole if self.kind is int else checks.number
            check(setting, value, self.valid or "(-inf, inf)")

    def expected(self) -> str:
        """What a value may be, for people."""
        if self.choices:
            return checks.either(tuple(self.choices))
        if self.valid:
            return checks.in_words(self.valid)
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        return words.get(self.kind, "")


def hparam(
    default: Any, valid: str | Mapping[str, str] = "", help: str = "", paper: str = ""
) -> Any:
    """The field of a hyper-parameter.

    Args:
        default: see :class:`Hparam`, as for the rest; its type is that of the values.
        valid: an interval, or for words a mapping from each to its meaning.
        help: a sentence on what it is.
        paper: the paper's value.
    """
    values = {"valid": valid} if isinstance(valid, str) else {"choices": dict(valid)}
    facts: dict[str, Any] = {"help": help, "paper": paper, **values}
    return dataclasses.field(default=default, metadata={"hparam": facts})


class Checked:
    """Base of hyper-parameters that refuse values that are not valid."""

    def __post_init__(self) -> None:
        for declaration in declared(type(self)).values():
            declaration.check(getattr(self, declaration.name))


def declared(hparams: type) -> dict[str, Hparam]:
    """The declarations of a dataclass by name; of plain fields little is known."""
    return {
        field.name: Hparam(field.name, field.default, **field.metadata.get("hparam", {}))
        for field in dataclasses.fields(hparams)
    }
