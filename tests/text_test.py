"""Tables, sizes and durations."""

import io
import sys

import pytest
from tqdm import tqdm

from tf_fedsam import text


def test_table():
    rows = [("a", 1), ("long", "two"), ("", None)]
    assert text.table(rows) == "  a     1\n  long  two\n        None"
    assert text.table(rows[:1], "Title") == "Title\n  a  1"
    assert text.table(iter(rows[:1])) == "  a  1"


def test_grid():
    """Columns as wide as their widest cell, lines without spaces at their ends."""
    received = text.grid(["name", "n"], [["x", 1], ["longer", 22]])
    assert received == "name    n\n------  --\nx       1\nlonger  22"
    assert text.grid(["a", "b"], []) == "a  b\n-  -"


def test_grid_with_more_columns_than_fit():
    """Three of 30 are 94 wide with the spaces between; two are 62, and the third goes on below."""
    header, row = ["a", "b", "c"], ["x" * 30, "y" * 30, "z" * 30]
    received = text.grid(header, [row, ["1", "2", "3"]])
    assert received.splitlines() == [
        f"{'a':<30}  b",
        "    c",
        f"{'-' * 30}  {'-' * 30}",
        f"    {'-' * 30}",
        f"{'x' * 30}  {'y' * 30}",
        f"    {'z' * 30}",
        f"{'1':<30}  2",
        "    3",
    ]


def test_grid_of_exactly_the_width():
    """26 + 2 + 26 + 2 + 24 = 80."""
    row = ["x" * 26, "y" * 26, "z" * 24]
    assert text.grid(["a", "b", "c"], [row]).splitlines()[-1] == "  ".join(row)


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1 KB"),
        (1234, "1.23 KB"),
        (999_000, "999 KB"),
        (25e6, "25 MB"),
        (4.5e9, "4.5 GB"),
        (7e12, "7 TB"),
        (7e15, "7e+03 TB"),
    ],
)
def test_size(num_bytes, words):
    assert text.size(num_bytes) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (0.26, "0.3 s"),
        (59.4, "59.4 s"),
        (59.6, "1 min 0 s"),
        (61, "1 min 1 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90_061, "25 h 1 min"),
    ],
)
def test_duration(seconds, words):
    assert text.duration(seconds) == words


def test_what_is_printable_stays():
    assert text.printable("Ärger über 3 µm, 東京") == "Ärger über 3 µm, 東京"


def test_what_steers_a_terminal_does_not():
    """Escape sequences, a bell, and the mark that turns the reading around; lines become one."""
    assert text.printable("a\x1b[31mred\x07") == "a\ufffd[31mred\ufffd"
    assert text.printable("abc\u202etxt.exe") == "abc\ufffdtxt.exe"
    assert text.printable("  one\n\t two\r\n") == "one two"


def test_every_character_is_made_printable():
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    received = text.printable(everything)
    assert received.isprintable()
    assert "a" in received


def test_said_above_a_bar(capsys):
    """The bar is wiped, the line is written, the bar is drawn again below it."""
    text.say("plain")
    text.say()
    assert capsys.readouterr().out == "plain\n\n"
    written = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", written)
        with tqdm(total=2, file=written, leave=False) as bar:
            text.say("above")
            bar.update()
    assert "\rabove\n" in written.getvalue().replace(" ", "")


def test_long_cells_are_wrapped():
    """80 columns; continued under the column's beginning; words and paths are never broken."""
    path = "/" + "folder/" * 12
    shown = text.table([("left", "word " * 30), ("path", f"in {path}")]).splitlines()
    assert max(len(line) for line in shown if path not in line) <= text.WIDTH
    assert shown[0].startswith("  left  word")
    assert shown[1].startswith("        word")
    assert shown[-1] == f"        {path}"
    grid = text.grid(["n", "text"], [[1, "word " * 30], [2, "a\nb"]]).splitlines()
    assert max(map(len, grid)) <= text.WIDTH
    assert grid[3].startswith("   word")
    assert grid[-2:] == ["2  a", "   b"]


def test_what_cannot_be_wrapped_stays():
    """A column that is wider than a terminal by itself; a text without room for its indent."""
    lines = text.grid(["a", "b"], [["x" * 90, 1]]).splitlines()
    assert lines[-2:] == ["x" * 90, "    1"]
    assert text.wrapped("a b", 40, indent="  ") == ["a b"]
    assert text.wrapped("word " * 10, 30, indent="  ")[1].startswith("  word")
