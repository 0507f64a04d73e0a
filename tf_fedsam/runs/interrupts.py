"""Ctrl-C, SIGTERM, a closed terminal: an end without a traceback, when everything can be saved.

Imports nothing heavy, so that a launcher can ask for a quiet end before TensorFlow is loaded.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
FAILED = 1


class Request:
    """Whether somebody asked to stop.

    Attributes:
        made: so it is.
    """

    made = False


def quit_while_loading() -> None:
    """Until anything else is said, a signal ends the process at once, with one line."""
    _install(_quitting(os.dup(2)))


@contextlib.contextmanager
def quitting() -> Iterator[None]:
    """A signal inside the block ends the process at once, with one line."""
    stderr = os.dup(2)
    try:
        with _handling(_quitting(stderr)):
            yield
    finally:
        os.close(stderr)


def _quitting(stderr: int) -> Callable[[int, Any], None]:
    """The handler; what is 2 later may be held back while TensorFlow is loaded."""

    def quit_now(number: int, frame: Any) -> None:
        os.write(stderr, b"\nInterrupted.\n")
        os._exit(FAILED)

    return quit_now


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Signals raise ``KeyboardInterrupt`` inside the block."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    with _handling(interrupt):
        yield


@contextlib.contextmanager
def noted() -> Iterator[Request]:
    """The first signal is only noted, for a loop to look at between its rounds.

    An exception could come between any two lines and leave the state, the log and the client's
    vectors at odds. The second signal raises ``KeyboardInterrupt``.
    """
    request = Request()

    def note(number: int, frame: Any) -> None:
        if request.made:
            raise KeyboardInterrupt
        request.made = True

    with _handling(note):
        yield request


@contextlib.contextmanager
def _handling(handler: Callable[[int, Any], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there can it be changed
        yield
        return
    before = _install(handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _install(handler: Callable[[int, Any], None]) -> dict[int, Any]:
    """Gives the handlers there were; a signal that is ignored, as under nohup, stays so."""
    chosen = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in chosen}
