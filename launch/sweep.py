"""Runs algorithms x data sets x hyper-parameters x seeds, each cell in a process of its own.

    python -m launch.sweep --algos=fedavg,fedsam,mofedsam --datasets=glyphs --seeds=0,1,2 \\
        --grid=lr=0.03,0.1 --grid=hparams.rho=0.05,0.1 --out=sweeps/first --jobs=2 \\
        -- --rounds=50 --alpha=0.1
    python -m launch.sweep --config=sweep.yaml

What stands after -- goes to every cell as it is. --grid=NAME=VALUE,VALUE,... may be given several
times; the cells are the product. If values have commas, put ; between them; `none` leaves the flag
out. A hyper-parameter is only for the algorithms that have it. All cells are checked before the
first one runs. The same command again skips what is done and goes on with what was cut. Cells of
the same seed have the same split, the same clients in each round and the same batches.
"""

from launch import interrupts

if __name__ == "__main__":
    interrupts.quit_while_loading()

import os
import pathlib
import shlex
import sys
from collections.abc import Sequence

import tensorflow as tf
from absl import flags

from launch import (
    exits,
    paper_grids,
    sweep_cells,
    sweep_config,
    sweep_display,
    sweep_results,
    terminal,
)
from launch.exits import DONE, FAILED
from launch.sweep_cells import Cell
from launch.sweep_runner import DONE as CELL_DONE
from launch.sweep_runner import FAILED as CELL_FAILED
from launch.sweep_runner import Job, Runner
from tf_fedsam import devices
from tf_fedsam.errors import InputError
from tf_fedsam.state.lock import RunLock

_SHOWN_FOLDERS, _SHOWN_FAILURES = 5, 10


def define() -> flags.FlagValues:
    """The flags of the sweep itself, apart from those of its cells."""
    values = flags.FlagValues()
    text, names = flags.DEFINE_string, flags.DEFINE_list
    text("config", None, "What to vary: .yaml, or .py with get_config().", flag_values=values)
    names("algos", None, "Algorithms, such as fedavg,fedsam.", flag_values=values)
    names("datasets", None, "Data sets; glyphs by default.", flag_values=values)
    names("seeds", None, "Seeds, such as 0,1,2; 0 by default.", flag_values=values)
    flags.DEFINE_multi_string(
        "grid", [], "NAME=VALUE,VALUE,... or NAME=@PAPER; may be repeated.", flag_values=values
    )
    text("out", None, "Folder of the sweep; by default sweeps/NAME-OF-CONFIG.", flag_values=values)
    flags.DEFINE_integer("jobs", 1, "Cells at a time.", flag_values=values)
    flags.DEFINE_integer(
        "retries", 0, "How often a cell that failed is started again.", flag_values=values
    )
    flags.DEFINE_bool("dry_run", False, "Check and print the cells, and stop.", flag_values=values)
    for name in ("help", "helpshort"):
        flags.DEFINE_bool(name, False, "Print this and stop.", flag_values=values)
    return values


def main(args: Sequence[str]) -> int:
    values, passed = parse(args)
    if values.help or values.helpshort:
        terminal.say(help_text(values))
        return DONE
    gpus = visible_gpus(values.jobs)
    sweep = sweep_config.make(
        values.config,
        algos=values.algos,
        datasets=values.datasets,
        seeds=values.seeds,
        grid=values.grid,
        out=values.out,
        passed=passed,
    )
    cells, num_same = sweep_cells.make(sweep, cell_devices(values.jobs, bool(gpus)))
    sweep_cells.check_folders(cells)
    terminal.say(start_text(cells, num_same, sweep.out))
    if values.dry_run:
        terminal.say(commands(cells))
        return DONE
    sweep_cells.check_data([cell for cell in cells if not cell.is_complete()])
    with RunLock(sweep.out):
        # Somebody may have been here in between.
        sweep_cells.check_folders([cell for cell in cells if not cell.is_complete()])
        runner = Runner(
            cells,
            sweep.out,
            num_jobs=values.jobs,
            retries=values.retries,
            gpus=gpus,
            about={"command": command(args), "working_folder": os.getcwd()},
        )
        display = sweep_display.make(cells)
        try:
            runner.run(display)
        finally:
            display.close()
    terminal.say(end_text(runner.jobs, sweep.out, command(args)))
    return DONE if all(job.status == CELL_DONE for job in runner.jobs) else FAILED


def parse(args: Sequence[str]) -> tuple[flags.FlagValues, list[str]]:
    """The sweep's own flags, and what is for the cells."""
    args = list(args)
    split = args.index("--") if "--" in args else len(args)
    own, passed = args[:split], args[split + 1 :]
    values = define()
    try:
        rest = values(["launch.sweep", *own])
    except flags.Error as error:
        raise InputError(
            f"{str(error).rstrip('.')}. Flags of launch.main go behind --, as in "
            f"python -m launch.sweep ... -- --rounds=50. See --help."
        ) from None
    if len(rest) > 1:
        raise InputError(
            f"Every argument is a flag, --name=value. Received: {' '.join(rest[1:])!r}."
        )
    if values.jobs < 1 or values.retries < 0:
        raise InputError(
            f"--jobs must be at least 1 and --retries at least 0. Received: --jobs={values.jobs}, "
            f"--retries={values.retries}."
        )
    return values, passed


