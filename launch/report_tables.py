"""The comparison of a report as CSV, as LaTeX and for the terminal."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from launch import terminal
from launch.report_parts import COLUMNS, MEGA, Section, percent, section_title
from tf_fedsam.analysis.compare import Difference, Series, Spread

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


def as_csv(sections: Sequence[Section]) -> str:
    """A line a series: every number of the page's tables, accuracies as shares."""
    costs = ("round", "bytes", "gradient_evaluations", "seconds", "vectors")
    targets = sorted({target for section in sections for target in section.targets})
    rows: list[dict[str, Any]] = []
    for section in sections:
        problem = section.group.problem
        for series in section.group.series:
            row: dict[str, Any] = {
                "dataset": problem["dataset"],
                "partition": problem["partition"],
                "model": problem["model"],
                "rounds": problem["rounds"],
                "series": series.label,
                "algo": series.algo,
                "complete": series.complete,
                "n": len(series.runs),
                "seeds": " ".join(map(str, series.seeds)),
            }
            for name in COLUMNS:
                row |= _columns(name, series.spread(name))
            baseline = section.baseline
            row["baseline"] = "" if baseline is None else baseline.label
            found = _difference(section, series)
            row["difference"] = "" if found is None else found.mean
            row["difference_half_interval"] = (
                "" if found is None or found.half is None else found.half
            )
            row["difference_n"] = "" if found is None else found.n
            for target in targets:
                there = series.reached(target)
                row[f"reached_{target:g}"] = there.num_reached
                for cost in costs:
                    row |= _columns(f"{cost}_to_{target:g}", there.costs.get(cost))
            rows.append(row)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)
    return file.getvalue()


def _columns(name: str, found: Spread | None) -> dict[str, Any]:
    mean = "" if found is None else found.mean
    std = "" if found is None or found.std is None else found.std
    return {f"{name}_mean": mean, f"{name}_std": std}


def _harmless(value: Any) -> Any:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") else value


def _difference(section: Section, series: Series) -> Difference | None:
    if section.baseline is None or series is section.baseline or not series.complete:
        return None
    return series.difference(section.baseline, "test_accuracy")


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
    header = ["Method", "$n$", *COLUMNS.values()]
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
        for cost, scale in (("round", 1.0), ("bytes", MEGA)):
            for target in section.targets:
                there = series.reached(target)
                one = there.costs.get(cost)
                never = f"$>{group.problem['rounds']}$" if cost == "round" else "--"
                if there.num_reached:
                    never = f"${there.num_reached}/{there.n}$"
                cells.append(never if one is None else f"${one.mean / scale:.4g}$")
        if compared:
            cells.append(_latex_difference(section, series))
        lines.append(" & ".join(cells) + r" \\")
    return [*lines, "\\bottomrule", "\\end{tabular}"]


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


def for_terminal(section: Section) -> str:
    """Series, last accuracy and difference, in points of percent."""
    header = ["series", "seeds", "last %", "difference"]
    rows = []
    for series in section.group.series:
        last, found = series.spread("test_accuracy"), _difference(section, series)
        assert last is not None
        std = "" if last.std is None else f" ± {percent(last.std)}"
        if series is section.baseline:
            words = "baseline"
        elif not series.complete:
            words = f"{len(series.runs[0].records)} of {section.group.problem['rounds']} rounds"
        elif found is None:
            words = "-" if section.baseline is None else "no common seed"
        else:
            half = "no interval, 1 seed" if found.half is None else f"± {percent(found.half)}"
            words = f"{100 * found.mean:+.2f} {half}"
            words += f" (n={found.n})" if found.half is not None else ""
        rows.append((series.label, len(series.runs), percent(last.mean) + std, words))
    return terminal.grid(header, rows)
