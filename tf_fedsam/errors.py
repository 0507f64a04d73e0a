"""What a user reads when something they gave is wrong."""

import difflib
import re
from collections.abc import Iterable


class TellableError(Exception):
    """An error whose message is for the user, without a traceback.

    Messages call a setting by its name in Python. The command line calls it by its flag, so an
    error says which words of its message are settings.

    Args:
        message: for the user.
        settings: the settings that the message names, such as ``"lr"`` or ``"hparams.rho"``, whose
            name in the message is ``rho``; ``"rounds="`` is one only where an equals sign follows.
    """

    def __init__(self, message: str, *settings: str):
        super().__init__(message)
        self.settings = settings

    def with_flags(self) -> str:
        """The message with flags in the place of the settings' names."""
        text = str(self)
        for setting in dict.fromkeys(self.settings):
            word = setting.rpartition(".")[2]
            end = "" if word.endswith("=") else r"(?![\w/])"
            text = re.sub(rf"(?<![\w./-]){re.escape(word)}{end}", f"--{setting}", text)
        return text


class InputError(TellableError, ValueError):
    """Bad input from the user; launchers print the message alone and exit with 2.

    A message says what was received, what is expected and how to fix it.
    """


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, or none can be read; the message says how to go on."""


def unknown(
    kind: str, received: object, expected: Iterable[str], hint: str = "", *settings: str
) -> InputError:
    """The error for a name that does not exist, with the nearest existing names first."""
    names = sorted(expected)
    close = difflib.get_close_matches(str(received).lower(), names, n=3, cutoff=0.5)
    suggestion = f" Did you mean {' or '.join(repr(name) for name in close)}?" if close else ""
    tail = f" {hint}" if hint else ""
    there = f"Expected one of: {', '.join(names)}." if names else "There is none."
    return InputError(
        f"Unknown {kind} {str(received)!r}.{suggestion} {there}{tail}",
        *settings,
    )
