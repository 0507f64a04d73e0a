"""How a launcher ends: exit codes, and messages in the place of tracebacks."""

import os
import sys
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from launch import interrupts
from tf_fedsam.errors import InputError

DONE, FAILED, BAD_INPUT = 0, 1, 2
GOES_ON = "The same command goes on from what is saved."


def guarded(
    action: Callable[[], int],
    *,
    failures: tuple[type[Exception], ...] = (OSError,),
    words: Callable[[Exception], str] = str,
    interrupted: str = GOES_ON,
) -> int:
    """Turns what can go wrong into a message and an exit code.

    Args:
        action: what the launcher does; gives its exit code.
        failures: exceptions that are a failure and no mistake in the code.
        words: what to tell of a failure.
        interrupted: what to tell after Ctrl-C.
    """
    try:
        with interrupts.raised():
            return action()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # nobody reads on, as after `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except failures as error:
        print(f"error: {words(error)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"\nInterrupted. {interrupted}", file=sys.stderr)
        return FAILED


def console(run: Callable[[], int]) -> None:
    """Ends the process with the exit code of the launcher, without its libraries' chatter."""
    logging.set_verbosity(logging.ERROR)
    tf.get_logger().setLevel("ERROR")
    sys.exit(run())