def visible_gpus(num_jobs: int) -> list[str]:
    """Names of the GPUs to give to cells, if several run at a time."""
    number = len(tf.config.list_physical_devices("GPU"))
    if number:
        tf.config.set_visible_devices([], "GPU")  # the sweep itself leaves them alone
    if num_jobs == 1 or not number:
        return []
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return named if named != [""] else [str(i) for i in range(number)]


def cell_devices(num_jobs: int, on_gpus: bool) -> str | None:
    """A share of the cores, the same for every cell; one that runs alone takes what there is."""
    if num_jobs == 1 or on_gpus:
        return None
    return f"cpu:{max(1, devices.available_cores() // num_jobs)}"


def command(args: Sequence[str]) -> str:
    return f"python -m launch.sweep {shlex.join(args)}"


def start_text(cells: Sequence[Cell], num_same: int, out: pathlib.Path) -> str:
    """What the sweep is, and what of it is there already."""
    done = sum(cell.is_complete() for cell in cells)
    begun = sum(cell.run.config_exists() for cell in cells) - done
    varied = {name: None for cell in cells for name in cell.varied}
    facts = [
        ("algorithms", ", ".join(dict.fromkeys(cell.algo for cell in cells))),
        ("data sets", ", ".join(dict.fromkeys(cell.dataset for cell in cells))),
        ("seeds", ", ".join(dict.fromkeys(str(cell.seed) for cell in cells))),
        ("varied", ", ".join(varied) or "nothing else"),
        (
            "cells",
            f"{len(cells)}: {done} done, {begun} begun, {len(cells) - done - begun} new"
            + (f" ({num_same} the same as another left out)" if num_same else ""),
        ),
        ("folder", out),
    ]
    notes = [f"Note: {note}" for note in sweep_cells.tuned_notes(cells)]
    names = {cell.name for cell in cells}
    others = [path.name for path in sorted(out.glob("*/")) if is_other_run(path, names)]
    if others:
        more = len(others) - _SHOWN_FOLDERS
        notes.append(
            f"Note: {out} also holds runs that are not of this sweep, which are left alone: "
            f"{', '.join(others[:_SHOWN_FOLDERS])}{f' and {more} more' if more > 0 else ''}."
        )
    return "\n".join([terminal.table(facts), *notes, ""])


def is_other_run(folder: pathlib.Path, names: set[str]) -> bool:
    return folder.name not in names and (folder / "config.json").exists()


def commands(cells: Sequence[Cell]) -> str:
    """The cells with their command lines."""
    lines = []
    for cell in cells:
        state = "begun" if cell.run.config_exists() else "new"
        lines += [
            f"{'done' if cell.is_complete() else state:<6}{cell.name}",
            f"      {cell.command}",
        ]
    return "\n".join(lines)


def end_text(jobs: Sequence[Job], out: pathlib.Path, again: str) -> str:
    """Results, failures, and what to do next."""
    cells = [job.cell for job in jobs]
    failed = [job for job in jobs if job.status == CELL_FAILED]
    missing = [job for job in jobs if job.status != CELL_DONE]
    parts = [""]
    if len(missing) < len(jobs):
        parts += [sweep_results.table(cells), ""]
    for job in failed[:_SHOWN_FAILURES]:
        parts += [
            f"Failed: {job.cell.name}, {sweep_display.exit_words(job.exit_code)} after "
            f"{job.attempts} attempt{'s' if job.attempts > 1 else ''}",
            *(f"    {line}" for line in reason(job.error)),
            f"  log    {job.log}",
            f"  alone  {job.cell.command}",
            "",
        ]
    if len(failed) > _SHOWN_FAILURES:
        more = [job.cell.name for job in failed[_SHOWN_FAILURES:]]
        parts += [f"Failed, too: {', '.join(more)}", ""]
    if missing:
        stopped = len(missing) - len(failed)
        words = [f"{len(failed)} failed"] if failed else []
        words += [f"{stopped} not finished"] if stopped else []
        parts += [
            f"{len(jobs) - len(missing)} of {len(jobs)} cells are done, {', '.join(words)}. "
            f"The same command runs what is missing:",
            f"  {again}",
        ]
    if len(missing) < len(jobs):
        folder = shlex.quote(str(out))
        page = shlex.quote(str(out / "report.html"))
        parts += ["Compare them on one page:", f"  python -m launch.report {folder} --out={page}"]
    return "\n".join(parts)


def reason(error: str) -> list[str]:
    """Of a cell's last lines its error message, if there is one."""
    lines = error.splitlines()
    messages = [i for i, line in enumerate(lines) if line.startswith("error: ")]
    return lines[messages[-1] :] if messages else lines


def help_text(values: flags.FlagValues) -> str:
    names = ("config", "algos", "datasets", "seeds", "grid", "out", "jobs", "retries", "dry_run")
    own = [(f"--{name}", values[name].help.partition(";\n")[0]) for name in names]
    papers = [
        row
        for name, numbers, source in paper_grids.table()
        for row in ((name, numbers), ("", source))
    ]
    return "\n\n".join(
        [
            (__doc__ or "").strip(),
            terminal.table(own, "Flags:"),
            (sweep_config.__doc__ or "").strip(),
            terminal.table(papers, "Grids of papers:"),
        ]
    )


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    return exits.guarded(lambda: main(args))


def console() -> None:
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
