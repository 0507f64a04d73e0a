"""The comparison of a report as rows, as CSV, as LaTeX and as text."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from tf_fedsam import text
from tf_fedsam.comparison.series import Series
from tf_fedsam.comparison.statistics import Difference, Spread
from tf_fedsam.comparison.targets import reached_words
from tf_fedsam.comparison.words import counted, percent, plus_minus
from tf_fedsam.report.cells import COLUMNS, COSTS, MEGA
from tf_fedsam.report.sections import Section, section_title

BRIEF = 4  # the first columns of the text table, which fit a terminal
SHOWN_STOPPED = 10
_LATEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "…": r"\ldots{}",
    "\ufffd": "?",
}


def rows(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """A row a series: every number of the page's tables, accuracies as shares.

    All rows have the same columns; what there is no number for is ``None``.
    """
    targets = sorted({target for section in sections for target in section.targets})
    return [
        _row(section, series, targets) for section in sections for series in section.group.series
    ]


def _row(section: Section, series: Series, targets: Sequence[float]) -> dict[str, Any]:
    problem = section.group.problem
    row: dict[str, Any] = {
        "problem": section_title(section, {}),
        **{name: problem[name] for name in ("dataset", "partition", "model", "rounds")},
        "series": series.label,
        "algo": series.algo,
        "complete": series.complete,
        "stopped": len(series.stopped),
        "n": len(series.runs),
        "seeds": " ".join(map(str, series.seeds)),
    }
    for name in COLUMNS:
        row |= _columns(name, series.spread(name))
    row |= _columns("mean_last_10_validation_accuracy", series.held_out())
    found = _difference(section, series)
    row["baseline"] = None if section.baseline is None else section.baseline.label
    row["difference"] = None if found is None else found.mean
    row["difference_half_interval"] = None if found is None else found.half
    row["difference_n"] = None if found is None else found.n
    for target in targets:
        there = series.reached(target)
        row[f"reached_{target:g}"] = there.num_reached
        for cost in COSTS:
            row |= _columns(f"{cost}_to_{target:g}", there.costs.get(cost))
    return row


def _columns(name: str, found: Spread | None) -> dict[str, Any]:
    if found is None:
        return {f"{name}_mean": None, f"{name}_std": None}
    return {f"{name}_mean": found.mean, f"{name}_std": found.std}


def _difference(section: Section, series: Series) -> Difference | None:
    if section.baseline is None or series is section.baseline or not series.complete:
        return None
    return series.difference(section.baseline, "test_accuracy")


def as_csv(sections: Sequence[Section]) -> str:
    """The rows with a header."""
    found = rows(sections)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: harmless(value) for name, value in row.items()} for row in found)
    return file.getvalue()


def harmless(value: Any) -> Any:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") else value


def latex(text: str) -> str:
    """Text that LaTeX sets as it is."""
    return "".join(_LATEX.get(c, c) for c in text)


def as_latex(sections: Sequence[Section]) -> str:
    """A table a section, for the package booktabs; only complete runs."""
    parts = ["% Needs \\usepackage{booktabs}. Accuracies in percent: mean and sample standard"]
    parts.append("% deviation over seeds; differences with 95 % confidence intervals over pairs.")
    for section in sections:
        if section.group.complete:
            parts += ["", *_latex_table(section)]
    return "\n".join(parts) + "\n"


def _latex_table(section: Section) -> list[str]:
    group, baseline = section.group, section.baseline
    compared = baseline is not None
    holds_out = _holds_out(section)
    header = ["Method", "$n$", *COLUMNS.values(), *["Held out"] * holds_out]
    header += [f"Rounds to {100 * t:g}\\,\\%" for t in section.targets]
    header += [f"MB to {100 * t:g}\\,\\%" for t in section.targets]
    if compared:
        header.append("Difference")
    best = {}
    for name in COLUMNS:
        means = [m.mean for s in group.complete if (m := s.spread(name)) is not None]
        best[name] = max(means) if len(means) > 1 else None
    lines = [
        f"% {latex(section_title(section, {}))}",
        f"\\begin{{tabular}}{{lr{'r' * (len(header) - 2)}}}",
        "\\toprule",
        " & ".join(header) + r" \\",
        "\\midrule",
    ]
    for series in group.complete:
        cells = [latex(series.label), str(len(series.runs))]
        for name in COLUMNS:
            found = series.spread(name)
            text = _plus_minus(found)
            bold = found is not None and found.mean == best[name]
            cells.append(f"$\\mathbf{{{text}}}$" if bold else f"${text}$" if found else "--")
        if holds_out:
            cells.append(f"${text}$" if (text := _plus_minus(series.held_out())) else "--")
        for cost, scale in (("round", 1.0), ("bytes", MEGA)):
            for target in section.targets:
                there = series.reached(target)
                one = there.costs.get(cost)
                never = f"$>{there.rounds}$" if cost == "round" else "--"
                if there.num_reached:
                    never = f"${there.num_reached}/{there.n}$"
                cells.append(never if one is None else f"${one.mean / scale:.4g}$")
        if compared:
            cells.append(_latex_difference(section, series))
        lines.append(" & ".join(cells) + r" \\")
    return [*lines, "\\bottomrule", "\\end{tabular}"]


def _holds_out(section: Section) -> bool:
    """Whether some series have an accuracy on training examples that nobody trains on."""
    return any(series.held_out() for series in section.group.series)


def _plus_minus(found: Spread | None) -> str:
    if found is None:
        return ""
    return percent(found.mean) + ("" if found.std is None else f" \\pm {percent(found.std)}")


def _latex_difference(section: Section, series: Series) -> str:
    found = _difference(section, series)
    if found is None:
        return "--"
    half = "" if found.half is None else f" \\pm {percent(found.half)}"
    return f"${100 * found.mean:+.2f}{half}$"


def text_columns(section: Section) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the page's main table, accuracies in percent."""
    header = ["series", "seeds", "last %", "difference", "best %", "mean of last 10 %", "FedInit %"]
    holds_out = _holds_out(section)
    header += ["held out %"] * holds_out
    header += [f"rounds to {100 * target:g} %" for target in section.targets]
    found = []
    for series in section.group.series:
        last, *others = (series.spread(name) for name in COLUMNS)
        row = [series.label, str(len(series.runs)), _text(last), _difference_words(section, series)]
        row += [_text(other) for other in others]
        row += [_text(series.held_out())] * holds_out
        row += [reached_words(series.reached(target)) for target in section.targets]
        found.append(row)
    return header, found


