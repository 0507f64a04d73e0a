"""How a launcher begins; ``tf-fedsam``.

Every launcher calls :func:`load` before it imports anything that imports TensorFlow, or
:func:`begin` and, once it knows that there is something to compute, :func:`loaded`.
"""

import runpy
import sys

from tf_fedsam.runs import interrupts
from tf_fedsam.runs.loading import begin, load, loaded

__all__ = ["begin", "console", "load", "loaded"]

COMMANDS = {
    "train": "main",
    "sweep": "sweep",
    "report": "report",
    "landscape": "landscape",
    "partition": "partition",
    "bench": "bench",
    "reproduce": "reproduce",
}


def console() -> None:
    """The command ``tf-fedsam COMMAND``, the same as ``python -m launch.MODULE``.

    The module is run as the program, since absl shows the help of that.
    """
    given = sys.argv[1] if len(sys.argv) > 1 else ""
    if given.startswith("-"):  # flags alone are those of the training
        module = "main"
    elif given in COMMANDS:
        module = COMMANDS[given]
        del sys.argv[1]
    else:
        wanted = ", ".join(COMMANDS)
        print(f"usage: tf-fedsam COMMAND --flag=value ...\nCommands: {wanted}", file=sys.stderr)
        if given:
            print(f"error: Unknown command {given!r}. Expected one of: {wanted}.", file=sys.stderr)
        sys.exit(2)
    interrupts.quit_while_loading()
    runpy.run_module(f"launch.{module}", run_name="__main__", alter_sys=True)
