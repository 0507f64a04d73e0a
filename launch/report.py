"""Compares runs on one page that needs nothing but itself.

    python -m launch.report runs --out=report.html
    python -m launch.report runs/a runs/b sweep --targets=0.7,0.8 --csv=table.csv --latex=table.tex

Each argument is a run folder or a folder that contains some, such as that of a sweep. Runs that
differ only in their seed are one series. Only runs on the same data, split, model and number of
rounds are compared. What cannot be read is named and left out; a run that is not complete is shown
as far as it got. Flags go before or after the folders.
"""

from launch import interrupts

if __name__ == "__main__":
    interrupts.quit_while_loading()

import dataclasses
import io
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags
from PIL import Image

import tf_fedsam
from launch import exits, report_page, report_tables, terminal
from launch import flags as settings_flags
from launch.exits import DONE
from launch.report_parts import Picture, Report, Section, section_title
from tasks import registry as tasks_registry
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.analysis import charts, compare
from tf_fedsam.analysis.compare import Group, Run
from tf_fedsam.errors import InputError
from tf_fedsam.state.files import write_atomically
from tf_fedsam.state.run_folder import RunFolder

BASELINE = "fedavg"
DEPTH = 3  # levels of folders in which runs are looked for
MOST_CURVES = charts.NUM_STYLES
MOST_PICTURE_BYTES = 8_000_000


def define() -> flags.FlagValues:
    """Flags of its own: names such as --out and --targets mean something else elsewhere."""
    values = flags.FlagValues()
    values.set_gnu_getopt(True)
    text = flags.DEFINE_string
    text("out", "report.html", "The page.", flag_values=values)
    text("csv", None, "Also write the comparison as CSV.", flag_values=values)
    text("latex", None, "Also write the comparison as a LaTeX table.", flag_values=values)
    text(
        "baseline",
        None,
        "Series (its label or algorithm) that others are compared with; fedavg if it is there, "
        "else the first.",
        flag_values=values,
    )
    text(
        "targets",
        None,
        "Test accuracies, such as 0.7,0.8: tell what it takes to reach them. By default the "
        "highest multiple of 0.05 that all runs reached.",
        flag_values=values,
    )
    text("landscape", None, "Folders of launch.landscape, with commas between.", flag_values=values)
    flags.DEFINE_integer("max_curves", 12, "Series that are drawn.", flag_values=values)
    for name in ("help", "helpshort"):
        flags.DEFINE_bool(name, False, "Show this and stop.", flag_values=values)
    return values


def parse(args: Sequence[str]) -> tuple[flags.FlagValues, list[str]]:
    values = define()
    try:
        _, *folders = values(["launch.report", *args])
    except flags.Error as error:
        raise InputError(f"{str(error).splitlines()[0]}. See --help for all flags.") from None
    return values, folders


def main(args: Sequence[str]) -> int:
    values, folders = parse(args)
    if values.help or values.helpshort:
        terminal.say(f"{__doc__}\n{values.get_help()}")
        return DONE
    outputs = check_outputs(values)
    targets = None if values.targets is None else settings_flags.read_targets(values.targets)
    if not 1 <= values.max_curves <= MOST_CURVES:
        raise InputError(
            f"--max_curves must be 1 to {MOST_CURVES}. Received: {values.max_curves}. More lines "
            f"could not be told apart."
        )
    pictures = read_pictures(values.landscape)
    runs, skipped = read_runs(find_runs(folders))
    groups, repeated = compare.group_runs(runs, titles())
    skipped += [
        (run.name, f"the same settings and seed as {other.name}") for run, other in repeated
    ]
    sections = make_sections(groups, values.baseline, targets, values.max_curves)
    report = Report(
        sections,
        skipped,
        pictures,
        settings_flags.command(args).replace("launch.main", "launch.report", 1),
        {name: task.title for name, task in tasks_registry.all_tasks().items()},
        tf_fedsam.__version__,
    )
    write(outputs["out"], report_page.render(report))
    if "csv" in outputs:
        write(outputs["csv"], report_tables.as_csv(sections))
    if "latex" in outputs:
        write(outputs["latex"], report_tables.as_latex(sections))
    terminal.say(told(report, outputs))
    return DONE


