"""The page of a report: HTML that needs nothing but itself.

The page forbids itself to load or to send anything; sorting is its only script, which the policy
knows by its hash.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tf_fedsam.comparison.series import Group
from tf_fedsam.comparison.values import number
from tf_fedsam.comparison.words import counted, listed
from tf_fedsam.report.cells import e
from tf_fedsam.report.curves import curves
from tf_fedsam.report.figures import confusions, fairness, splits, surfaces
from tf_fedsam.report.main_table import main_table
from tf_fedsam.report.sections import Report, Section, dataset_title, scheme, section_title
from tf_fedsam.report.style import SCRIPT, STYLE
from tf_fedsam.report.tables import cost_tables, difference_table, last_values, runs_table

SIZES = {"train_examples": "training", "holdout_examples": "held-out", "test_examples": "test"}


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
    about = runs[0].config.get("data")
    numbers = {**(about if isinstance(about, dict) else {}), **problem}
    sizes = [
        counted(numbers[key], f"{word} example")
        for key, word in SIZES.items()
        if isinstance(numbers.get(key), int)
    ]
    if isinstance(problem["num_classes"], int):
        sizes.append(counted(problem["num_classes"], "class", "classes"))
    partition = group.runs[0].config.get("partition")
    clients = partition.get("num_clients") if isinstance(partition, dict) else None
    clients = problem["num_clients"] if clients is None else clients
    weights = problem["num_parameters"]
    size = f" with {weights:,} weights" if isinstance(weights, int) else ""
    unfinished = "" if whole == len(runs) else f" ({whole} of them complete)"
    num_series = counted(len(group.series), "series", "series")
    text = (
        f"{counted(len(runs), 'run')}{unfinished} of {num_series} with the "
        f"seed{'s' if len(group.seeds) > 1 else ''} {seeds}, each for "
        f"{counted(problem['rounds'], 'round')}{_or_until(problem)} on {data}"
        f"{f' ({listed(sizes)})' if sizes else ''}. The training examples are divided over "
        f"{clients} clients ({scheme(group)}){_taking_part(group)}. "
        f"The model is {problem['model']}{size}."
    )
    return f'<p class="lead">{e(text)}</p>'


def _or_until(problem: Mapping[str, Any]) -> str:
    accuracy, tests = number(problem["stop_at"]), problem.get("patience")
    until = "" if accuracy is None else f" or until a test accuracy of {100 * accuracy:g} %"
    return until + (f" or until {tests} tests are no better on held-out examples" if tests else "")


def _taking_part(group: Group) -> str:
    """Who takes part in a round, if the runs say."""
    if group.problem["sampling"] == "schedule":
        return ", of which a schedule says who takes part in a round"
    share = number(group.problem["participation"])
    return "" if share is None else f", of which {100 * share:g} % take part in a round"


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


def _anchored(text: str, prefix: str) -> tuple[str, list[tuple[str, str]]]:
    """A part whose headings can be linked to, and these with their names, which are HTML."""
    found: list[tuple[str, str]] = []

    def named(match: re.Match) -> str:
        found.append((f"{prefix}-{len(found) + 1}", match[1]))
        return f'<h3 id="{found[-1][0]}">{match[1]}</h3>'

    return re.sub(r"<h3>(.*?)</h3>", named, text), found


def _links(contents: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> str:
    """Titles with their links, a line each."""
    text = ""
    for title, links in contents:
        items = "".join(f'<li><a href="#{place}">{name}</a></li>' for place, name in links)
        text += f"<div>{f'<b>{title}</b> ' if title else ''}<ul>{items}</ul></div>"
    return text


def _reload(report: Report) -> str:
    """Lets a page of runs that go on load itself again; a browser keeps where it was."""
    seconds = report.reload_seconds
    if seconds is None:
        return ""
    return f'<meta http-equiv="refresh" content="{max(1, math.ceil(seconds))}">'


def render(report: Report) -> str:
    """The whole page."""
    several = len(report.sections) > 1
    parts, contents = [], list[tuple[str, list[tuple[str, str]]]]()
    for place, section in enumerate(report.sections, 1):
        head = f"<h2>{e(section_title(section, report.datasets))}</h2>" if several else ""
        inner, links = _anchored(
            f"{curves(section)}{fairness(section)}{confusions(section)}{last_values(section)}"
            f"{difference_table(section)}{cost_tables(section)}{splits(section)}"
            f"{settings(section)}",
            f"g{place}",
        )
        parts.append(
            f'<section id="g{place}">{head}{lead(section, report.datasets)}{main_table(section)}'
            f"{inner}</section>"
        )
        title = e(section_title(section, report.datasets)) if several else "Contents"
        contents.append((title, [(f"g{place}", "Table"), *links]))
    drawn, links = _anchored(surfaces(report), "surfaces")
    rest = [("surfaces", "Loss surfaces"), *links] if drawn else []
    rest += [("runs", "Runs")] + ([("skipped", "Not reported")] if report.skipped else [])
    if several:
        contents.append(("", rest))
    else:
        contents[0][1].extend(rest)
    note = (
        "<p>Different data, splits, participation, models or numbers of rounds are never compared "
        "with each other; each has a part of its own.</p>"
        if several
        else ""
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
        f'<meta name="referrer" content="no-referrer">{_reload(report)}'
        f"<title>{e(title)}</title><style>{STYLE}</style></head><body><header><h1>{e(title)}</h1>"
        f'{banner}{note}<nav class="contents" aria-label="Contents">{_links(contents)}</nav>'
        f"</header><main>{''.join(parts)}{drawn}"
        f'<section><h2 id="runs">Runs</h2>{runs_table(report)}{commands(report)}'
        f"{provenance(report)}{skipped(report)}</section></main>"
        f"<footer><p>Made by tf_fedsam {e(report.version)} with</p>"
        f"<pre>{e(report.command)}</pre></footer>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )
