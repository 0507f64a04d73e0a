"""How a launcher ends: as every program of the library, with settings called by their flags."""

from collections.abc import Callable
from typing import Any

from tf_fedsam.errors import TellableError
from tf_fedsam.runs import exits
from tf_fedsam.runs.exits import BAD_INPUT, DONE, FAILED, console

__all__ = ["BAD_INPUT", "DONE", "FAILED", "console", "guarded"]


def guarded(action: Callable[[], int], **options: Any) -> int:
    """Turns what can go wrong into a message and an exit code; see the library's function."""
    return exits.guarded(action, told=_with_flags, more="--verbose shows more", **options)


def _with_flags(error: TellableError) -> str:
    return error.with_flags()
