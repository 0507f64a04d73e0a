"""How far a run is: a line a round, or a bar. On a real terminal: tests/launch/main_test.py."""

import io
import sys
import types

import pytest

from tests.runs.callbacks.under_way import UnderWay, a_record, drive
from tf_fedsam.runs.callbacks import progress
from tf_fedsam.runs.callbacks.progress import Progress

ROUNDS = [
    a_record(3, train_loss=0.5, seconds=1.5),
    a_record(4, train_loss=None, test_accuracy=0.25),
    a_record(5, train_loss=0.125),
]


@pytest.fixture
def clock(monkeypatch):
    """The rounds end at 100 s, 103 s, 109 s, ...: the first was compiled, the next take 3, 6 s."""
    ends = iter([100.0, 103.0, 109.0, 109.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(ends))


def test_lines(capsys, tmp_path, clock):
    """The accuracy of the last test stays; a round without a loss says so.

    After round 4 one round took 3 s and 5 of 9 are left: 15 s. After round 5 two took (109 - 100) /
    2 = 4.5 s each and 4 are left: 18 s.
    """
    drive(Progress(), UnderWay(tmp_path, [a_record(1), a_record(2)]), ROUNDS)
    assert capsys.readouterr().out.splitlines() == [
        "compiling the round ...",
        "round    3/9  loss 0.5000  1.50 s",
        "round    4/9  loss none  accuracy 25.00%  0.25 s  15.0 s to go",
        "round    5/9  loss 0.1250  accuracy 25.00%  0.25 s  18.0 s to go",
    ]


def test_held_out_examples_beside_the_test(capsys, tmp_path, clock):
    tested = a_record(8, test_accuracy=0.25, validation_accuracy=0.125)
    drive(Progress(), UnderWay(tmp_path, [a_record(n) for n in range(1, 8)]), [tested])
    told = capsys.readouterr().out.splitlines()[-1]
    assert told == "round    8/9  loss 0.5000  accuracy 25.00%  held out 12.50%  0.25 s"


def test_the_last_round_has_nothing_to_go(capsys, tmp_path, clock):
    before = [a_record(number) for number in range(1, 8)]
    drive(Progress(), UnderWay(tmp_path, before), [a_record(8), a_record(9)])
    assert capsys.readouterr().out.splitlines()[-1] == "round    9/9  loss 0.5000  0.25 s"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal(monkeypatch, tmp_path):
    """It begins where the run goes on, and there are no lines."""
    written = Terminal()
    monkeypatch.setattr(sys, "stdout", written)
    drive(Progress(), UnderWay(tmp_path, [a_record(1), a_record(2)]), ROUNDS)
    drawn = written.getvalue()
    assert "2/9" in drawn.split("\r")[1]
    assert "5/9" in drawn
    assert "accuracy=25.00%" in drawn
    assert "compiling the round" in drawn.split("5/9")[0]
    assert "compiling" not in drawn.split("5/9")[1]
    assert "round    5/9" not in drawn


@pytest.mark.parametrize(
    ("shell", "expected"),
    [("ZMQInteractiveShell", True), ("TerminalInteractiveShell", False), (None, False)],
)
def test_in_a_notebook(shell, expected, monkeypatch):
    running = None if shell is None else type(shell, (), {})()
    fake = types.SimpleNamespace(get_ipython=lambda: running)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    assert progress.in_notebook() == expected


def test_without_ipython(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not progress.in_notebook()
