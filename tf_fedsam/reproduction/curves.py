"""Test accuracy by round of a table's methods: numbers as a table, and a picture of them."""

import hashlib
import io
import json
import pathlib
from collections.abc import Mapping, Sequence

from tf_fedsam import looks
from tf_fedsam.comparison import words
from tf_fedsam.reproduction.comparison import Comparison, Entry

FOLDER = "curves"
MOST_COLUMNS = 10
WIDTH, HEIGHT, DPI = 7.2, 4.2, 130  # inches, and pixels of one


def of(comparison: Comparison, column: str) -> dict[str, Entry]:
    """The methods of a column whose curves are known."""
    several = {e.row for e in comparison.variants}
    every = {e.row: e for e in comparison.of(column, "accuracy") if e.row not in several}
    every |= {
        e.variant: e for e in comparison.variants if (e.column, e.item) == (column, "accuracy")
    }
    return {name: entry for name, entry in every.items() if entry.curve}


def grid(found: Mapping[str, Entry]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Header and lines: accuracy in per cent after some of the rounds."""
    rounds = sorted({number for entry in found.values() for number, _ in entry.curve})
    step = -(-len(rounds) // MOST_COLUMNS)
    shown = rounds[::-1][::step][::-1]
    lines: list[Sequence[str]] = []
    for name, entry in found.items():
        there = dict(entry.curve)
        lines.append((name, *(words.percent(there[n]) if n in there else "-" for n in shown)))
    return ("method", *map(str, shown)), lines


def digest(found: Mapping[str, Entry]) -> str:
    """The same for the same curves."""
    numbers = [[name, [list(point) for point in entry.curve]] for name, entry in found.items()]
    return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:32]


def picture(found: Mapping[str, Entry], title: str) -> bytes:
    """A PNG that knows the digest of its curves."""
    from matplotlib.figure import Figure

    figure = Figure((WIDTH, HEIGHT), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    styles = looks.styles([entry.algo for entry in found.values()])
    for (name, entry), style in zip(found.items(), styles, strict=True):
        numbers, values = zip(*entry.curve, strict=True)
        look = looks.line(style, len(numbers))
        axes.plot(numbers, [100 * v for v in values], linewidth=1.5, label=name, **look)
    axes.set(xlabel="round", ylabel="test accuracy, %", title=title)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Description": digest(found), "Software": None})
    return file.getvalue()


def digest_of_picture(path: pathlib.Path) -> str | None:
    """What a picture knows of its curves; ``None`` if there is none."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.info.get("Description")
    except OSError:
        return None
