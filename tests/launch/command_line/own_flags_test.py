"""Flags of a launcher's own."""

import os

import pytest
from absl import flags

from launch.command_line import own_flags
from tf_fedsam.errors import InputError


@pytest.fixture
def values():
    values = own_flags.new()
    flags.DEFINE_integer("seed", 3, "A seed.", flag_values=values)
    flags.DEFINE_bool("loud", False, "Whether to shout.", flag_values=values)
    return values


def test_flags_before_and_behind_other_arguments(values):
    assert own_flags.parse(values, ["a", "--seed=5", "b", "--loud"]) == ["a", "b"]
    assert (values.seed, values.loud) == (5, True)


def test_a_command_line_of_before_is_forgotten(values):
    own_flags.parse(values, ["--seed=5", "--loud"])
    assert own_flags.parse(values, []) == []
    assert (values.seed, values.loud) == (3, False)


def test_files_of_flags(values, tmp_path):
    """A pipe, which nobody writes to, is refused in both forms."""
    (tmp_path / "flags").write_text("--seed=7\n")
    assert own_flags.parse(values, [f"--flagfile={tmp_path / 'flags'}", "a"]) == ["a"]
    assert values.seed == 7
    os.mkfifo(tmp_path / "pipe")
    for args in ([f"--flagfile={tmp_path / 'pipe'}"], ["a", "--flagfile", str(tmp_path / "pipe")]):
        with pytest.raises(InputError, match="no ordinary file"):
            own_flags.parse(values, args)


def test_names_of_runs_do_not_interfere(values):
    """--seed is a flag of launch.main, too."""
    from launch.command_line import flags as settings_flags

    settings_flags.define()
    own_flags.parse(values, ["--seed=5"])
    assert flags.FLAGS["seed"].value is None


@pytest.mark.parametrize(
    ("args", "words"), [(["--sed=1"], "sed"), (["--seed=x"], "x"), (["--loud=maybe"], "maybe")]
)
def test_wrong_flags(values, args, words):
    with pytest.raises(InputError, match=rf"{words}.*[^.]\. See --help for all flags\.$"):
        own_flags.parse(values, args)
    with pytest.raises(InputError, match=r"[^.]\. Try again\.$"):
        own_flags.parse(values, args, "Try again.")


def test_values_of_the_wrong_kind(values):
    for args, words in (
        (["--seed=x"], "--seed must be a whole number. Received: 'x'. See --help for all flags."),
        (["--loud=maybe"], "--loud must be true or false. Received: 'maybe'."),
    ):
        with pytest.raises(InputError) as caught:
            own_flags.parse(values, args)
        assert str(caught.value).startswith(words)


def test_other_arguments_can_be_refused():
    own_flags.refuse_others([])
    with pytest.raises(InputError, match=r"Every argument is a flag.*Received: 'a b'"):
        own_flags.refuse_others(["a", "b"])


def test_help(values, capsys):
    assert not own_flags.helped(values, ["--seed=1"], "What it does.")
    assert capsys.readouterr().out == ""
    for flag in own_flags.HELP:
        assert own_flags.helped(values, ["folder", flag], "What it does.")
        said = capsys.readouterr().out
        assert said.splitlines() == [
            "What it does.",
            "",
            "Flags",
            "  --loud=false  Whether to shout.",
            "  --seed=3      A seed.",
        ]


def test_lines_of_help(values):
    flags.DEFINE_multi_string("more", [], "Something.", flag_values=values)
    flags.DEFINE_enum("kind", "a", ["a", "b"], "Which.", flag_values=values)
    flags.DEFINE_string("file", None, "Where to.", flag_values=values)
    assert own_flags.line(values["more"]) == ("--more", "Something. May be given several times.")
    assert own_flags.line(values["kind"]) == ("--kind=a", "Which. One of: a, b.")
    assert own_flags.line(values["file"]) == ("--file", "Where to.")
