"""Runs tables of the papers and puts what comes out beside what they print.

    python -m launch.reproduce --list
    python -m launch.reproduce --table=fedwmsam_table1 --columns=fashion_mnist \\
        -- --data_dir=/usr/share/datasets/fashion-mnist
    python -m launch.reproduce --check

--table runs what is not there yet of a table, or of some --columns and --rows of it, each run in a
process of its own; the same command again goes on with what was cut. Then it prints measured
beside printed numbers, and writes them as Markdown and HTML into the folder of the runs. What
stands after -- goes to every run as it is, such as --data_dir, or --rounds=2 for a trial, which is
then said not to be the table's.

--collect=FOLDER keeps the results of runs that a table asks for, a few kilobytes each, in --kept;
--write makes the parts of the --page anew that come from them, and --check compares.
"""

from launch.command_line import start

start.begin(__name__)

import functools
import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags

import tasks  # noqa: F401  makes the data sets known
from launch import sweep as sweeping
from launch.command_line import exits, own_flags
from launch.command_line.exits import DONE, FAILED
from tf_fedsam import paths, text
from tf_fedsam.errors import InputError
from tf_fedsam.lazy import tf
from tf_fedsam.reproduction import cells, comparison, costs, page, results, tables, texts
from tf_fedsam.reproduction.tables import Table
from tf_fedsam.sweeps import display, runner

FLAGS = own_flags.new()
SHOWN_DIFFERENCES = 20


def _define() -> None:
    mine: Any = {"flag_values": FLAGS}
    string, names, yes = flags.DEFINE_string, flags.DEFINE_list, flags.DEFINE_bool
    yes("list", False, "Show every table: data, rows, what is open and assumed, costs.", **mine)
    yes("timing", True, "Whether --list times this machine for the costs.", **mine)
    string("table", None, "The table to run, such as fedwmsam_table1.", **mine)
    names("columns", [], "Some of its columns: names, beginnings of names, or data sets.", **mine)
    names("rows", [], "Some of its rows: names, or algorithms.", **mine)
    names("seeds", None, "Seeds, such as 0,1,2; the table's by default.", **mine)
    string("statistic", None, f"Accuracy that counts: {', '.join(page.STATISTICS)}.", **mine)
    string("out", None, "Folder of the runs; reproductions/TABLE by default.", **mine)
    flags.DEFINE_integer("jobs", 1, "Runs at a time.", **mine)
    yes("dry_run", False, "Check and print the runs, and stop.", **mine)
    string("collect", None, "Keep results of the runs in this folder.", **mine)
    string("kept", "docs/reproduction", "Folder of kept results.", **mine)
    string("page", "docs/reproduction.md", "Page with parts made from kept results.", **mine)
    yes("write", False, "Make these parts of the page anew.", **mine)
    yes("check", False, "Whether the page says what the kept results say.", **mine)


_define()


def main(args: Sequence[str]) -> int:
    if own_flags.helped(FLAGS, args, __doc__):
        return DONE
    fixed, unset = parse(args)
    kept, page_file = paths.expanded(FLAGS.kept), paths.expanded(FLAGS.page)
    if FLAGS.list:
        text.say(listed())
    if FLAGS.collect is not None:
        collect(paths.expanded(FLAGS.collect), kept)
    if FLAGS.write:
        text.say(f"Wrote {', '.join(map(str, page.write(page_file, kept)))}.")
    if FLAGS.check:
        return checked(page_file, kept)
    if FLAGS.table is None:
        if not (FLAGS.list or FLAGS.write or FLAGS.collect is not None):
            raise InputError(
                "Nothing to do. Expected: --list, --table=NAME, --collect=FOLDER, --write or "
                "--check. See --help."
            )
        return DONE
    return reproduce(tables.find(FLAGS.table), fixed, unset, command(args))


