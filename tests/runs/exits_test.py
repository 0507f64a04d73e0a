"""How programs end."""

import pytest
import tensorflow as tf

from tf_fedsam.errors import InputError, TellableError
from tf_fedsam.runs import exits


def raising(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError("lr must be > 0.", "lr"), 2, "error: lr must be > 0.\n"),
        (TellableError("lr is too large.", "lr"), 1, "error: lr is too large.\n"),
        (OSError("no room"), 1, "error: no room\n"),
        (KeyboardInterrupt(), 1, "\nInterrupted. The same command goes on from what is saved.\n"),
        (BrokenPipeError(), 1, ""),
        (MemoryError(), 1, f"error: {exits.NO_MEMORY}\n"),
        (tf.errors.ResourceExhaustedError(None, None, "x"), 1, f"error: {exits.NO_MEMORY}\n"),
    ],
)
def test_codes_and_words(capfd, monkeypatch, error, code, words):
    monkeypatch.setattr(exits, "_discard_output", lambda: None)
    assert exits.guarded(raising(error)) == code
    assert capfd.readouterr() == ("", words)


def test_a_mistake_in_the_code_stays_one():
    with pytest.raises(ZeroDivisionError):
        exits.guarded(raising(ZeroDivisionError()))
