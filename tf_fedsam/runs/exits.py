"""How a program ends: exit codes, and messages in the place of tracebacks."""

import io
import logging
import os
import sys
from collections.abc import Callable

from absl import logging as absl_logging

from tf_fedsam import own_code
from tf_fedsam.errors import InputError, TellableError
from tf_fedsam.runs import interrupts
from tf_fedsam.runs.no_memory import is_no_memory

DONE, FAILED, BAD_INPUT = 0, 1, 2
NO_MEMORY = TellableError(
    "There is not enough memory. What was saved before is intact. Choose a smaller model or fewer "
    "examples (subset=N), devices=cpu:1, or stream=always for images in files.",
    *("subset=", "devices=", "stream="),
)
GOES_ON = "The same command goes on from what is saved."


def guarded(
    action: Callable[[], int],
    *,
    failures: tuple[type[Exception], ...] = (OSError,),
    words: Callable[[Exception], str] = str,
    told: Callable[[TellableError], str] = str,
    interrupted: str = GOES_ON,
    no_memory: TellableError = NO_MEMORY,
    verbose: Callable[[], bool] = lambda: False,
    more: str = "",
) -> int:
    """Turns what can go wrong into a message and an exit code.

    Args:
        action: what the program does; gives its exit code.
        failures: exceptions that are a failure and no mistake in the code.
        words: what to tell of a failure.
        told: the message of an error that is for the user.
        interrupted: what to tell after Ctrl-C.
        no_memory: what to tell if there is not enough memory.
        verbose: whether a mistake in a user's own file is shown with Python's traceback.
        more: how to see that traceback.
    """
    try:
        with interrupts.raised():
            return action()
    except TellableError as error:
        _discard_output_if_closed()
        print(f"error: {told(error)}", file=sys.stderr)
        return BAD_INPUT if isinstance(error, InputError) else FAILED
    except BrokenPipeError:  # nobody reads on, as after `| head`
        _discard_output()
        return FAILED
    except KeyboardInterrupt:
        print(f"\nInterrupted. {interrupted}", file=sys.stderr)
        return FAILED
    except Exception as error:
        if is_no_memory(error):
            print(f"error: {told(no_memory)}", file=sys.stderr)
            return FAILED
        if isinstance(error, failures):
            print(f"error: {words(error)}", file=sys.stderr)
            return FAILED
        where = None if verbose() else own_code.explain(error)
        if where is None:
            raise
        hint = f"; {more}" if more else ""
        print(f"error: {where}\nCorrect the file{hint}.", file=sys.stderr)
        return BAD_INPUT


def _discard_output_if_closed() -> None:
    """Python writes out what is left at its end, and would complain then."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console(run: Callable[[], int]) -> None:
    """Ends the process with the exit code of the program, without its libraries' chatter."""
    absl_logging.set_verbosity(absl_logging.ERROR)
    for stream in (sys.stdout, sys.stderr):  # names of files need not be text
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    sys.exit(run())