def parse(args: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The settings of every run and its other flags, which stand after --."""
    args = list(args)
    split = args.index("--") if "--" in args else len(args)
    own_flags.refuse_others(own_flags.parse(FLAGS, args[:split]))
    if FLAGS.statistic not in (None, *page.STATISTICS):
        raise InputError(
            f"--statistic must be one of {', '.join(page.STATISTICS)}. Received: {FLAGS.statistic}."
        )
    fixed, unset = sweeping.of_cells(args[split + 1 :])
    return {**fixed}, unset


def listed() -> str:
    """Every table in short, with what it costs here."""
    if FLAGS.timing:
        with start.loaded(__name__):
            tf.config.set_visible_devices([], "GPU")  # as the estimates are
    timed = costs.timing() if FLAGS.timing else None
    parts = []
    for name in tables.names() if FLAGS.table is None else [FLAGS.table]:
        table = tables.find(name)
        rows: list[tuple[str, Any]] = list(texts.about(table))
        runs = cells.cells(cells.places(table, pathlib.Path("reproductions")))
        if timed is not None:
            for dataset in dict.fromkeys(cell.dataset for cell in runs):
                some = [cell.resolved for cell in runs if cell.dataset == dataset]
                took = f"{text.duration(costs.seconds(some, timed))} here, one after the other"
                rows.append(("estimate", f"{len(some)} runs on {dataset}: {took}"))
        parts.append(text.table(rows, f"{name}: {table.heading}"))
    return "\n\n".join(parts)


def reproduce(table: Table, fixed: dict[str, Any], unset: Sequence[str], typed: str) -> int:
    """Runs a table and compares it; goes through the sweep, which resumes."""
    with start.loaded(__name__):
        from tf_fedsam.sweeps import checks
        from tf_fedsam.sweeps.sweep import Plan, cell_devices, visible_gpus
    tf.config.set_visible_devices([], "GPU")  # the runs have them
    out = paths.expanded(FLAGS.out or f"reproductions/{table.name}")
    devices = cell_devices(FLAGS.jobs, bool(gpus := visible_gpus(FLAGS.jobs)))
    found = cells.places(
        table,
        out,
        columns=table.chosen_columns(FLAGS.columns),
        rows=table.chosen_rows(FLAGS.rows),
        seeds=seeds(),
        fixed={**({} if devices is None else {"devices": devices}), **fixed},
    )
    runs = cells.cells(found)
    checks.check_folders(runs)
    plan = Plan(out, runs, 0, FLAGS.jobs, 0, tuple(gpus))
    jobs = plan.runner(functools.partial(sweeping.arguments, unset=unset), command=typed)
    text.say(plan.text())
    if FLAGS.dry_run:
        text.say("\n".join(job.command for job in jobs.jobs))
        return DONE
    plan.run(jobs, display.make(runs))
    there = [result for cell in runs if (result := results.of_run(cell.run)) is not None]
    compared = comparison.compare(table, found, there, FLAGS.statistic)
    text.say(f"\n{texts.terminal(compared)}\n")
    (out / "table.md").write_text(texts.markdown(compared))
    (out / "table.html").write_text(texts.page(compared, typed))
    text.say(f"Wrote {out / 'table.md'} and {out / 'table.html'}.")
    if all(job.status == runner.DONE for job in jobs.jobs):
        return DONE
    text.say(f"Not all runs are there. The same command runs what is missing:\n  {typed}")
    return FAILED


def seeds() -> list[int] | None:
    try:
        return None if FLAGS.seeds is None else [int(seed) for seed in FLAGS.seeds]
    except ValueError:
        raise InputError(
            f"--seeds must be whole numbers. Received: {','.join(FLAGS.seeds)}. Try --seeds=0,1,2."
        ) from None


def collect(folder: pathlib.Path, kept: pathlib.Path) -> None:
    """Keeps what the tables ask for."""
    there = results.find_runs(folder)
    if not there:
        raise InputError(f"--collect={folder} has no complete run in it. Choose another folder.")
    seeds = sorted({int(result.settings["seed"]) for result in there})
    for name in tables.names():
        table = tables.find(name)
        written = results.save(kept / name, cells.places(table, kept, seeds=seeds), there)
        if written:
            text.say(f"{name}: kept {len(written)} results in {kept / name}.")


def checked(page_file: pathlib.Path, kept: pathlib.Path) -> int:
    found = page.differences(page_file.read_text(), kept)
    if not found:
        text.say(f"{page_file} says what the results in {kept} say.")
        return DONE
    text.say("\n".join(found[:SHOWN_DIFFERENCES]))
    text.say(f"{page_file} is not what the results in {kept} say. --write makes it anew.")
    return FAILED


def command(args: Sequence[str]) -> str:
    return f"python -m launch.reproduce {shlex.join(args)}"


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    return exits.guarded(lambda: main(args))


def console() -> None:
    """``tf-fedsam reproduce``."""
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
