"""What a user sees at the terminal."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tqdm import tqdm


def table(rows: Iterable[tuple[str, Any]], title: str = "") -> str:
    """Two aligned columns."""
    rows = [(str(left), str(right)) for left, right in rows]
    width = max(len(left) for left, _ in rows)
    lines = [f"  {left:<{width}}  {right}" for left, right in rows]
    return "\n".join([title, *lines] if title else lines)


def grid(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns with a header."""
    cells = [[str(c) for c in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def say(text: str = "") -> None:
    """Prints a line above a progress bar."""
    tqdm.write(text, file=sys.stdout)
    sys.stdout.flush()


class Progress:
    """A bar on a terminal, else a line a round."""

    def __init__(self, done: int, total: int):
        self._total = total
        self._accuracy: float | None = None
        self._bar = None
        if sys.stdout.isatty():
            self._bar = tqdm(
                total=total, initial=done, unit="round", dynamic_ncols=True, file=sys.stdout
            )

    def update(self, record: Mapping[str, Any], notes: Sequence[str] = ()) -> None:
        """Shows a round, and above it what there is to say about it."""
        for note in notes:
            say(note)
        self._accuracy = record.get("test_accuracy", self._accuracy)
        loss = record["train_loss"]
        fields = {"loss": "none" if loss is None else f"{loss:.4f}"}
        if self._accuracy is not None:
            fields["accuracy"] = f"{self._accuracy:.2%}"
        if self._bar is not None:
            self._bar.set_postfix(fields, refresh=False)
            self._bar.update()
            return
        words = "  ".join(f"{name} {value}" for name, value in fields.items())
        say(f"round {record['round']:>4}/{self._total}  {words}  {record['seconds']:.2f} s")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


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
