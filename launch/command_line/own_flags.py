"""Flags of a launcher's own, whose names may mean something else for a run."""

import itertools
import re
from collections.abc import Sequence

from absl import flags

from tf_fedsam import paths, text
from tf_fedsam.errors import InputError
from tf_fedsam.runs.describe import reflowed, value

HELP = {"--help", "--helpshort", "-h"}
SEE_HELP = "See --help for all flags."
SPECIAL = ("flagfile", "undefok")  # absl's own
KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false"}


def new() -> flags.FlagValues:
    """No flags yet; they may stand before or after other arguments."""
    values = flags.FlagValues()
    values.set_gnu_getopt(True)
    return values


def parse(values: flags.FlagValues, args: Sequence[str], hint: str = SEE_HELP) -> list[str]:
    """Parses a command line and gives the arguments that are no flags.

    Args:
        values: the flags, which lose what they had from a command line before.
        args: without the program's name.
        hint: what to tell of a flag that does not exist or has a wrong value.
    """
    check_files(args)
    for name in values:
        values[name].unparse()
    try:
        return values(["launch", *args])[1:]
    except flags.Error as error:
        raise InputError(f"{_told(values, error)}. {hint}") from None


def check_files(args: Sequence[str]) -> None:
    """Refuses files of flags that cannot be opened, or that reading might never come back from."""
    for arg, following in itertools.pairwise([*args, ""]):
        name, equals, value = arg.partition("=")
        if name in ("--flagfile", "-flagfile"):
            paths.regular(paths.expanded(value if equals else following))


def _told(values: flags.FlagValues, error: flags.Error) -> str:
    """What is wrong, in the words of all messages where absl has Python's."""
    match = re.match(r"flag --(\w+)=(.*?): ", str(error), re.DOTALL)
    kind = KINDS.get(values[match[1]].flag_type(), "") if match and match[1] in values else ""
    is_number = match is not None and re.fullmatch(r"\s*[-+]?[\d_]+\s*", match[2])
    if match is None or not kind or is_number:  # a number may be too large or too small
        return str(error).rstrip(". ?")
    return f"--{match[1]} must be {kind}. Received: {match[2]!r}"


def refuse_others(rest: Sequence[str]) -> None:
    """For launchers all of whose arguments are flags."""
    if rest:
        raise InputError(f"Every argument is a flag, --name=value. Received: {' '.join(rest)!r}.")


def helped(values: flags.FlagValues, args: Sequence[str], about: str | None) -> bool:
    """Whether help was asked for, which is then shown.

    Args:
        values: the flags.
        args: without the program's name.
        about: what the launcher does.
    """
    asked = bool(HELP & set(args))
    if asked:
        rows = [line(values[name]) for name in sorted(values) if name not in SPECIAL]
        text.say(f"{reflowed((about or '').strip())}\n\n{text.table(rows, 'Flags')}")
    return asked


def line(flag: flags.Flag) -> tuple[str, str]:
    """A flag with its default, and what it is for."""
    default = "" if flag.default in (None, []) else f"={value(flag.default)}"
    about = flag.help or ""
    if isinstance(flag, flags.MultiFlag):  # to which absl adds words of its own, as to the next
        about = f"{about.partition(';')[0]} May be given several times."
    if isinstance(flag, flags.EnumFlag):
        about = f"{about.partition('>: ')[2]} One of: {', '.join(flag.parser.enum_values)}."
    return f"--{flag.name}{default}", about
