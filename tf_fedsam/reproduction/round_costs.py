"""What a round costs, printed beside measured: over FedAvg, since the machines are others."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence

from tf_fedsam.comparison import words
from tf_fedsam.errors import InputError
from tf_fedsam.reproduction.comparison import order
from tf_fedsam.reproduction.tables import Column, Row, Table
from tf_fedsam.reproduction.texts import NOTHING, markdown_table

SECONDS = "seconds"
BASELINE = "fedavg"
# As launch.bench calls the table with all methods, and its columns of ratios.
MEASURED, OVER = "algorithms", ": x FedAvg"


@dataclasses.dataclass(frozen=True)
class Measured:
    """What ``launch.bench --algorithms --json`` wrote.

    Attributes:
        command: that measured it.
        machine: cores and version of TensorFlow.
        works: what was measured on.
        gradients: a step, by algorithm.
        ratios: over FedAvg, by algorithm, in the order of the works.
    """

    command: str
    machine: str
    works: tuple[str, ...]
    gradients: Mapping[str, str]
    ratios: Mapping[str, tuple[float, ...]]


def read(path: pathlib.Path) -> Measured | None:
    """What a file holds; ``None`` if there is none.

    Raises:
        InputError: for a file that is something else.
    """
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text())
        found = content["tables"][MEASURED]
        columns = found["header"][2:]
        works = tuple(name.removesuffix(OVER) for name in columns if name.endswith(OVER))
        ratios = {name: tuple(map(float, values)) for name, _, *values in found["rows"]}
        gradients = {name: str(each) for name, each, *_ in found["rows"]}
        if any(len(columns) != len(values) for values in (works, *ratios.values())):
            raise ValueError("not a ratio of every method on every work")
        machine = f"{words.counted(content['cores'], 'core')}, TensorFlow {content['tensorflow']}"
        return Measured(content["command"], machine, works, gradients, ratios)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path} has no costs of methods: {type(error).__name__} {error}. Expected: a file "
            f"that python -m launch.bench --algorithms --json=FILE wrote."
        ) from None


def markdown(
    table: Table, column: Column, measured: Measured | None, file: str, level: int = 4
) -> str:
    """A column of seconds beside what was measured, with notes and the order of the methods."""
    if column.items != (SECONDS,):
        raise InputError(
            f"The column {column.name} of {table.name} does not hold seconds a round. "
            f"Expected: one that does."
        )
    parts = [f"{'#' * level} {table.name}: {column.name}"]
    if measured is None:
        return f"{parts[0]}\n\nNot measured.\n"
    printed = {name: _printed(table, name, column) for name in table.rows}
    base = next(
        (printed[row.name] for row in table.rows.values() if _algorithm(row) == BASELINE), None
    )
    over = {n: None if s is None or not base else s / base for n, s in printed.items()}
    lines, notes = [], []
    for row in table.rows.values():
        algorithm, name = _algorithm(row), row.name
        if reason := table.suspect.get((row.name, column.name)):
            notes.append(f"{name}, suspect: {reason}.")
            name += " (suspect)"
        here = measured.ratios.get(algorithm)
        lines.append(
            (
                name,
                NOTHING if printed[row.name] is None else f"{printed[row.name]:g}",
                _ratio(over[row.name]),
                *(map(_ratio, here) if here else ["not measured"] * len(measured.works)),
                measured.gradients.get(algorithm, NOTHING),
            )
        )
    header = (
        *("method", "printed, s", "printed / FedAvg"),
        *(f"{work} / FedAvg" for work in measured.works),
        "gradients a step",
    )
    notes += _orders(table, over, measured)
    parts += [
        markdown_table(header, lines),
        "\n".join(f"- {note}" for note in notes),
        f"Measured by `{measured.command}` ({measured.machine}), kept in [`{file}`]({file}).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _orders(table: Table, over: Mapping[str, float | None], measured: Measured) -> Sequence[str]:
    """How the measured ratios agree with the printed ones, a line for each work."""
    said = []
    for place, work in enumerate(measured.works):
        pairs = {
            row.name: (measured.ratios[_algorithm(row)][place], there)
            for row in table.rows.values()
            if (there := over[row.name]) is not None and _algorithm(row) in measured.ratios
        }
        found = order(pairs, higher_is_better=False)
        if found is None:
            continue
        name, worst = found.largest
        line = (
            f"{work}: {words.counted(found.n, 'method')} with both ratios; measured minus printed "
            f"is {found.mean_difference:+.2f} on average, and largest for {name} ({worst:+.2f})"
        )
        if found.correlation is not None:
            line += (
                f"; rank correlation {found.correlation:.2f} (95 % of resamplings of the methods: "
                f"{found.low:.2f} to {found.high:.2f})"
            )
        said.append(f"{line}.")
    return said


def _printed(table: Table, row: str, column: Column) -> float | None:
    number = table.printed.get((row, column.name, SECONDS))
    return None if number is None else number.value


def _algorithm(row: Row) -> str:
    """Of a row that is one method."""
    [settings] = row.variants.values()
    return settings["algo"]


def _ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"
