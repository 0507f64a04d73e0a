"""Checks of what a user gave: one form of message, and the setting it is about."""

import math

import numpy as np
import pytest

from tf_fedsam import checks
from tf_fedsam.errors import InputError


@pytest.mark.parametrize(
    ("interval", "inside", "outside", "words"),
    [
        ("[0, 1]", (0, 1), (-0.1, 1.1), "in [0, 1]"),
        ("(0, 1)", (0.5,), (0, 1), "in (0, 1)"),
        ("[2, inf)", (2, 1e300), (1,), "at least 2"),
        ("(0, inf)", (1e-300,), (0,), "> 0"),
    ],
)
def test_intervals(interval, inside, outside, words):
    assert all(checks.contains(interval, value) for value in inside)
    assert not any(checks.contains(interval, value) for value in outside)
    assert checks.in_words(interval) == words


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: checks.number("lr", "x"), "lr must be a number. Received: 'x'."),
        (lambda: checks.number("lr", True), "lr must be a number. Received: True."),
        (lambda: checks.number("lr", None), "lr must be a number. Received: None."),
        (lambda: checks.number("lr", math.nan), "lr must be a finite number. Received: nan."),
        (lambda: checks.number("lr", -1, "[0, inf)"), "lr must be at least 0. Received: -1."),
        (
            lambda: checks.number("lr", 0, "(0, inf)", "Try 0.1."),
            "lr must be > 0. Received: 0. Try 0.1.",
        ),
        (lambda: checks.number("lr", 1, "[0, 1)"), "lr must be in [0, 1). Received: 1."),
        (lambda: checks.whole("lr", 0), "lr must be at least 1. Received: 0."),
        (lambda: checks.whole("lr", 1.5), "lr must be a whole number. Received: 1.5."),
        (lambda: checks.choice("lr", "c", ("a", "b")), "lr must be a or b. Received: 'c'."),
        (
            lambda: checks.choice("lr", 1, ("a", "b", "d")),
            "lr must be a, b or d. Received: 1.",
        ),
        (lambda: checks.flag("lr", 1), "lr must be true or false. Received: 1."),
    ],
)
def test_messages(check, message):
    with pytest.raises(InputError) as caught:
        check()
    assert str(caught.value) == message
    assert caught.value.settings == ("lr",)
    assert caught.value.with_flags() == "--" + message


def test_an_entry_of_a_mapping_is_called_by_its_own_name():
    with pytest.raises(InputError) as caught:
        checks.number("hparams.rho", -1, "[0, inf)")
    assert str(caught.value) == "rho must be at least 0. Received: -1."
    assert caught.value.with_flags() == "--hparams.rho must be at least 0. Received: -1."


@pytest.mark.parametrize("value", [0, 0.5, np.float32(0.25), np.int64(0)])
def test_numbers_of_any_kind(value):
    checks.number("lr", value, "[0, 1)")


def test_whole_numbers_of_any_kind():
    checks.whole("batch_size", 1)
    checks.whole("batch_size", np.int64(3))
    checks.flag("on", False)
    checks.choice("colour", "red", ("red",))