def check_outputs(values: flags.FlagValues) -> dict[str, pathlib.Path]:
    """Where to write, by flag; found wrong before any work."""
    found: dict[str, pathlib.Path] = {}
    for name in ("out", "csv", "latex"):
        given = values[name].value
        if given is None:
            continue
        path = pathlib.Path(given).expanduser()
        if path.is_dir() or not path.name:
            raise InputError(f"--{name} must be a file. Received: the folder {path}.")
        if not path.parent.is_dir():
            raise InputError(
                f"--{name}={path} cannot be written: there is no folder {path.parent}. Make it, or "
                f"choose another place."
            )
        if path.resolve() in [other.resolve() for other in found.values()]:
            raise InputError(f"--{name}={path} is the file of another flag. Choose another name.")
        found[name] = path
    return found


def titles() -> dict[str, str]:
    return {name: algorithm.title for name, algorithm in all_algorithms().items()}


# Reading.


def find_runs(folders: Sequence[str]) -> dict[pathlib.Path, str]:
    """Run folders with, if a sweep says so, what became of them."""
    if not folders:
        raise InputError(
            "No folder was given. Expected: run folders, or folders that contain some, such as "
            "python -m launch.report runs."
        )
    found: dict[pathlib.Path, str] = {}
    seen = set()
    for folder in folders:
        path = pathlib.Path(folder).expanduser()
        if not path.is_dir():
            raise InputError(
                f"There is no folder {path}. Expected: a run folder, or one that contains some."
            )
        for run, note in look(path, DEPTH).items():
            if run.resolve() not in seen:
                seen.add(run.resolve())
                found[run] = note
    if not found:
        raise InputError(
            f"No run in {', '.join(folders)}. Expected: folders with config.json and rounds.jsonl, "
            f"as launch.main leaves them, at most {DEPTH} levels down."
        )
    return found


def look(path: pathlib.Path, depth: int) -> dict[pathlib.Path, str]:
    if any((path / name).exists() for name in ("config.json", "rounds.jsonl")):
        return {path: ""}
    if not depth:
        return {}
    found: dict[pathlib.Path, str] = {}
    try:
        inner = sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError:
        inner = []
    for folder in inner:
        found |= look(folder, depth - 1)
    for name, note in fates(path / "sweep.json").items():
        run = path / name
        if run.parent == path and (run in found or note):
            found[run] = note
    return found


def fates(file: pathlib.Path) -> dict[str, str]:
    """Folders of a sweep whose run failed, and its last words; empty for those that did not."""
    try:
        cells = json.loads(file.read_text())["cells"]
        return {
            str(cell["folder"]): f"failed: {last_line(cell.get('error'))}"
            if cell.get("status") == "failed"
            else ""
            for cell in cells
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}  # a file of that name that is no sweep's


def last_line(text: Any) -> str:
    lines = [line for line in str(text or "").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "no message"


def read_runs(found: Mapping[pathlib.Path, str]) -> tuple[list[Run], list[tuple[str, str]]]:
    """The runs that can be reported, and those that cannot with the reason."""
    runs: list[Run] = []
    skipped: list[tuple[str, str]] = []
    for path, note in found.items():
        try:
            run = read_run(path)
        except InputError as error:
            skipped.append((str(path), note or str(error)))
            continue
        if note and not run.complete:
            skipped.append((str(path), f"{note} (after round {len(run.records)})"))
        else:
            runs.append(run)
    if not runs:
        each = [f"{name}: {why.removesuffix('.')}" for name, why in skipped[:5]]
        reasons = compare.printable("; ".join(each))
        more = f"; and {len(skipped) - 5} more" if len(skipped) > 5 else ""
        raise InputError(
            f"None of {len(skipped)} runs can be reported. {reasons}{more}. Give other folders, or "
            f"wait until a run has tested its model."
        )
    return runs, skipped


def read_run(path: pathlib.Path) -> Run:
    """A run from its folder.

    Raises:
        InputError: if it cannot be reported, with the reason.
    """
    folder = RunFolder(path)
    try:
        config, records = folder.config(), folder.records()
        summary = (
            json.loads(folder.summary_file.read_text()) if folder.summary_file.exists() else None
        )
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"it cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    run = compare.make_run(str(path), config, records, complete=summary is not None)
    if summary is not None:
        mine = {name: run.results[name] for name in ("rounds", "test_accuracy")}
        theirs = {n: summary.get(n) for n in mine} if isinstance(summary, dict) else None
        if mine != theirs:
            raise InputError("its summary.json is not that of its rounds.jsonl: one was changed")
        if run.results["rounds"] != run.settings["rounds"]:
            raise InputError(
                f"it has {run.results['rounds']} rounds and its config.json says "
                f"{run.settings['rounds']}: one was changed"
            )
    return run


def read_pictures(text: str | None) -> list[Picture]:
    """The PNG files that ``landscape.json`` lists, from within its folder."""
    found = []
    for name in [] if text is None else [item for item in text.split(",") if item.strip()]:
        folder = pathlib.Path(name.strip()).expanduser()
        try:
            listed = json.loads((folder / "landscape.json").read_text())["pictures"]
            entries = [(str(entry["file"]), str(entry["alt"])) for entry in listed]
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"--landscape={folder} has no landscape.json with pictures "
                f"({getattr(error, 'strerror', None) or error!r}). Expected: a folder that "
                f"launch.landscape has made."
            ) from None
        found += [picture(folder, file, alt) for file, alt in entries]
    return found


def picture(folder: pathlib.Path, file: str, alt: str) -> Picture:
    path = folder / file
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ValueError("it is outside of the folder")
        if path.stat().st_size > MOST_PICTURE_BYTES:
            raise ValueError(f"it has more than {MOST_PICTURE_BYTES // 10**6} MB")
        content = path.read_bytes()
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            image.verify()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"The picture {path} of landscape.json cannot be used: {reason}. Expected: a PNG file "
            f"in that folder. Run launch.landscape again."
        ) from None
    return Picture(content, alt, str(folder))


# What goes on the page.


def make_sections(
    groups: Sequence[Group],
    baseline: str | None,
    targets: tuple[float, ...] | None,
    max_curves: int,
) -> list[Section]:
    found = compare.baselines(groups, baseline, BASELINE)
    chosen = [b if len(g.complete) > 1 else None for g, b in zip(groups, found, strict=True)]
    drawn = []
    for group, base in zip(groups, chosen, strict=True):
        best = list(group.series[:max_curves])
        if base is not None and base not in best:
            best[-1] = base
        drawn.append([s.label for s in best])
    # One style a label on the whole page, as long as there are enough.
    labels = list(dict.fromkeys(label for names in drawn for label in names))
    everywhere = {label: style for style, label in enumerate(labels)}
    sections = []
    for group, base, names in zip(groups, chosen, drawn, strict=True):
        styles = {
            label: everywhere[label] if len(labels) <= max(12, max_curves) else place
            for place, label in enumerate(names)
        }
        common = compare.common_target(group)
        mine = targets if targets is not None else () if common is None else (common,)
        sections.append(Section(group, base, mine, targets is not None, styles))
    alike: dict[str, list[int]] = {}
    for place, section in enumerate(sections):
        alike.setdefault(section_title(section, {}), []).append(place)
    for places in alike.values():
        words = compare.told_apart([groups[place] for place in places])
        for place, apart in zip(places, words, strict=True):
            if len(places) > 1:
                sections[place] = dataclasses.replace(sections[place], apart=apart)
    return sections


def write(path: pathlib.Path, text: str) -> None:
    try:
        write_atomically(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}). Choose another place."
        ) from None


def told(report: Report, outputs: Mapping[str, pathlib.Path]) -> str:
    parts = []
    for section in report.sections:
        if len(report.sections) > 1:
            parts.append(section_title(section, report.datasets))
        parts += [report_tables.for_terminal(section), ""]
    if report.skipped:
        parts.append(f"Not reported ({len(report.skipped)}):")
        parts += [compare.printable(f"{name}: {why}") for name, why in report.skipped[:10]]
        parts += [f"... and {len(report.skipped) - 10} more"] * (len(report.skipped) > 10)
        parts.append("")
    page = outputs["out"]
    rows: list[tuple[str, Any]] = [("page", f"{page}  ({terminal.size(page.stat().st_size)})")]
    rows += [(name, outputs[name]) for name in ("csv", "latex") if name in outputs]
    shown = settings_flags.command([str(page)]).split(maxsplit=3)[-1]
    parts += [terminal.table(rows), "", "Open it in a browser:", f"  python -m webbrowser {shown}"]
    return "\n".join(parts)


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    interrupted = "The page is as it was before."
    return exits.guarded(lambda: main(args), failures=(), interrupted=interrupted)


def console() -> None:
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
