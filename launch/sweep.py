"""Runs algorithms x data sets x hyper-parameters x seeds, each cell in a process of its own.

    python -m launch.sweep --algos=fedavg,fedsam,mofedsam --seeds=0,1,2 \\
        --grid=lr=0.03,0.1 --grid=hparams.rho=0.05,0.1 --out=sweeps/first \\
        --jobs=2 -- --rounds=50 --alpha=0.1
    python -m launch.sweep --config=sweep.yaml

What stands after -- goes to every cell as it is. --grid=NAME=VALUE,VALUE,... may be given several
times; the cells are the product. If values have commas, put ; between them; `none` leaves the flag
out. A hyper-parameter is only for the algorithms that have it. All cells are checked before the
first one runs. The same command again skips what is done and goes on with what was cut. Cells of
the same seed have the same split, the same clients in each round and the same batches.
"""

from launch.command_line import start

start.begin(__name__)

import functools
import re
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from launch.command_line import commands, exits, own_flags
from launch.command_line import flags as settings_flags
from launch.command_line.exits import DONE, FAILED
from tf_fedsam import text
from tf_fedsam.errors import InputError
from tf_fedsam.lazy import tf
from tf_fedsam.runs.config import GROUPED, SETTINGS
from tf_fedsam.sweeps import description, papers
from tf_fedsam.sweeps.description import LISTED, Sweep

if TYPE_CHECKING:
    from tf_fedsam.sweeps.cells import Cell

NOT_FOR_CELLS = ("from_config", "list_algorithms", "describe")
HINT = (
    "Flags of launch.main go behind --, as in python -m launch.sweep ... -- --rounds=50. "
    "See --help."
)
FLAGS = own_flags.new()


def _define() -> None:
    """The flags of the sweep itself, apart from those of its cells."""
    string = functools.partial(flags.DEFINE_string, flag_values=FLAGS)
    names = functools.partial(flags.DEFINE_list, flag_values=FLAGS)
    string("config", None, "What to vary: .yaml, or .py with get_config().")
    names("algos", None, "Algorithms, such as fedavg,fedsam.")
    names("datasets", None, "Data sets; glyphs by default.")
    names("seeds", None, "Seeds, such as 0,1,2; 0 by default.")
    flags.DEFINE_multi_string("grid", [], "NAME=VALUE,VALUE,... or NAME=@PAPER.", flag_values=FLAGS)
    string("out", None, "Folder of the sweep; by default sweeps/NAME-OF-CONFIG.")
    flags.DEFINE_integer("jobs", 1, "Cells at a time.", flag_values=FLAGS)
    flags.DEFINE_integer(
        "retries", 0, "How often a cell that failed is started again.", flag_values=FLAGS
    )
    flags.DEFINE_bool("dry_run", False, "Check and print the cells, and stop.", flag_values=FLAGS)


_define()


def main(args: Sequence[str]) -> int:
    if own_flags.helped(FLAGS, args, about()):
        return DONE
    described, unset = describe(args)  # what is wrong is told before TensorFlow is loaded
    with start.loaded(__name__):
        from tf_fedsam.sweeps import display, runner, texts
        from tf_fedsam.sweeps.sweep import Plan
    tf.config.set_visible_devices([], "GPU")  # the sweep itself leaves them to its cells
    plan = Plan.of(described, jobs=FLAGS.jobs, retries=FLAGS.retries)
    cells = plan.runner(functools.partial(arguments, unset=unset), command=command(args))
    text.say(plan.text())
    if FLAGS.dry_run:
        text.say(texts.cells_text(cells.jobs))
        return DONE
    plan.run(cells, display.make(plan.cells))
    again = f"The same command runs what is missing:\n  {commands.shown(command(args))}"
    text.say(texts.end_text(cells.jobs, again, "launch.report"))
    done = [job.status == runner.DONE for job in cells.jobs]
    if any(done):
        folder, page = (shlex.quote(str(path)) for path in (plan.out, plan.out / "report.html"))
        report = commands.shown(f"python -m launch.report {folder} --out={page}")
        text.say(f"Compare them on one page:\n  {report}")
    return DONE if all(done) else FAILED


def describe(args: Sequence[str]) -> tuple[Sweep, list[str]]:
    """The sweep, and the arguments of its cells that are no settings."""
    args = list(args)
    split = args.index("--") if "--" in args else len(args)
    own_flags.refuse_others(own_flags.parse(FLAGS, args[:split], HINT))
    fixed, unset = of_cells(args[split + 1 :])
    sweep = description.describe(
        FLAGS.config,
        algos=FLAGS.algos,
        datasets=FLAGS.datasets,
        seeds=FLAGS.seeds,
        grid=description.axes_of_texts(FLAGS.grid),
        out=FLAGS.out,
        fixed=fixed,
    )
    for layer, _ in sweep.layers:
        for key, axis in layer.grid.items():
            if axis.names & set(fixed):
                raise InputError(
                    f"{key} is varied in the grid and given after --. Remove one of them."
                )
    return sweep, unset


def of_cells(passed: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The settings that stand after --, and the other flags there."""
    if any(re.match(rf"--?(no)?({'|'.join(NOT_FOR_CELLS)})\b", arg) for arg in passed):
        raise InputError(f"--{', --'.join(NOT_FOR_CELLS)} are not for a sweep. Remove them.")
    entries, plain = _entries(passed)
    settings_flags.define()
    settings_flags.parse(["launch.main", *plain])
    given, values = settings_flags.run_config().given, flags.FLAGS
    taken = LISTED | {"output_dir": "out"}
    for name in taken:
        if name in given or (name not in SETTINGS and values[name].present):
            raise InputError(f"--{name} is given by the sweep. Use {taken[name]}, and remove it.")
    unset = [
        arg
        for name in values
        if values[name].present and name not in (*SETTINGS, "config")
        if name == values[name].name  # a flag may have a short name, too
        for arg in values[name].serialize().splitlines()
    ]
    return description.flat(given) | entries, unset


def _entries(args: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The algorithm's and the model's own flags, which are typed cell by cell, and the others."""
    entries, others, rest = {}, [], list(args)
    while rest:
        arg = rest.pop(0)
        match = re.fullmatch(rf"--?((?:{'|'.join(GROUPED)})\.[^=]+)(?:=(.*))?", arg, re.DOTALL)
        if match is None:
            others.append(arg)
        elif match[2] is not None:
            entries[match[1]] = match[2]
        else:
            entries[match[1]] = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
    return entries, others


def arguments(cell: "Cell", unset: Sequence[str] = ()) -> list[str]:
    """The arguments of Python that run a cell, as a user types them."""
    first = [f"--{name}={getattr(cell.config, name)}" for name in LISTED]
    others = [arg for arg in settings_flags.of_config(cell.config) if arg not in first]
    return ["-m", "launch.main", *first, *others, *unset, f"--output_dir={cell.run.path}"]


def command(args: Sequence[str]) -> str:
    return f"python -m launch.sweep {shlex.join(args)}"


def about() -> str:
    """What --help tells beside the flags."""
    grids = [
        row for name, numbers, source in papers.table() for row in ((name, numbers), ("", source))
    ]
    return "\n\n".join(
        [
            (__doc__ or "").strip(),
            f"{(description.__doc__ or '').strip()} Flags win over the file.",
            text.table(grids, "Grids of papers:"),
        ]
    )


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    return exits.guarded(lambda: main(args))


def console() -> None:
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
