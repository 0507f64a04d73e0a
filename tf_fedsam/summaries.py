"""TensorBoard: everything of ``rounds.jsonl`` as scalars, histograms and pictures, and the config.

The event files are made from the log's records, so a resumed run writes them anew from its log and
has neither gaps nor forks.
"""

import dataclasses
import gc
import json
import pathlib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams_api

from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.analysis.fairness import row_shares

# The log's names on the left; scalars are grouped in TensorBoard by what stands before the slash.
TAGS = {
    "test_accuracy": "test/accuracy",
    "test_loss": "test/loss",
    "train_loss": "train/loss",
    "global_train_loss": "train/global_loss",
    "global_train_accuracy": "train/global_accuracy",
    "lr": "train/lr",
    "update_norm": "train/update_norm",
    "momentum_norm": "train/momentum_norm",
    "flatness_distance": "flatness/distance_to_new_model",
    "dispersion": "flatness/distance_to_mean",
    "divergence": "flatness/divergence_of_all_clients",
    "sharpness": "flatness/sharpness",
    "hessian_eigenvalue": "flatness/hessian_eigenvalue",
    "perturbation_norm": "flatness/perturbation_norm",
    "update_cosine": "agreement/between_updates",
    "momentum_cosine": "agreement/updates_and_momentum",
    "num_reported": "clients/reported",
    "num_failed": "clients/failed",
    "skipped": "clients/skipped",
    "local_steps": "clients/local_steps",
}
GROUPS = {
    "client_train_accuracy_": "clients_train_accuracy/",
    "client_validation_accuracy_": "clients_validation_accuracy/",
}
COSTS = ("seconds", "vectors_", "bytes_", "gradient_evaluations")
NOT_SCALARS = ("client_ids", "num_steps", "failed_client_ids", "round")
METRICS = {
    "test/accuracy": "test accuracy",
    "test/loss": "test loss",
    "flatness/sharpness": "sharpness",
    "clients_validation_accuracy/worst_decile": "worst tenth of clients",
    "cost_so_far/bytes_up": "bytes up",
    "cost_so_far/gradient_evaluations": "gradients",
}


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
        self._class_names: Sequence[str] = ()
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            self._fail("the folder of an earlier start cannot be deleted")
            return
        self._guard(self._open)

    def _open(self) -> None:
        self._writer = tf.summary.create_file_writer(str(self._folder))

    def start(
        self,
        config: Mapping[str, Any],
        class_counts: np.ndarray,
        class_names: Sequence[str] = (),
    ) -> None:
        """The config as text and hyper-parameters, and the client-by-class picture."""
        self._class_names = class_names

        def write() -> None:
            with self._writer.as_default(step=0):
                tf.summary.text("command", f"    {config['command']}")
                tf.summary.text("config", _as_markdown(config))
                tf.summary.image("split/clients_by_class", split_picture(class_counts)[None])
                hparams = _hparams(config["settings"])
                hparams_api.hparams_config(
                    hparams=[hparams_api.HParam(name) for name in _columns(hparams)],
                    metrics=[hparams_api.Metric(t, display_name=n) for t, n in METRICS.items()],
                )
                hparams_api.hparams(hparams)
            self._writer.flush()

        self._guard(write)

    def write(self, records: Iterable[Mapping[str, Any]]) -> None:
        """The scalars of some rounds."""

        def write() -> None:
            with self._writer.as_default():
                for record in records:
                    for name, value in scalars(record).items():
                        tf.summary.scalar(tag(name), value, record["round"])
                    self._write_distributions(record)
            self._writer.flush()

        self._guard(write)

    def _write_distributions(self, record: Mapping[str, Any]) -> None:
        for prefix, group in GROUPS.items():
            counts = record.get(f"{prefix}histogram")
            if counts:
                centres = (np.arange(len(counts)) + 0.5) / len(counts)
                clients = np.repeat(centres, counts)
                tf.summary.histogram(f"{group}clients", clients, record["round"], len(counts))
        if record.get("confusion"):
            picture = confusion_picture(np.asarray(record["confusion"]), self._class_names)
            tf.summary.image("test/confusion", picture[None], record["round"])

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
        if name not in NOT_SCALARS and isinstance(value, (int, float))
    }
    numbers["local_steps"] = float(sum(record["num_steps"]))
    numbers["num_failed"] = float(len(record["failed_client_ids"]))
    return numbers


def tag(name: str) -> str:
    """TensorBoard's name for a number of the log."""
    if name in TAGS:
        return TAGS[name]
    for prefix, group in GROUPS.items():
        if name.startswith(prefix):
            return group + name.removeprefix(prefix)
    if name.endswith("seconds") or name.startswith(COSTS):
        so_far = name.endswith("_total")
        return f"cost_so_far/{name.removesuffix('_total')}" if so_far else f"cost/{name}"
    return f"algorithm/{name}"


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
    return _pixels(canvas)


def confusion_picture(matrix: np.ndarray, class_names: Sequence[str] = ()) -> np.ndarray:
    """A confusion matrix as shares of the true classes, an RGB uint8 image."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shares = row_shares(matrix)
    figure = Figure(figsize=(8, 7), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(shares, vmin=0, vmax=1, interpolation="nearest", cmap="magma")
    accuracy = np.trace(matrix) / max(matrix.sum(), 1)
    axes.set(xlabel="predicted class", ylabel="true class", title=f"Test accuracy {accuracy:.2%}")
    if len(class_names) == len(matrix) <= 30:
        upright = 90 if max(map(len, class_names)) > 2 else 0
        axes.set_xticks(range(len(matrix)), class_names, rotation=upright)
        axes.set_yticks(range(len(matrix)), class_names)
    if len(matrix) <= 12:
        for (row, column), share in np.ndenumerate(shares):
            colour = "black" if share > 0.6 else "white"
            axes.text(column, row, f"{share:.0%}", ha="center", va="center", color=colour, size=8)
    figure.colorbar(image, label="share of the true class")
    return _pixels(canvas)


def _pixels(canvas: Any) -> np.ndarray:
    """The drawing; what a figure keeps in circles of references is let go at once."""
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    canvas.figure.clear()
    canvas.renderer = None
    gc.collect()
    return pixels


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


def _columns(hparams: Mapping[str, Any]) -> list[str]:
    """The columns of the table of runs, which TensorBoard takes from one run for all of them."""
    own = {
        f"hparams.{field.name}"
        for algorithm in all_algorithms().values()
        for field in dataclasses.fields(algorithm.Hparams)
    }
    return sorted({*hparams, *own})


def _as_markdown(config: Mapping[str, Any]) -> str:
    text = json.dumps(config, indent=2)
    return "\n".join("    " + line for line in text.splitlines())
