"""A comparison in words: for a terminal, as Markdown, and as a page of HTML."""

import html
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tf_fedsam import text
from tf_fedsam.comparison import words
from tf_fedsam.comparison.statistics import difference
from tf_fedsam.report.style import STYLE
from tf_fedsam.reproduction.comparison import Comparison, Entry, Order
from tf_fedsam.reproduction.tables import PAPERS, SHARES, Column, Table

HEADER = ("method", "printed", "measured", "seeds", "difference", "within noise")
HEADER_ALONE = ("method", "measured", "seeds")
HEADER_ORDER = ("method", "printed", "measured", "seeds")
NOTHING = "-"
TITLES = {
    "accuracy": "test accuracy, %",
    "best": "test accuracy of the best round, %",
    "mean_last_10": "mean test accuracy of the last 10 rounds, %",
    "train": "accuracy on the clients' training examples, %",
    "train_sd": "its deviation over clients, %",
    "validation": "accuracy on the clients' validation examples, %",
    "validation_sd": "its deviation over clients, %",
    "rounds": "rounds to the target",
    "seconds": "seconds a round",
    "total_seconds": "seconds to the target",
    "flatness_distance": "flatness distance of the last round",
    "sharpness": "sharpness: rise of the loss after a step of length 0.1 uphill",
    "sharpness_local_on_own": "sharpness of local models on their clients' examples",
    "hessian_eigenvalue": "largest eigenvalue of the Hessian",
}

STATISTICS = {
    "test_accuracy": "last round",
    "best_test_accuracy": "best round",
    "mean_last_10_test_accuracy": "mean of the last 10",
}

Grid = tuple[Sequence[str], list[Sequence[str]]]


def column_grid(comparison: Comparison, column: str, item: str) -> tuple[Grid, list[str]]:
    """Header and lines of a column, and the notes to them."""
    lines: list[Sequence[str]] = []
    notes: list[str] = []
    if not any(e.printed.is_there for e in comparison.of(column, item)):
        lines += [(e.row, _measured(e), _seeds(e)) for e in comparison.of(column, item)]
        return (HEADER_ALONE, lines), notes
    for entry in comparison.of(column, item):
        lines.append(_line(comparison, entry, notes))
        some = [
            e
            for e in comparison.variants
            if (e.row, e.column, e.item) == (entry.row, column, item) and e.n
        ]
        lines += [(f"- {e.variant}", NOTHING, _measured(e), _seeds(e), "", "") for e in some]
    if comparison.table.order_only:
        return (HEADER_ORDER, [line[: len(HEADER_ORDER)] for line in lines]), notes
    return (HEADER, lines), notes


def pair_words(comparison: Comparison, column: str, item: str) -> list[str]:
    """What the pairs of methods that a table asks for say, a line each."""
    form = _form(item)
    said = []
    for first, second, found in comparison.pairs(column, item):
        line = f"{first} against {second}: {_signed(found.mean, form)}"
        if found.half is None:
            line += " (one seed)"
        else:
            evidence = "" if found.is_evidence else ", which holds zero"
            line += (
                f" over {found.n} seeds, 95 % interval "
                f"{_signed(found.mean - found.half, form)} to "
                f"{_signed(found.mean + found.half, form)}{evidence}"
            )
        said.append(f"{line}.")
    return said


def order_words(found: Order | None, item: str = "accuracy", order_only: bool = False) -> list[str]:
    """What a column says about the order of the methods."""
    if found is None:
        return []
    form = _form(item)
    name, worst = found.largest
    both = f"{words.counted(found.n, 'method')} with both numbers"
    said = [
        f"{both}, of other settings: only their order can be compared."
        if order_only
        else f"{both}: measured minus printed is {_signed(found.mean_difference, form)} on "
        f"average, {form(found.mean_size)} without signs, and largest for {name} "
        f"({_signed(worst, form)})."
    ]
    if found.correlation is not None and found.low is not None and found.high is not None:
        said.append(
            f"Rank correlation with the paper {found.correlation:.2f} (95 % of resamplings of the "
            f"methods: {found.low:.2f} to {found.high:.2f})."
        )
    if len(found.here) > 1:
        said.append(f"From the best, measured: {', '.join(found.here)}.")
        said.append(f"From the best, printed: {', '.join(found.there)}.")
    return said


