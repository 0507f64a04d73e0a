"""Declarations: types, ranges and texts of settings."""

import dataclasses

import pytest

from tf_fedsam.errors import InputError
from tf_fedsam.runs.settings import Group, Role, declared, parsed, setting, typed


@dataclasses.dataclass
class Example:
    size: int = setting(Group.DATA, 3, "How many.", valid="[1, 9]", hint="3 is usual.")
    rate: float = setting(Group.TRAINING, 0.5, "How fast.", valid="(0, inf)", free=True)
    colour: str = setting(Group.MODEL, "red", "Which.", choices=("red", "blue"), role=Role.METHOD)
    extra: dict = setting(Group.METHOD, {}, "More.")  # noqa: RUF009
    other: int = 7


SETTINGS = declared(Example)


def test_what_is_declared():
    assert list(SETTINGS) == ["size", "rate", "colour", "extra"]
    assert SETTINGS["size"].role is Role.PROBLEM  # that of its group
    assert SETTINGS["colour"].role is Role.METHOD  # its own
    assert (SETTINGS["rate"].kind, SETTINGS["rate"].default) == (float, 0.5)
    assert [s.free for s in SETTINGS.values()] == [False, True, False, False]
    assert Example().size is None  # nobody gave it a value
    assert Example().extra == {}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("size", 4, 4), ("size", 4.0, 4), ("rate", 1, 1.0), ("colour", "blue", "blue")],
)
def test_good_values(name, value, expected):
    checked = SETTINGS[name].check(value)
    assert checked == expected
    assert type(checked) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("size", 10, ["size must be in [1, 9]", "Received: 10", "3 is usual."]),
        ("size", 2.5, ["whole number", "2.5"]),
        ("size", True, ["whole number", "True"]),
        ("rate", 0, ["rate must be > 0", "0"]),
        ("rate", float("nan"), ["finite"]),
        ("rate", "fast", ["a number", "'fast'"]),
        ("colour", "green", ["red or blue", "'green'"]),
        ("extra", 3, ["mapping", "3"]),
    ],
)
def test_bad_values(name, value, words):
    with pytest.raises(InputError) as caught:
        SETTINGS[name].check(value)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.settings == (name,)
    assert f"--{name} must be" in caught.value.with_flags()


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0.1", float, 0.1),
        ("3", int, 3),
        ("true", bool, True),
        ("False", bool, False),
        ("abc", str, "abc"),
        ("(200, 100)", tuple, (200, 100)),
        ("7", tuple, (7,)),
        ("anything", type(None), "anything"),
    ],
)
def test_texts(text, kind, value):
    assert parsed("x", text, kind) == value


@pytest.mark.parametrize(("text", "kind"), [("x", int), ("1.5", int), ("yes", bool), ("{", tuple)])
def test_texts_that_stand_for_nothing(text, kind):
    with pytest.raises(InputError, match="must be"):
        parsed("x", text, kind)


def test_an_entry_of_a_mapping_is_called_by_its_own_name():
    with pytest.raises(InputError) as caught:
        typed("hparams.rho", "big", float)
    assert str(caught.value) == "rho must be a number. Received: 'big'."
    assert caught.value.with_flags() == "--hparams.rho must be a number. Received: 'big'."
