"""Everything that is wrong, told at once."""

import pytest

from tf_fedsam.errors import InputError
from tf_fedsam.sweeps.problems import Problems, SweepError


def told(problems):
    with pytest.raises(SweepError) as caught:
        problems.refuse()
    return caught.value


def test_nothing_is_wrong():
    Problems().refuse()


def test_what_is_wrong_is_told_once_with_all_its_cells():
    problems = Problems()
    problems.add(InputError("lr must be > 0.", "lr"), "a", "b")
    problems.add("Nothing is planned.")
    problems.add(InputError("lr must be > 0.", "lr"), "c")
    assert str(told(problems)) == (
        "The sweep cannot run; nothing was started.\n"
        "- lr must be > 0.\n  in a, b, c\n"
        "- Nothing is planned."
    )


def test_flags_on_the_command_line():
    problems = Problems()
    problems.add(InputError("lr must be > 0.", "lr"), "a")
    assert "- --lr must be > 0.\n  in a" in told(problems).with_flags()


def test_many_are_cut():
    """Twenty problems, five cells each."""
    problems = Problems()
    for number in range(23):
        problems.add(f"Problem {number}.", *(f"cell{i}" for i in range(7)))
    text = str(told(problems))
    assert text.count("- Problem") == 20
    assert "in cell0, cell1, cell2, cell3, cell4 and 2 more" in text
    assert text.endswith("... and 3 more.")


def test_it_is_an_input_error():
    problems = Problems()
    problems.add("x")
    assert isinstance(told(problems), InputError)
