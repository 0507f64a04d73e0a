"""What a user reads when something they gave is wrong."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input from the user: launchers print the message alone and exit with 2.

    A message says what was received, what is expected and how to fix it.
    """


def unknown(kind: str, received: object, expected: Iterable[str], hint: str = "") -> InputError:
    """The error for a name that does not exist, with the nearest existing names first."""
    names = sorted(expected)
    close = difflib.get_close_matches(str(received).lower(), names, n=3, cutoff=0.5)
    suggestion = f" Did you mean {' or '.join(repr(name) for name in close)}?" if close else ""
    tail = f" {hint}" if hint else ""
    return InputError(
        f"Unknown {kind} {str(received)!r}.{suggestion} Expected one of: {', '.join(names)}.{tail}"
    )
