"""Tables, sizes and durations as a user reads them at a terminal."""

import functools
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from tqdm import tqdm

WIDTH = 80  # of a terminal, at least
NARROWEST = 24  # column that text is wrapped into
INDENT = " " * 4  # of lines that go on


def table(rows: Iterable[tuple[str, Any]], title: str = "") -> str:
    """Two aligned columns; the right one is wrapped, so that lines fit a terminal."""
    rows = [(str(left), str(right)) for left, right in rows]
    width = max(len(left) for left, _ in rows)
    lines = [
        f"  {left if first else '':<{width}}  {line}".rstrip()
        for left, right in rows
        for first, line in _marked(wrapped(right, WIDTH - width - 4))
    ]
    return "\n".join([title, *lines] if title else lines)


def grid(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns with a header, in lines that fit a terminal.

    The last column is wrapped; where the others leave no room for that, the columns that do not fit
    go on, indented, in a further line of each row.
    """
    cells = [[str(c) for c in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    room = WIDTH - sum(width + 2 for width in widths[:-1])
    parts = [wrapped(row[-1], room) if room >= NARROWEST else [row[-1]] for row in cells]
    widths[-1] = max(len(line) for lines in parts for line in lines)
    places = _columns_by_line(widths)
    found = []
    for row, lines in zip(cells, parts, strict=True):
        for first, line in _marked(lines):
            found += _lines([*(row[:-1] if first else [""] * (len(row) - 1)), line], widths, places)
        if len(found) == len(places):  # those of the header
            found += _lines(["-" * w for w in widths], widths, places)
    return "\n".join(found)


def _columns_by_line(widths: Sequence[int]) -> list[list[int]]:
    """The columns that are side by side, for each line of a row."""
    places: list[list[int]] = [[]]
    used = 0
    for column, width in enumerate(widths):
        if places[-1] and used + width > WIDTH:
            places.append([])
            used = len(INDENT)
        places[-1].append(column)
        used += width + 2
    return places


def _lines(row: Sequence[str], widths: Sequence[int], places: list[list[int]]) -> list[str]:
    """A row of a grid."""
    return [
        (INDENT * (number > 0) + "  ".join(f"{row[i]:<{widths[i]}}" for i in line)).rstrip()
        for number, line in enumerate(places)
    ]


def wrapped(text: str, width: int = WIDTH, indent: str = "") -> list[str]:
    """The lines of a text that are at most so long, if its words allow it.

    Args:
        text: whose own lines stay apart.
        width: of a line.
        indent: before all lines but the first.
    """
    fill = functools.partial(
        textwrap.wrap,
        width=max(width, NARROWEST),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line for part in text.split("\n") for line in fill(part) or [""]]


def _marked(lines: Sequence[str]) -> Iterable[tuple[bool, str]]:
    """Lines, with whether each is the first."""
    return ((number == 0, line) for number, line in enumerate(lines))


def say(text: str = "") -> None:
    """Prints a line above a progress bar."""
    tqdm.write(text, file=sys.stdout)
    sys.stdout.flush()


def size(num_bytes: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.3g} TB"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def printable(text: str) -> str:
    """The text on one line, without characters that steer a terminal or turn the reading around."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
