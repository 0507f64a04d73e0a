"""Makes one run in a process of its own.

    python -m tf_fedsam.runs run.yaml runs/mine --tasks=tasks.registry

The description is a file of YAML or JSON that maps settings to values, or such JSON itself. The
same command again goes on where it stopped.
"""

from tf_fedsam.runs import loading

loading.load(__name__)

import argparse
import importlib
import json
import sys
from collections.abc import Sequence

from tf_fedsam.errors import InputError
from tf_fedsam.runs import exits
from tf_fedsam.runs import task as tasks
from tf_fedsam.runs.config import RunConfig
from tf_fedsam.runs.exits import DONE, FAILED
from tf_fedsam.runs.run import run
from tf_fedsam.state.checkpoint import CheckpointError


def main(args: Sequence[str]) -> int:
    """Gives the exit code: 0 if the run is complete."""
    values = _parser().parse_args(args)
    for module in values.imports:
        importlib.import_module(module)
    for module in values.tasks:
        tasks.register(module)
    done = run(read(values.config), values.folder, restart=values.restart)
    return DONE if done.complete else FAILED


def read(text: str) -> RunConfig:
    """A description from a file, or from its content."""
    if not text.lstrip().startswith("{"):
        return RunConfig.load(text)
    try:
        return RunConfig.from_values(json.loads(text))
    except json.JSONDecodeError as error:
        raise InputError(f"The description is not JSON: {error}. Received: {text!r:.60}.") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tf_fedsam.runs", description=__doc__)
    parser.add_argument("config", help="a .yaml or .json file, or JSON")
    parser.add_argument("folder", help="where everything is written")
    add = parser.add_argument
    add("--tasks", action="append", default=[], metavar="MODULE", help="a registry of data sets")
    add(
        "--import",
        action="append",
        default=[],
        dest="imports",
        metavar="MODULE",
        help="imported first",
    )
    add("--restart", action="store_true", help="begin again; what there is of it is deleted")
    return parser


if __name__ == "__main__":
    exits.console(
        lambda: exits.guarded(lambda: main(sys.argv[1:]), failures=(CheckpointError, OSError))
    )