def _order_words(comparison: Comparison, column: str, item: str) -> list[str]:
    only = comparison.table.order_only
    return order_words(comparison.order(column, item), item, only)


def markdown(comparison: Comparison, level: int = 4) -> str:
    """All columns, each a table with its notes and the order of its methods."""
    parts = _changed_words(comparison)
    for column in comparison.columns:
        parts.append(f"{'#' * level} {comparison.table.name}: {column.name}")
        if column.not_measured:
            parts.append(f"Not measured: {column.not_measured}.")
            continue
        if comparison.is_empty(column.name):
            parts.append("Not run.")
            continue
        for item in comparison.items(column.name):
            (header, lines), notes = column_grid(comparison, column.name, item)
            parts.append(f"{_title(item, column)}:")
            parts.append(markdown_table(header, lines))
            notes += pair_words(comparison, column.name, item)
            parts += notes and ["\n".join(f"- {note}" for note in notes)]
            order = _order_words(comparison, column.name, item)
            parts += order and [" ".join(order)]
    return "\n\n".join(parts) + "\n"


def summary(found: Mapping[str, Comparison]) -> str:
    """How well measured and printed accuracies agree, by each of some statistics.

    Args:
        found: the same columns, by the names of the statistics.
    """
    header = (
        *("column", "accuracy of", "within noise"),
        *("mean difference", "mean size of it", "rank correlation (95 %)"),
    )
    lines, away = [], []
    first = next(iter(found.values()))
    for column in first.columns:
        for statistic, comparison in found.items():
            order = comparison.order(column.name)
            if order is None:
                continue
            entries = [
                e for e in comparison.of(column.name, "accuracy") if e.difference is not None
            ]
            within = [e for e in entries if comparison.within_noise(e)]
            lines.append(
                (
                    column.name,
                    STATISTICS[statistic],
                    f"{len(within)} of {len(entries)}",
                    _signed(order.mean_difference, words.percent),
                    words.percent(order.mean_size),
                    _ranks(order),
                )
            )
            outside = [
                f"{e.row} {_signed(e.difference or 0.0, words.percent)}"
                for e in entries
                if comparison.within_noise(e) is False
            ]
            place = f"{column.name}, {STATISTICS[statistic]}"
            away += outside and [f"- {place}: {', '.join(outside)}"]
    told = "\n".join(["Outside of the noise:\n", *away]) if away else "All are within the noise."
    return f"{markdown_table(header, lines)}\n\n{told}\n"


def _ranks(order: Order) -> str:
    if order.correlation is None or order.low is None or order.high is None:
        return NOTHING
    return f"{order.correlation:.2f} ({order.low:.2f} to {order.high:.2f})"


def claims(comparison: Comparison) -> str:
    """Whether the claims of a table hold here."""
    header = ("claim", "measure", "measured, in the order that should rise", "holds")
    lines = []
    for claim in comparison.table.claims:
        entries, seeds, rising = comparison.judged(claim)
        told = [
            f"{row}, {column}: {_measured(entry)}"
            for (row, column), entry in zip(claim.places, entries, strict=False)
        ]
        means = [entry.measured.mean for entry in entries if entry.measured is not None]
        mean = all(a < b for a, b in itertools.pairwise(means))
        holds = f"{'on average' if mean else 'not on average'}, in {len(rising)} of {len(seeds)}"
        lines.append(
            (claim.says, TITLES[claim.item], "; ".join(told), holds if seeds else "not run")
        )
    return f"{markdown_table(header, lines)}\n"


