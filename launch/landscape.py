"""Draws the loss around the solutions of runs that are done, on the same axes for all of them.

    python -m launch.landscape runs/fedavg runs/fedsam --out=landscape
    python -m launch.landscape runs/fedavg runs/fedsam --between --grid=51

Two random directions, the same for all runs and filter-normalised for each, span the surface. The
loss is the mean cross-entropy on examples that are the same for all runs. Flags go before or after
the folders. The same command goes on after an interruption and computes only what is missing.

Writes into --out: landscape.json (runs, settings, pictures; written last), contour.png, surface.png
and surface_2d.csv, line.png and line_1d.csv, and with --between, for each run and the next one of
the command, between.png and between.csv. Each run gets its contour into its TensorBoard folder.
"""

from launch.command_line import start

start.begin(__name__)

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

import tasks  # noqa: F401  makes the data sets known
from launch.command_line import commands, exits, own_flags
from launch.command_line.exits import DONE
from tf_fedsam import text
from tf_fedsam.analysis.landscape.view import View
from tf_fedsam.errors import InputError, TellableError

if TYPE_CHECKING:
    from tf_fedsam.analysis.landscape.results import Landscape

FLAGS = own_flags.new()
NO_MEMORY = TellableError("Not enough memory. Use a smaller batch_size.", "batch_size")


def _define() -> None:
    mine: Any = {"flag_values": FLAGS}
    whole, yes = flags.DEFINE_integer, flags.DEFINE_bool
    flags.DEFINE_string("out", "landscape", "Folder for pictures and tables.", **mine)
    whole(
        "grid", View.grid, "Points along each axis of the surface; odd, so that 0 is one.", **mine
    )
    flags.DEFINE_float(
        "span", View.span, "The axes go from -span to span, in filter norms.", **mine
    )
    sides = [str(number) for number in View.dimensions]
    flags.DEFINE_list("dimensions", sides, "1: the line, 2: the surface, 1,2: both.", **mine)
    yes("between", View.between, "The straight line from each run to the next one.", **mine)
    flags.DEFINE_enum("on", View.on, ("train", "test"), "Whose loss.", **mine)
    whole(
        "examples",
        View.examples,
        "Examples the loss is the mean of; fewer if there are not so many.",
        **mine,
    )
    whole("seed", View.seed, "Of the directions and the choice of examples.", **mine)
    whole("batch_size", View.batch_size, "Examples that go through the network at a time.", **mine)
    yes("tensorboard", True, "Add each run's contour to its TensorBoard.", **mine)


_define()


def main(args: Sequence[str]) -> int:
    if own_flags.helped(FLAGS, args, __doc__):
        return DONE
    folders = own_flags.parse(FLAGS, args)
    if not folders:
        raise InputError(
            "Received no run folder. Expected: at least one, as in "
            "python -m launch.landscape runs/one runs/two."
        )
    given: dict[str, Any] = {name: FLAGS[name].value for name in FLAGS}
    given["dimensions"] = dimensions(FLAGS.dimensions)
    View(**{field.name: given[field.name] for field in dataclasses.fields(View)})
    with start.loaded(__name__):
        from tf_fedsam.analysis.landscape.compared import IncompleteRunError
        from tf_fedsam.analysis.landscape.study import landscape
    try:
        text.say(next_steps(landscape(folders, **given)))
    except IncompleteRunError as error:
        again = shlex.quote(str(error.folder))
        command = f"python -m launch.main --from_config={again} --output_dir={again}"
        told = f"{error.what} Finish it first:\n  {commands.shown(command)}"
        raise InputError(told) from None
    return DONE


def dimensions(received: Sequence[str]) -> tuple[int, ...]:
    if not received or not set(received) <= {"1", "2"}:
        raise InputError(f"--dimensions must be 1, 2 or 1,2. Received: {','.join(received)!r}.")
    return tuple(map(int, received))


def next_steps(found: "Landscape") -> str:
    folders = " ".join(shlex.quote(row["folder"]) for row in found.numbers)
    pictures = f"--landscape={shlex.quote(str(found.folder))}"
    command = f"python -m launch.report {folders} {pictures} --out=report.html"
    return f"\nPut them into a report:\n  {commands.shown(command)}"


def failure(error: Exception) -> str:
    """What to tell of a failure."""
    assert isinstance(error, OSError)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    return exits.guarded(lambda: main(args), words=failure, no_memory=NO_MEMORY)


def console() -> None:
    """``tf-fedsam landscape``."""
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
