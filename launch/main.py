"""Trains one algorithm on one data set.

    python -m launch.main --algo=mofedsam --dataset=glyphs

Every setting that is left out comes from the data set and the algorithm. The same command again
goes on where it stopped. An algorithm's own hyper-parameters are --hparams.NAME=VALUE, a model's
options --model_options.NAME=VALUE; --describe=NAME tells of them. --config=run.yaml describes a run
in a file; flags win over it.
"""

from launch.command_line import start

start.begin(__name__)

import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags

from launch.command_line import commands, exits, helping
from launch.command_line import flags as settings_flags
from launch.command_line.exits import DONE, FAILED
from tf_fedsam import own_code, text
from tf_fedsam.algorithms.registry import accounting, all_algorithms
from tf_fedsam.errors import CheckpointError, TellableError
from tf_fedsam.runs.describe import describe

settings_flags.define()
flags.adopt_module_key_flags(settings_flags)


def main(args: Sequence[str]) -> int:
    if helping.helped(args, __doc__):
        return DONE
    if any(".py:" in arg for arg in args):  # one's own file loads TensorFlow, which is to be quiet
        with start.loaded(__name__):
            pass
    settings_flags.parse(["launch.main", *args])
    values = flags.FLAGS
    if values.list_algorithms:
        text.say(algorithm_table())
        return DONE
    if values.describe is not None:
        text.say(describe(values.describe))
        return DONE
    config = settings_flags.run_config()
    config.resolve()  # what is wrong is told before TensorFlow is loaded
    with start.loaded(__name__):
        from tf_fedsam.runs.callbacks import Callback
        from tf_fedsam.runs.run import WorkerRun
        from tf_fedsam.runs.run import run as train
    done = train(
        config,
        values.output_dir,
        callbacks=[
            own_code.load_class(reference, Callback, "Callback")() for reference in values.callback
        ],
        say=say,
        command=settings_flags.command(args),
        repeats=values.from_config,
        restart=values.restart,
    )
    if not (done.complete or done.summary):  # there are results, though an export may be gone
        text.say(
            f"\nStopped after round {len(done.records)} of {done.config.rounds}; everything is "
            f"saved. Go on with the same command:\n  {commands.shown(settings_flags.command(args))}"
        )
        return FAILED
    if not isinstance(done, WorkerRun):
        text.say(next_steps(done.folder))
    return DONE


def say(message: str, *settings: str) -> None:
    """Tells a user of flags something."""
    text.say(TellableError(message, *settings).with_flags())


def next_steps(folder: pathlib.Path) -> str:
    """Where everything is, and what to do with it."""
    loaders = {
        "saved_model": "tf.saved_model.load",
        "model.keras": "keras.models.load_model",
        "model.tflite": "LiteRT",
        "model.onnx": "onnxruntime",
        "serving": "TensorFlow Serving",
    }
    models = [
        f"{folder / name}  ({loader})"
        for name, loader in loaders.items()
        if (folder / name).exists()
    ]
    files: list[tuple[str, Any]] = [
        ("" if i else "global model", line) for i, line in enumerate(models)
    ]
    files.append(("log", folder / "rounds.jsonl"))
    runs = shlex.quote(str(folder.parent))
    return "\n".join(
        [
            "",
            text.table(files),
            "",
            "See the curves, or compare runs on one page:",
            f"  {commands.shown(f'tensorboard --logdir={runs}')}",
            f"  {commands.shown(f'python -m launch.report {runs} --out=report.html')}",
        ]
    )


def algorithm_table() -> str:
    """What ``--list_algorithms`` prints: the table of the README for a terminal."""
    header = ("--algo", "down", "up", "gradients", "what it does, paper, client state")
    rows = []
    for method in all_algorithms().values():
        state, down, up, gradients = accounting(method())
        kept = "" if state == "none" else f"\nkeeps: {state}"
        rows.append((method.name, down, up, gradients, f"{method.summary}\n{method.paper}{kept}"))
    return text.grid(header, rows)


def run(args: Sequence[str]) -> int:
    """Runs a command line, without the program's name, and gives its exit code."""
    return exits.guarded(
        lambda: main(args),
        failures=(CheckpointError, OSError),
        verbose=lambda: flags.FLAGS.is_parsed() and flags.FLAGS.verbose,
    )


def console() -> None:
    """``tf-fedsam train``."""
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
