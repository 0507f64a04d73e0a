"""The page of a report: HTML that needs nothing but itself.

The page forbids itself to load or to send anything; sorting is its only script, which the policy
knows by its hash.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from launch.report_charts import CHARTS, confusions, curves, fairness, splits, surfaces
from launch.report_parts import (
    COLUMNS,
    COSTS,
    NONE,
    Cell,
    Report,
    Section,
    counted,
    dataset_title,
    e,
    listed,
    name_cell,
    percent,
    scheme,
    section_title,
    seeds_cell,
    short,
    spread_cells,
    table,
    target_cells,
)
from launch.report_style import SCRIPT, STYLE
from tf_fedsam.analysis import compare
from tf_fedsam.analysis.compare import Difference, Group, Series


def methods(group: Group) -> list[str]:
    return list(dict.fromkeys(s.label.split(" ")[0] for s in group.series))


def page_title(report: Report) -> str:
    if len(report.sections) > 1:
        num_runs = sum(len(s.group.runs) for s in report.sections)
        return f"{num_runs} runs on {len(report.sections)} problems"
    section = report.sections[0]
    names = methods(section.group)
    what = listed(names) if len(names) <= 4 else f"{len(names)} methods"
    return f"{what} on {dataset_title(section, report.datasets)}"


def lead(section: Section, titles: Mapping[str, str]) -> str:
    """What is compared, in plain words."""
    group = section.group
    problem, runs = group.problem, group.runs
    whole = sum(run.complete for run in runs)
    seeds = ", ".join(map(str, group.seeds[:12])) + (", ..." if len(group.seeds) > 12 else "")
    data = dataset_title(section, titles)
    sizes = [
        counted(problem[key], f"{word} example")
        for key, word in (("train_examples", "training"), ("test_examples", "test"))
        if isinstance(problem[key], int)
    ]
    if isinstance(problem["num_classes"], int):
        sizes.append(counted(problem["num_classes"], "class", "classes"))
    partition = group.runs[0].config.get("partition")
    clients = partition.get("num_clients") if isinstance(partition, dict) else None
    clients = problem["num_clients"] if clients is None else clients
    share = compare.number(group.common("participation"))
    taking_part = (
        "of which the series differ in how many take part in a round"
        if share is None
        else f"of which {100 * share:g} % take part in a round"
    )
    weights = problem["num_parameters"]
    size = f" with {weights:,} weights" if isinstance(weights, int) else ""
    unfinished = "" if whole == len(runs) else f" ({whole} of them complete)"
    num_series = counted(len(group.series), "series", "series")
    text = (
        f"{counted(len(runs), 'run')}{unfinished} of {num_series} with the "
        f"seed{'s' if len(group.seeds) > 1 else ''} {seeds}, each for "
        f"{counted(problem['rounds'], 'round')} on {data}"
        f"{f' ({listed(sizes)})' if sizes else ''}. The training examples are divided over "
        f"{clients} clients ({scheme(group)}), {taking_part}. "
        f"The model is {problem['model']}{size}."
    )
    return f'<p class="lead">{e(text)}</p>'


def difference_cell(section: Section, series: Series, name: str, reach: float = 0) -> Cell:
    """The difference to the baseline in points; ``reach`` is what the small drawing spans."""
    if series is section.baseline:
        return Cell('<span class="none">baseline</span>', 0.0)
    if section.baseline is None or not series.complete:
        return Cell(NONE)
    if series.values(name) and None in series.values(name).values():
        return Cell(NONE)
    found = series.difference(section.baseline, name)
    if found is None:
        return Cell('<span class="none">no common seed</span>')
    if found.half is None:
        text = f'{100 * found.mean:+.2f} <span class="pm">no interval, 1 seed</span>'
        return Cell(text, found.mean)
    text = f'{100 * found.mean:+.2f} <span class="pm">± {percent(found.half)}, n={found.n}</span>'
    return Cell(text + (interval(found, reach) if reach else ""), found.mean)


def interval(found: Difference, reach: float) -> str:
    """The interval as a line with its middle, around zero; only a repetition of the numbers."""
    assert found.half is not None
    place = lambda v: 50 + 48 * float(np.clip(v / reach, -1, 1))  # noqa: E731
    low, middle, high = (place(found.mean + sign * found.half) for sign in (-1, 0, 1))
    kind = "evidence" if found.is_evidence else "open"
    return (
        f'<svg class="interval {kind}" aria-hidden="true" viewBox="0 0 100 10">'
        f'<line class="zero" x1="50" y1="0" x2="50" y2="10"/>'
        f'<line x1="{low:.1f}" y1="5" x2="{high:.1f}" y2="5"/>'
        f'<circle cx="{middle:.1f}" cy="5" r="3"/></svg>'
    )


def main_table(section: Section) -> str:
    group, baseline = section.group, section.baseline
    columns = {
        name: spread_cells(group, {s.label: s.spread(name) for s in group.series}, percent)
        for name in COLUMNS
    }
    found = [
        s.difference(baseline, "test_accuracy")
        for s in group.complete
        if baseline is not None and s is not baseline
    ]
    reach = max((abs(d.mean) + d.half for d in found if d and d.half is not None), default=0.0)
    # One seed too few makes an interval that would squeeze all others to a dot.
    reach = min(reach, 3 * max((abs(d.mean) for d in found if d), default=0) + 0.02)
    header = [("Series", ""), ("Seeds", "runs with different seeds")]
    header += [
        ("Last, %", "test accuracy after the last round: mean ± standard deviation over seeds")
    ]
    if baseline is not None:
        hint = f"of the last accuracy to {baseline.label}: mean over seeds ± 95 % interval"
        header.append(("Difference, points", hint))
    header += [
        ("Best, %", "best tested round"),
        ("Mean of last 10, %", "mean of the last ten tests"),
        ("FedInit, %", "best of the last 50 rounds of the curve smoothed over five tests"),
    ]
    targets = [(t, c) for t in section.targets for c in ("round", "bytes", "gradient_evaluations")]
    header += [
        (
            f"{COSTS[c][0]} to {100 * t:g} %",
            f"until the first test with an accuracy of {100 * t:g} %",
        )
        for t, c in targets
    ]
    reached = [target_cells(section, t, c) for t, c in targets]
    rows = []
    for series in group.series:
        cells = [name_cell(section, series), seeds_cell(series)]
        cells.append(columns["test_accuracy"][series.label])
        if baseline is not None:
            cells.append(difference_cell(section, series, "test_accuracy", reach))
        cells += [columns[name][series.label] for name in list(COLUMNS)[1:]]
        cells += [column[series.label] for column in reached]
        kind = "baseline" if series is baseline else "" if series.complete else "unfinished"
        rows.append((kind, cells))
    return table("Test accuracy and what it took", header, rows) + main_notes(section)


def main_notes(section: Section) -> str:
    group, baseline = section.group, section.baseline
    notes = [
        "Mean ± sample standard deviation over seeds. Bold is the best mean of a column; values "
        "closer to it than the uncertainty of their difference are no evidence that it is better."
    ]
    others = [s for s in group.complete if s is not baseline]
    if baseline is not None and others:
        found = [s.difference(baseline, "test_accuracy") for s in others]
        intervals = sum(d is not None and d.half is not None for d in found)
        several = (
            f" {intervals} intervals are not corrected for being {intervals}: some may miss by "
            f"chance."
            if intervals > 2
            else ""
        )
        notes.append(
            f"Differences are to {baseline.label} in percentage points of the last test accuracy, "
            f"seed by seed (the same seed means the same split, cohorts and batches), with a 95 % "
            f"confidence interval by Student's t over n seeds. An interval that includes zero is "
            f"no evidence of a difference; one seed has no interval.{several}"
        )
        same = [s for s in group.complete if s.algo == baseline.algo]
        if len(same) > 1:
            which = "that with the best last accuracy" if baseline is same[0] else "one of them"
            notes.append(
                f"There are {len(same)} series of the baseline's algorithm; {which} is taken. "
                f"--baseline='LABEL' takes another."
            )
    if len(group.seeds) == 1:
        notes.append("All runs have the same seed, so nothing here tells how much is chance.")
    elif len(group.seeds) == 2 and others:
        notes.append(
            "Two seeds make wide intervals: t is 12.7 for two pairs, 4.3 for three, 2.8 for five."
        )
    if group.tuned:
        notes.append(
            "Some methods are here with several settings. The best of them was picked by test "
            "accuracy, which is optimistic: the more settings are tried, the better the best of "
            "them is by chance. Choose on other data, and give every method as many tries."
        )
    if section.targets and not section.targets_given:
        notes.append(
            f"No --targets were given; {100 * section.targets[0]:g} % is the highest multiple of "
            f"5 % that every complete run reached."
        )
    if any(not s.complete for s in group.series):
        notes.append(
            "Runs that are not complete are listed by themselves, up to their last tested round; "
            "they take no part in differences and in what is bold."
        )
    if group.data_depend_on_seed:
        notes.append(
            "Each seed has data of its own (a subset, noise or a test part drawn by the seed), so "
            "the spread over seeds includes that of the data."
        )
    return '<ul class="notes">' + "".join(f"<li>{e(note)}</li>" for note in notes) + "</ul>"


def last_values(section: Section) -> str:
    """The newest value of every measure, as a table."""
    group, columns, header = section.group, [], [("Series", "")]
    for _, measures in CHARTS.values():
        for measure in measures:
            found = {
                s.label: compare.spread(
                    compare.number(r.last_probe.get(measure.name)) for r in s.runs
                )
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
    note = "" if len(rhos) == 1 else " Sharpness was measured with different --sharpness_rho."
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
            s.label: compare.spread(compare.total(r, cost) / scale for r in s.runs)
            for s in group.series
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
    header = [
        *(
            ("Run", ""),
            ("Series", ""),
            ("Seed", ""),
            ("State", ""),
            ("Last, %", ""),
            ("Best, %", ""),
        ),
        *(
            ("Best round", ""),
            ("Failed reports", "updates that were not finite"),
            ("Skipped rounds", ""),
        ),
        ("Seconds", "of training"),
    ]
    rows = []
    for section in report.sections:
        rounds = section.group.problem["rounds"]
        for series in section.group.series:
            for run in series.runs:
                r = run.results
                state = "complete" if run.complete else f"{len(run.records)} of {rounds} rounds"
                numbers = [
                    Cell(percent(r["test_accuracy"]), r["test_accuracy"]),
                    Cell(percent(r["best_test_accuracy"]), r["best_test_accuracy"]),
                    *(
                        Cell(str(r[k]), r[k])
                        for k in ("best_round", "failed_reports", "skipped_rounds")
                    ),
                    Cell(short(r["seconds"]), r["seconds"]),
                ]
                words = [Cell(e(run.name), run.name), Cell(e(series.label), series.label)]
                words += [Cell(e(run.seed), run.seed), Cell(e(state), state)]
                rows.append(("" if run.complete else "unfinished", [*words, *numbers]))
    return table("Every run", header, rows)


def commands(report: Report) -> str:
    unknown = "not in its config.json"
    items = "".join(
        f"<dt>{e(run.name)}</dt><dd><pre>{e(run.config.get('command', unknown))}</pre></dd>"
        for section in report.sections
        for run in section.group.runs
    )
    return f"<details><summary>The command of every run</summary><dl>{items}</dl></details>"


def provenance(report: Report) -> str:
    """Versions, source and devices, once for all runs that share them."""
    seen: dict[str, int] = {}
    for section in report.sections:
        for run in section.group.runs:
            versions, source = (run.config.get(k) or {} for k in ("versions", "source"))
            devices = run.config.get("devices")
            names = [str(d) for d in devices] if isinstance(devices, list) else []
            parts = [f"{name} {value}" for name, value in versions.items()]
            parts.append(f"revision {source.get('revision', 'unknown')}")
            if source.get("dirty") is True:
                parts[-1] += f" with changes (fingerprint {source.get('fingerprint')})"
            parts.append(f"devices {', '.join(names) or 'unknown'}")
            if run.config.get("resumes"):
                parts.append(f"resumed {counted(len(run.config['resumes']), 'time')}")
            text = "; ".join(parts)
            seen[text] = seen.get(text, 0) + 1
    items = "".join(f"<li>{counted(n, 'run')}: {e(text)}.</li>" for text, n in seen.items())
    note = (
        ""
        if len(seen) == 1
        else "<p>Not all runs were made by the same code on the same devices.</p>"
    )
    return f"<h3>Versions and devices</h3>{note}<ul>{items}</ul>"


def settings(section: Section) -> str:
    """What the runs of a group share, and what decides each series."""
    common = {k: v for k, v in section.group.problem.items() if v is not None}
    shared = "; ".join(f"{k} = {as_text(v)}" for k, v in common.items())
    items = "".join(
        f"<dt>{e(s.label)}</dt><dd>"
        + e("; ".join(f"{k} = {as_text(v)}" for k, v in s.decisive.items() if v is not None))
        + "</dd>"
        for s in section.group.series
    )
    return (
        f"<details><summary>All settings</summary><p>Shared by all: {e(shared)}.</p>"
        f"<dl>{items}</dl></details>"
    )


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def skipped(report: Report) -> str:
    if not report.skipped:
        return ""
    items = "".join(f"<li><code>{e(name)}</code>: {e(why)}</li>" for name, why in report.skipped)
    return f'<h2 id="skipped">Not reported</h2><ul>{items}</ul>'


def render(report: Report) -> str:
    """The whole page."""
    several = len(report.sections) > 1
    parts = []
    for number, section in enumerate(report.sections, 1):
        head = f"<h2>{e(section_title(section, report.datasets))}</h2>" if several else ""
        parts.append(
            f'<section id="g{number}">{head}{lead(section, report.datasets)}{main_table(section)}'
            f"{curves(section)}{fairness(section)}{confusions(section)}{last_values(section)}"
            f"{difference_table(section)}{cost_tables(section)}{splits(section)}{settings(section)}"
            "</section>"
        )
    contents = ""
    if several:
        links = "".join(
            f'<li><a href="#g{n}">{e(section_title(s, report.datasets))}</a></li>'
            for n, s in enumerate(report.sections, 1)
        )
        contents = (
            "<p>Different data, splits, models or numbers of rounds are never compared with each "
            f"other; each has a part of its own.</p><ol>{links}</ol>"
        )
    banner = (
        f'<p class="banner">{counted(len(report.skipped), "run is", "runs are")} not in this '
        'report: <a href="#skipped">which and why</a>.</p>'
        if report.skipped
        else ""
    )
    title = page_title(report)
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{e(title)}</title><style>{STYLE}</style></head><body><header><h1>{e(title)}</h1>"
        f"{banner}{contents}</header><main>{''.join(parts)}{surfaces(report)}"
        f'<section><h2 id="runs">Runs</h2>{runs_table(report)}{commands(report)}'
        f"{provenance(report)}{skipped(report)}</section></main>"
        f"<footer><p>Made by tf_fedsam {e(report.version)} with</p>"
        f"<pre>{e(report.command)}</pre></footer>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )
