"""Compares runs on one page that needs nothing but itself.

    python -m launch.report runs --out=report.html
    python -m launch.report runs/a runs/b sweep --targets=0.7,0.8 --csv=a.csv
    python -m launch.report runs --figures=figures --format=pdf,png --width=two
    python -m launch.report runs --watch

Each argument is a run folder or a folder that contains some, such as that of a sweep. Runs that
differ only in their seed are one series. Only runs on the same data, split, participation, model
and number of rounds are compared. What cannot be read is named and left out; a run that is not
complete is shown as far as it got. Flags go before or after the folders.

--figures writes figures for papers, each with its data as CSV. --watch makes the page anew while
runs go on, and lets it reload itself, until Ctrl-C.
"""

from launch.command_line import start

start.begin(__name__)

import pathlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

import tasks  # noqa: F401  makes the data sets known
from launch.command_line import commands, exits, own_flags
from launch.command_line.exits import DONE
from launch.command_line.flags import command
from tf_fedsam import paths, text
from tf_fedsam.errors import InputError
from tf_fedsam.report import printed
from tf_fedsam.report.compare import Comparison, compare
from tf_fedsam.report.printed import FORMATS, STYLES, WIDTHS
from tf_fedsam.report.sections import MAX_CURVES, check_max_curves
from tf_fedsam.report.watch import watch
from tf_fedsam.runs.consistency import read_targets

SHOWN_SKIPPED = 10
FLAGS = own_flags.new()


def _define() -> None:
    mine: Any = {"flag_values": FLAGS}
    string = flags.DEFINE_string
    string("out", "report.html", "The page.", **mine)
    string("csv", None, "Also write the comparison as CSV.", **mine)
    string("latex", None, "Also write the comparison as a LaTeX table.", **mine)
    string(
        "baseline",
        None,
        "Series (its label or algorithm) that others are compared with; fedavg if it is there, "
        "else the first.",
        **mine,
    )
    string(
        "targets",
        None,
        "Test accuracies, such as 0.7,0.8: tell what it takes to reach them. By default the "
        "highest multiple of 0.05 that all runs reached.",
        **mine,
    )
    string("landscape", None, "Folders of launch.landscape, with commas between.", **mine)
    flags.DEFINE_integer("max_curves", MAX_CURVES, "Series that are drawn.", **mine)
    string("figures", None, "Also write figures for papers, with their data, to here.", **mine)
    flags.DEFINE_list("format", ["pdf"], f"Of figures: {', '.join(FORMATS)}.", **mine)
    string("style", "serif", f"Letters of figures: {' or '.join(STYLES)}.", **mine)
    string("width", "one", f"Columns that figures are wide: {' or '.join(WIDTHS)}.", **mine)
    flags.DEFINE_bool("watch", False, "Make the page anew while runs go on.", **mine)
    flags.DEFINE_float("every", 10.0, "Seconds between looks of --watch.", lower_bound=0.1, **mine)


_define()


def main(args: Sequence[str]) -> int:
    if own_flags.helped(FLAGS, args, __doc__):
        return DONE
    folders = own_flags.parse(FLAGS, args)
    outputs = check_outputs()
    if not folders:
        raise InputError(
            "No folder was given. Expected: run folders, or folders that contain some, such as "
            "python -m launch.report runs."
        )
    targets = None if FLAGS.targets is None else read_targets(FLAGS.targets)
    check_max_curves(FLAGS.max_curves)
    printed.check(FLAGS.format, FLAGS.style, FLAGS.width)
    surfaces = [name.strip() for name in (FLAGS.landscape or "").split(",") if name.strip()]

    def write(live: bool) -> None:
        comparison = compare(folders, baseline=FLAGS.baseline, targets=targets)
        comparison.html(
            outputs["out"],
            max_curves=FLAGS.max_curves,
            landscapes=surfaces,
            command=command(args, "report"),
            reload_seconds=FLAGS.every if live else None,
        )
        if "csv" in outputs:
            comparison.csv(outputs["csv"])
        if "latex" in outputs:
            comparison.latex(outputs["latex"])
        if live:
            text.say(f"{time.strftime('%H:%M:%S')}  {comparison!r}: {outputs['out']}")
            return
        figures = write_figures(comparison, surfaces) if FLAGS.figures is not None else []
        text.say(told(comparison, outputs, figures))

    if not FLAGS.watch:
        write(False)
        return DONE
    find_folders(folders)
    text.say(f"Looking every {FLAGS.every:g} s; the page reloads itself. Ctrl-C ends.")
    watch(folders, write, seconds=FLAGS.every, say=text.say, landscapes=surfaces)
    return DONE


def find_folders(folders: Sequence[str]) -> None:
    """Refuses folders that are not there; runs may come later."""
    for name in folders:
        if not paths.expanded(name).is_dir():
            raise InputError(
                f"There is no folder {name}. Expected: a run folder, or one that contains some."
            )


def write_figures(comparison: Comparison, surfaces: Sequence[str]) -> list[pathlib.Path]:
    return comparison.figures(
        FLAGS.figures,
        FLAGS.format,
        style=FLAGS.style,
        width=FLAGS.width,
        max_curves=FLAGS.max_curves,
        landscapes=surfaces,
    )


def check_outputs() -> dict[str, pathlib.Path]:
    """Where to write, by flag; found wrong before any work."""
    found: dict[str, pathlib.Path] = {}
    for name in ("out", "csv", "latex"):
        given = FLAGS[name].value
        if given is None:
            continue
        path = paths.expanded(given)
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


def told(
    comparison: Comparison,
    outputs: Mapping[str, pathlib.Path],
    figures: Sequence[pathlib.Path] = (),
) -> str:
    """The comparison in short, what is left out, and where the page is."""
    parts = [str(comparison.table(brief=True)), ""]
    skipped = comparison.skipped
    if skipped:
        parts.append(f"Not reported ({len(skipped)}):")
        parts += [text.printable(f"{name}: {why}") for name, why in skipped[:SHOWN_SKIPPED]]
        parts += [f"... and {len(skipped) - SHOWN_SKIPPED} more"] * (len(skipped) > SHOWN_SKIPPED)
        parts.append("")
    page = outputs["out"]
    rows: list[tuple[str, Any]] = [("page", f"{page}  ({text.size(page.stat().st_size)})")]
    rows += [(name, outputs[name]) for name in ("csv", "latex") if name in outputs]
    if figures:
        count = sum(file.suffix == ".csv" for file in figures)
        rows.append(("figures", f"{figures[0].parent}  ({count}, each with its data as CSV)"))
    shown = command([str(page)]).split(maxsplit=3)[-1]
    opening = commands.shown(f"python -m webbrowser {shown}")
    parts += [text.table(rows), "", "Open it in a browser:", f"  {opening}"]
    return "\n".join(parts)


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    interrupted = "The page is as it was before."
    return exits.guarded(lambda: main(args), interrupted=interrupted)


def console() -> None:
    """``tf-fedsam report``."""
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