def side_by_side(comparison: Comparison, level: int = 4) -> str:
    """Each column as one table of the methods that were run, with everything known of them."""
    parts = []
    for column in comparison.columns:
        parts.append(f"{'#' * level} {comparison.table.name}: {column.name}")
        several = {e.row for e in comparison.variants}
        every = [(e.row, e) for e in comparison.entries if e.row not in several]
        every += [(e.variant, e) for e in comparison.variants]
        here = [(n, e) for n, e in every if e.column == column.name and e.measured is not None]
        items = [i for i in comparison.items(column.name) if any(e.item == i for _, e in here)]
        lines = []
        for method in dict.fromkeys(name for name, _ in here):
            own = {e.item: e for name, e in here if name == method}
            seeds = str(max(e.n for e in own.values()))
            cells = (_measured(own[i]) if i in own else NOTHING for i in items)
            lines.append((method, seeds, *cells))
        header = ("method", "seeds", *(TITLES[i] for i in items))
        parts.append(markdown_table(header, lines) if lines else "Not run.")
        notes = [note for i in items for note in _against_first(i, here)]
        parts += notes and ["\n".join(f"- {note}" for note in notes)]
    return "\n\n".join(parts) + "\n"


def _against_first(item: str, entries: Sequence[tuple[str, Entry]]) -> list[str]:
    """Where methods with several seeds differ from the first one, seed by seed."""
    by_seed = {name: e.by_seed for name, e in entries if e.item == item}
    first, *others = by_seed
    found = {name: difference(by_seed[name], by_seed[first]) for name in others}
    told = {name: d for name, d in found.items() if d is not None and d.half is not None}
    if not told:
        return []
    form = _form(item)
    sure = [
        f"{name} {_signed(d.mean, form)} ({_signed(d.mean - (d.half or 0), form)} to "
        f"{_signed(d.mean + (d.half or 0), form)})"
        for name, d in told.items()
        if d.is_evidence
    ]
    title = TITLES[item].partition(":")[0]
    said = f"{title} minus that of {first} with the same seed, where its 95 % interval"
    return [f"{said} does not hold zero: {'; '.join(sure) or 'none'}."]


def surfaces(landscape: Mapping[str, Any]) -> str:
    """The numbers that ``launch.landscape`` wrote."""
    radius = f"{landscape['settings']['ring_radius']:g}"
    header = ("method", "loss", "accuracy, %", f"mean loss at {radius}", "rise")
    lines = [
        (
            run["label"],
            f"{run['loss']:.4f}",
            words.percent(run["accuracy"]),
            f"{run['ring']:.4f}",
            f"{run['rise']:+.4f}",
        )
        for run in landscape["runs"]
    ]
    names = {run["folder"]: run["label"] for run in landscape["runs"]}
    barriers = [
        f"{names[one['from']]} to {names[one['to']]} {one['barrier']:.4f}"
        for one in landscape.get("between", ())
    ]
    parts = [markdown_table(header, lines)]
    parts += barriers and [f"Barriers on the straight line: {'; '.join(barriers)}."]
    return "\n\n".join(parts) + "\n"


def terminal(comparison: Comparison) -> str:
    """The same for people at a terminal."""
    parts = [comparison.table.heading]
    parts += _changed_words(comparison)
    for column in comparison.columns:
        parts.append(f"\n{column.name}" + (f": {column.not_measured}" * bool(column.not_measured)))
        for item in comparison.items(column.name) if not column.not_measured else ():
            (header, lines), notes = column_grid(comparison, column.name, item)
            parts += [_title(item, column), text.grid(header, lines)]
            order = _order_words(comparison, column.name, item)
            notes += pair_words(comparison, column.name, item)
            for said in [*(f"  {note}" for note in notes), *order]:
                parts += text.wrapped(said, indent="  ")
    return "\n".join(parts)


