"""How launchers end: as programs of the library do, with settings called by their flags.

What becomes which exit code: tests/runs/exits_test.py.
"""

import pytest

from launch.command_line import exits
from tf_fedsam.errors import InputError, TellableError
from tf_fedsam.runs import exits as library


def ended(error, **options):
    def action():
        raise error

    return exits.guarded(action, **options)


@pytest.mark.parametrize(("kind", "code"), [(InputError, 2), (TellableError, 1)])
def test_flags_in_the_place_of_settings(kind, code, capsys):
    assert ended(kind("lr must be > 0, and rho, too.", "lr", "hparams.rho")) == code
    expected = "error: --lr must be > 0, and --hparams.rho, too.\n"
    assert capsys.readouterr().err == expected


def test_errors_that_tell_several_at_once(capsys):
    class ManyError(InputError):
        def with_flags(self):
            return "many flags"

    ended(ManyError("many"))
    assert capsys.readouterr().err == "error: many flags\n"


def test_a_result_is_passed_on():
    assert exits.guarded(lambda: 7) == 7


def test_options_of_the_library(capsys):
    assert ended(KeyError("x"), failures=(KeyError,), words=lambda error: "told") == exits.FAILED
    assert capsys.readouterr().err == "error: told\n"


def test_a_mistake_in_a_users_file(capsys, tmp_path, monkeypatch):
    """Told with its line; how to see more is a flag here."""
    monkeypatch.setattr(library.own_code, "explain", lambda error: "ZeroDivisionError in line 3")
    assert ended(ZeroDivisionError()) == exits.BAD_INPUT
    expected = "error: ZeroDivisionError in line 3\nCorrect the file; --verbose shows more.\n"
    assert capsys.readouterr().err == expected
    with pytest.raises(ZeroDivisionError):
        ended(ZeroDivisionError(), verbose=lambda: True)


def test_codes_are_those_of_the_library():
    codes = (library.DONE, library.FAILED, library.BAD_INPUT)
    assert (exits.DONE, exits.FAILED, exits.BAD_INPUT) == codes == (0, 1, 2)
    assert exits.console is library.console