def as_text(section: Section, *, brief: bool = False) -> str:
    """The main table for a terminal; brief: only the last accuracy and the difference."""
    header, found = text_columns(section)
    end = BRIEF if brief else len(header)
    table = text.grid(header[:end], [row[:end] for row in found])
    return "\n".join([table, *stopped_words(section)])


def stopped_words(section: Section) -> list[str]:
    """A line each run that stopped early."""
    lines = [
        text.printable(
            f"{series.label}, seed {run.seed}, stopped early after "
            f"{counted(len(run.records), 'round')}: {run.stopped}"
        )
        for series in section.group.series
        for run in series.stopped
    ]
    more = len(lines) - SHOWN_STOPPED
    return lines[:SHOWN_STOPPED] + [f"... and {more} more stopped early"] * (more > 0)


def _text(found: Spread | None) -> str:
    return "-" if found is None else plus_minus(found, percent)


def _difference_words(section: Section, series: Series) -> str:
    """The difference to the baseline in points, or why there is none."""
    if series is section.baseline:
        return "baseline"
    if not series.complete:
        return f"{len(series.runs[0].records)} of {section.group.problem['rounds']} rounds"
    found = _difference(section, series)
    if found is None:
        return "-" if section.baseline is None else "no common seed"
    if found.half is None:
        return f"{100 * found.mean:+.2f} no interval, 1 seed"
    return f"{100 * found.mean:+.2f} ± {percent(found.half)} (n={found.n})"
