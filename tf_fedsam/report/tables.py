"""The further tables of a report's page: measured last, costs, differences, every run."""

import json

from tf_fedsam.comparison.compared_run import ComparedRun
from tf_fedsam.comparison.statistics import spread
from tf_fedsam.comparison.targets import total
from tf_fedsam.comparison.values import number
from tf_fedsam.comparison.words import percent, short
from tf_fedsam.report.cells import (
    COLUMNS,
    COSTS,
    Cell,
    difference_cell,
    e,
    name_cell,
    seeds_cell,
    spread_cells,
    table,
    target_cells,
)
from tf_fedsam.report.measures import CHARTS
from tf_fedsam.report.sections import Report, Section


def last_values(section: Section) -> str:
    """The newest value of every measure, as a table."""
    group, columns, header = section.group, [], [("Series", "")]
    for _, measures in CHARTS.values():
        for measure in measures:
            found = {
                s.label: spread(number(r.last_probe.get(measure.name)) for r in s.runs)
                for s in group.series
            }
            if any(found.values()):
                header.append((measure.title, ""))
                columns.append(spread_cells(group, found, lowest=None))
    if not columns:
        return ""
    rows = [
        ("", [name_cell(section, s), *(column[s.label] for column in columns)])
        for s in group.series
    ]
    rhos = {json.dumps(run.settings.get("sharpness_rho")) for run in group.runs}
    note = "" if len(rhos) == 1 else " Sharpness was measured with different sharpness_rho."
    return (
        "<h3>Measured last</h3><p>Mean ± standard deviation over seeds of the newest value of each "
        f"run.{note}</p>{table('Loss, flatness, sharpness and agreement at the end', header, rows)}"
    )


def cost_tables(section: Section) -> str:
    group = section.group
    header, columns = [("Series", ""), ("Seeds", "")], []
    for cost, (title, scale) in COSTS.items():
        if cost == "round":
            continue
        found = {
            s.label: spread(total(r.results, cost) / scale for r in s.runs) for s in group.series
        }
        if any(f and f.mean for f in found.values()):
            header.append((title, "of the whole run"))
            columns.append(spread_cells(group, found, lowest=None))
    rows = [
        ("", [name_cell(section, s), seeds_cell(s), *(column[s.label] for column in columns)])
        for s in group.series
    ]
    text = table("Whole runs", header, rows)
    for target in section.targets:
        header = [("Series", ""), *((title, "") for title, _ in COSTS.values())]
        reached = [target_cells(section, target, cost) for cost in COSTS]
        rows = [
            ("", [name_cell(section, s), *(column[s.label] for column in reached)])
            for s in group.series
        ]
        text += table(f"To a test accuracy of {100 * target:g} %", header, rows)
    return (
        "<h3>Costs</h3><p>MB and model-sized vectors are sent down and up together; seconds are of "
        "training without tests, and depend on the machine and on what else it did. A target is "
        "reached in the first tested round at or above it; a mean is given only if all seeds "
        f"reached it.</p>{text}"
    )


def difference_table(section: Section) -> str:
    if section.baseline is None:
        return ""
    header = [("Series", ""), *((f"{title}, points", "") for title in COLUMNS.values())]
    rows = [
        ("", [name_cell(section, s), *(difference_cell(section, s, name) for name in COLUMNS)])
        for s in section.group.complete
    ]
    return (
        f"<h3>Differences to {e(section.baseline.label)}</h3><p>Mean of the differences seed by "
        "seed ± half of the 95 % confidence interval, in percentage points.</p>"
        f"{table('Differences of all four accuracies', header, rows)}"
    )


def runs_table(report: Report) -> str:
    names = ["Run", "Series", "Seed", "State", "Last, %", "Best, %", "Best round"]
    header = [(name, "") for name in names]
    header += [("Failed reports", "updates that were not finite"), ("Skipped rounds", "")]
    header.append(("Seconds", "of training"))
    rows = [
        ("" if run.complete else "unfinished", _run_cells(run, series.label))
        for section in report.sections
        for series in section.group.series
        for run in series.runs
    ]
    return table("Every run", header, rows)


def _run_cells(run: ComparedRun, label: str) -> list[Cell]:
    found = run.results
    counts = ("best_round", "failed_reports", "skipped_rounds")
    return [
        *(Cell(e(word), word) for word in (run.name, label)),
        Cell(e(run.seed), run.seed),
        Cell(e(_state(run)), _state(run)),
        *(Cell(percent(found[n]), found[n]) for n in ("test_accuracy", "best_test_accuracy")),
        *(Cell(str(found[name]), found[name]) for name in counts),
        Cell(short(found["seconds"]), found["seconds"]),
    ]


def _state(run: ComparedRun) -> str:
    if run.complete and not run.stopped:
        return "complete"
    done = f"{len(run.records)} of {run.settings['rounds']} rounds"
    return f"{done}, stopped early: {run.stopped}" if run.stopped else done
