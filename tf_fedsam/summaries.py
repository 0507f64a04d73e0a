"""TensorBoard: everything of ``rounds.jsonl`` as scalars, the config, the split as a picture.

The event files are made from the log's records, so a resumed run writes them anew from its log and
has neither gaps nor forks.
"""

import json
import pathlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams_api

# The log's names on the left; scalars are grouped in TensorBoard by what stands before the slash.
TAGS = {
    "test_accuracy": "test/accuracy",
    "test_loss": "test/loss",
    "train_loss": "train/loss",
    "lr": "train/lr",
    "update_norm": "train/update_norm",
    "num_reported": "clients/reported",
    "num_failed": "clients/failed",
    "skipped": "clients/skipped",
    "local_steps": "clients/local_steps",
    "seconds": "cost/seconds",
    "eval_seconds": "cost/eval_seconds",
    "bytes_down": "cost/bytes_down",
    "bytes_up": "cost/bytes_up",
    "gradient_evaluations": "cost/gradient_evaluations",
}
LISTS = ("client_ids", "num_steps", "failed_client_ids", "round")


class TensorBoard:
    """Writes event files into a folder that it empties first.

    Curves can be made again from the log, so a run does not end because they cannot be written.

    Args:
        folder: where to.
        warn: told, once, that they cannot be written; everything after that has no effect.
    """

    def __init__(self, folder: pathlib.Path, warn: Callable[[str], None]):
        self._folder = folder
        self._warn = warn
        self._writer: Any = None
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            self._fail("the folder of an earlier start cannot be deleted")
            return
        self._guard(self._open)

    def _open(self) -> None:
        self._writer = tf.summary.create_file_writer(str(self._folder))

    def start(self, config: Mapping[str, Any], class_counts: np.ndarray) -> None:
        """The config as text and hyper-parameters, and the client-by-class picture."""

        def write() -> None:
            with self._writer.as_default(step=0):
                tf.summary.text("command", f"    {config['command']}")
                tf.summary.text("config", _as_markdown(config))
                tf.summary.image("split/clients_by_class", split_picture(class_counts)[None])
                hparams_api.hparams(_hparams(config["settings"]))
            self._writer.flush()

        self._guard(write)

    def write(self, records: Iterable[Mapping[str, Any]]) -> None:
        """The scalars of some rounds."""

        def write() -> None:
            with self._writer.as_default():
                for record in records:
                    for name, value in scalars(record).items():
                        tag = TAGS.get(name, f"algorithm/{name}")
                        tf.summary.scalar(tag, value, record["round"])
            self._writer.flush()

        self._guard(write)

    def close(self) -> None:
        self._guard(lambda: self._writer.close())

    def _guard(self, action: Callable[[], None]) -> None:
        if self._writer is None and action != self._open:
            return
        try:
            action()
        except (OSError, tf.errors.OpError) as error:
            text = error.message if isinstance(error, tf.errors.OpError) else str(error)
            self._fail(text.splitlines()[0] if text else type(error).__name__)

    def _fail(self, reason: str) -> None:
        self._writer = None
        self._warn(
            f"TensorBoard's files in {self._folder} cannot be written: {reason}. The run goes on "
            f"without them. Delete that folder when the run has ended and give the same command "
            f"again: it makes them from the log."
        )


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a round's record."""
    numbers = {
        name: float(value)
        for name, value in record.items()
        if name not in LISTS and isinstance(value, (int, float))
    }
    numbers["local_steps"] = float(sum(record["num_steps"]))
    numbers["num_failed"] = float(len(record["failed_client_ids"]))
    return numbers


def split_picture(class_counts: np.ndarray) -> np.ndarray:
    """A client-by-class heat map, an RGB uint8 image; many clients are shown as the first 200."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = class_counts[:200]
    figure = Figure(figsize=(8, 6), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(shown.T, aspect="auto", interpolation="nearest", cmap="magma")
    more = f" (first {len(shown)} of {len(class_counts)})" if len(shown) < len(class_counts) else ""
    axes.set(xlabel=f"client{more}", ylabel="class", title="Examples of each class on each client")
    figure.colorbar(image, label="examples")
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _hparams(settings: Mapping[str, Any]) -> dict[str, Any]:
    flat = {
        name: value
        for name, value in settings.items()
        if isinstance(value, (bool, int, float, str))
    }
    for group in ("hparams", "model_options"):
        for name, value in settings.get(group, {}).items():
            flat[f"{group}.{name}"] = value if isinstance(value, (bool, int, float)) else str(value)
    return flat


def _as_markdown(config: Mapping[str, Any]) -> str:
    text = json.dumps(config, indent=2)
    return "\n".join("    " + line for line in text.splitlines())