def page(comparison: Comparison, command: str = "") -> str:
    """A page of HTML that needs nothing but itself."""
    table = comparison.table
    parts = [f"<h1>{_e(table.heading)}</h1>", f'<p class="lead">{_e(PAPERS[table.paper])}</p>']
    parts += [f'<p class="lead">{_e(said)}</p>' for said in _changed_words(comparison)]
    for title, found in (("What the paper leaves open", table.open), ("Assumed", table.assumed)):
        items = "".join(f"<li>{_e(one)}</li>" for one in found)
        parts.append(f"<h2>{title}</h2><ul>{items}</ul>")
    for column in comparison.columns:
        parts.append(f"<h2>{_e(column.name)}</h2>")
        if column.not_measured:
            parts.append(f"<p>Not measured: {_e(column.not_measured)}.</p>")
            continue
        for item in comparison.items(column.name):
            grid, notes = column_grid(comparison, column.name, item)
            pairs = pair_words(comparison, column.name, item)
            said = [*notes, *pairs, *_order_words(comparison, column.name, item)]
            parts.append(f"<h3>{_e(_title(item, column))}</h3>{_html_table(grid)}")
            parts += [f'<p class="notes">{_e(one)}</p>' for one in said]
    if command:
        parts.append(f"<h2>Command</h2><pre>{_e(command)}</pre>")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_e(table.heading)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def about(table: Table) -> list[tuple[str, str]]:
    """A table in short: columns, rows, what is open and what is assumed."""
    columns = table.columns.values()
    data = dict.fromkeys((c.dataset, str(c.settings.get("model", ""))) for c in columns)
    rows = [row.name for row in table.rows.values() if not row.beyond]
    beyond = [row.name for row in table.rows.values() if row.beyond]
    told = [
        ("data", ", ".join(f"{dataset} ({model})" for dataset, model in data)),
        ("columns", ", ".join(table.columns)),
        ("rows", ", ".join(rows)),
    ]
    told += [("beyond the paper", ", ".join(beyond))] if beyond else []
    told += [("open", one) for one in table.open]
    told += [("assumed", one) for one in table.assumed]
    return told + [("suspect", one) for one in _suspect(table)]


def markdown_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines]
    return "\n".join([f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *rows])


def _suspect(table: Table) -> list[str]:
    """Each reason once, with the rows that it is about."""
    rows: dict[str, list[str]] = {}
    for (row, _), reason in table.suspect.items():
        rows.setdefault(reason, []).append(row)
    return [f"{', '.join(dict.fromkeys(some))}: {reason}" for reason, some in rows.items()]


def _line(comparison: Comparison, entry: Entry, notes: list[str]) -> Sequence[str]:
    row = entry.row
    if entry.reason:
        notes.append(f"{row}, suspect: {entry.reason}.")
        row += " (suspect)"
    if entry.beyond:
        row += " (not in the paper)"
    form, away = _form(entry.item), entry.difference
    within = comparison.within_noise(entry)
    return (
        row,
        _printed(entry),
        _measured(entry),
        _seeds(entry),
        NOTHING if away is None else _signed(away, form),
        NOTHING if within is None else "yes" if within else "no",
    )


def _printed(entry: Entry) -> str:
    number, form = entry.printed, _form(entry.item)
    if number.not_within is not None:
        return "not reached" if math.isinf(number.not_within) else f">{number.not_within:g}"
    if number.value is None:
        return NOTHING
    return form(number.value) + ("" if number.sd is None else f" ± {form(number.sd)}")


def _measured(entry: Entry) -> str:
    if entry.missed:
        return f"not reached by {entry.missed} of {entry.n}"
    if entry.measured is None:
        return "not run" if not entry.n else NOTHING
    return words.plus_minus(entry.measured, _form(entry.item))


def _seeds(entry: Entry) -> str:
    return str(entry.n) if entry.n else NOTHING


def _title(item: str, column: Column) -> str:
    title = TITLES[item]
    return f"{title} of {column.target:g}" if item in ("rounds", "total_seconds") else title


def _form(item: str) -> Callable[[float], str]:
    return words.percent if item in SHARES else lambda value: f"{value:.4g}"


def _signed(value: float, form: Callable[[float], str]) -> str:
    return f"{'+' if value >= 0 else '-'}{form(abs(value))}"


def _changed_words(comparison: Comparison) -> list[str]:
    changed = comparison.changed
    if not changed:
        return []
    told = ", ".join(f"{name}={value}" for name, value in changed.items())
    return [f"These runs are not the table's, which has {told}: the numbers cannot be compared."]


def _html_table(grid: Grid) -> str:
    header, lines = grid
    head = "".join(f"<th>{_e(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{_e(c)}</td>' for c in line)}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _e(said: str) -> str:
    return html.escape(said)
