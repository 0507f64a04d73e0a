"""TensorBoard: everything of ``rounds.jsonl`` as scalars, histograms and pictures, and the config.

A number is called ``GROUP/NAME``, where NAME is that of the log. TensorBoard shows groups in the
order of the alphabet, so the accuracies come first.

The event files are made from the log's records, so a resumed run writes them anew from its log and
has neither gaps nor forks.
"""

import collections
import dataclasses
import functools
import gc
import json
import math
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.compat.proto import summary_pb2, types_pb2
from tensorboard.plugins.hparams import api as hparams_api
from tensorboard.plugins.scalar import metadata as scalar_metadata

from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.analysis.fairness import row_shares
from tf_fedsam.runs.callbacks.base import Callback
from tf_fedsam.runs.config import GROUPED, of_role
from tf_fedsam.runs.folder import EVENTS
from tf_fedsam.runs.settings import Role

# The group of a number of the log: that of the first pattern that its name fulfils.
GROUPS = (
    (r"client_.*|personal.*|num_(reported|failed)|skipped|local_steps", "clients"),
    (r"(bytes|vectors|gradient_evaluations|.*seconds).*_total", "cost_so_far"),
    (r"(bytes|vectors|gradient_evaluations|.*seconds).*", "cost"),
    (r"epsilon.*", "privacy"),
    (r"loss_(local|global)_.*", "flatness"),
    (r".*(sharpness|hessian|eigenvalue|flatness|dispersion|divergence|perturbation).*", "flatness"),
    (r".*accuracy.*", "accuracy"),
    (r".*loss.*", "loss"),
    (r".*cosine.*", "agreement"),
    (r"lr|rho|.*_norm", "training"),
    (r".*", "method"),
)
MANY_ROUNDS = 200  # take a moment to draw again
NOT_SCALARS = ("client_ids", "num_steps", "failed_client_ids", "round")
SET_BY_HAND = ("perturbation_norm",)  # the radius: its last digits are noise of float32
METRICS = {  # the results of the table of runs
    "test_accuracy": "test accuracy",
    "test_loss": "test loss",
    "sharpness": "sharpness",
    "client_test_accuracy_worst_decile": "worst tenth of clients",
    "bytes_up_total": "bytes up",
    "gradient_evaluations_total": "gradients",
}
# Settings of the table of runs, in this order: what differs between methods comes first. Where and
# how a run was computed and measured is left out.
TOLD_ROLES = (Role.METHOD, Role.TUNING, Role.SEED, Role.PROBLEM)
SHOWN_CLIENTS = 200  # in the picture of the split
MOST_NAMES = 70  # of classes along an axis
LONGEST_NAME = 18
MOST_PICTURES = 4  # of earlier confusion matrices that are drawn anew; each takes half a second


class TensorBoard(Callback):
    """Keeps the curves of a run in its folder, for ``tensorboard --logdir``."""

    def on_run_begin(self):
        training = self.training
        self._files = EventFiles(training.folder.tensorboard, training.say)
        experiment = training.experiment
        self._files.start(
            training.written_config,
            experiment.class_counts(SHOWN_CLIENTS),
            experiment.loaded.class_names,
            experiment.dataset.num_clients,
        )
        if len(training.records) >= MANY_ROUNDS:
            training.say(f"Writing TensorBoard's curves of {len(training.records):,} rounds anew.")
        self._files.write(training.records)

    def on_round_end(self, round, record, state):
        self._files.write([record])

    def on_run_end(self):
        self._files.close()


class EventFiles:
    """Writes event files into a folder, from which it deletes earlier ones.

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
        try:
            for path in folder.glob(EVENTS) if folder.is_dir() else ():
                path.unlink()
        except OSError as error:
            self._fail(f"those of an earlier start cannot be deleted ({error.strerror})")
            return
        self._guard(self._open)

    def _open(self) -> None:
        self._writer = tf.summary.create_file_writer(str(self._folder))

    def start(
        self,
        config: Mapping[str, Any],
        class_counts: np.ndarray,
        class_names: Sequence[str] = (),
        num_clients: int | None = None,
    ) -> None:
        """The config as text and hyper-parameters, and the client-by-class picture."""
        self._class_names = class_names
        picture = split_picture(class_counts, class_names, num_clients)

        def write() -> None:
            with self._writer.as_default(step=0):
                tf.summary.text("command", f"    {config['command']}")
                tf.summary.text("config", _as_markdown(config))
                tf.summary.image("split/clients_by_class", picture[None])
                hparams = _hparams(config["settings"])
                metrics = [
                    hparams_api.Metric(tag(name), display_name=words)
                    for name, words in METRICS.items()
                ]
                columns = [hparams_api.HParam(name) for name in _columns(hparams)]
                hparams_api.hparams_config(hparams=columns, metrics=metrics)
                hparams_api.hparams(hparams)
            self._writer.flush()

        self._guard(write)

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        """The numbers of some rounds; of many confusion matrices some are drawn."""
        drawn = _spread([r["round"] for r in records if r.get("confusion")], MOST_PICTURES)

        def write() -> None:
            with self._writer.as_default():
                for record in records:
                    numbers = {tag(name): value for name, value in scalars(record).items()}
                    tf.summary.experimental.write_raw_pb(as_summary(numbers), record["round"])
                    self._write_distributions(record)
                    if record["round"] in drawn:
                        self._draw(record)
            self._writer.flush()

        self._guard(write)

    def _write_distributions(self, record: Mapping[str, Any]) -> None:
        for name, counts in record.items():
            if name.endswith("_histogram") and counts:
                centres = (np.arange(len(counts)) + 0.5) / len(counts)
                clients = np.repeat(centres, counts)
                tf.summary.histogram(tag(name), clients, record["round"], len(counts))

    def _draw(self, record: Mapping[str, Any]) -> None:
        picture = confusion_picture(np.asarray(record["confusion"]), self._class_names)
        tf.summary.image("accuracy/confusion", picture[None], record["round"])

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
            f"without them. Delete {EVENTS} there when the run has ended and give the same command "
            f"again: it makes them from the log."
        )


def _spread(rounds: Sequence[int], most: int) -> set[int]:
    """At most so many of them, with the first and the last."""
    places = np.linspace(0, len(rounds) - 1, min(most, len(rounds))).round().astype(int)
    return {rounds[place] for place in places}


def as_summary(numbers: Mapping[str, float]) -> bytes:
    """Scalars as TensorBoard stores them, all of a round at once: one by one takes long."""
    summary = summary_pb2.Summary()
    about = scalar_metadata.create_summary_metadata(display_name="", description="")
    for name, value in numbers.items():
        entry = summary.value.add(tag=name, metadata=about)
        entry.tensor.dtype = types_pb2.DT_FLOAT
        entry.tensor.tensor_shape.SetInParent()  # a scalar, not a tensor of unknown shape
        entry.tensor.float_val.append(value)
    return summary.SerializeToString()


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a round's record."""
    numbers = {
        name: float(value)
        for name, value in record.items()
        if name not in NOT_SCALARS and isinstance(value, (int, float))
    }
    numbers |= {name: float(f"{numbers[name]:.5g}") for name in SET_BY_HAND if name in numbers}
    numbers["local_steps"] = float(sum(record["num_steps"]))
    numbers["num_failed"] = float(len(record["failed_client_ids"]))
    return numbers


def tag(name: str) -> str:
    """TensorBoard's name for a number of the log."""
    group = next(group for pattern, group in GROUPS if re.fullmatch(pattern, name))
    return f"{group}/{name}"


def _letting_go(draw: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A drawing after which the circles of references in its figure are let go at once.

    While it is drawn, nothing grows old, so only what was made meanwhile has to be looked at, and
    not all objects of TensorFlow.
    """

    @functools.wraps(draw)
    def drawn(*args: Any) -> np.ndarray:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return draw(*args)
        finally:
            gc.collect(0)
            if enabled:
                gc.enable()

    return drawn


@_letting_go
def split_picture(
    class_counts: np.ndarray, class_names: Sequence[str] = (), num_clients: int | None = None
) -> np.ndarray:
    """A client-by-class heat map, an RGB uint8 image; many clients are shown as the first 200.

    Args:
        class_counts: of the clients, or of the first ones.
        class_names: one name a class.
        num_clients: how many clients there are; as many as are counted unless told.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = class_counts[:SHOWN_CLIENTS]
    num_clients = len(class_counts) if num_clients is None else num_clients
    figure = Figure(figsize=(8, 6), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(shown.T, aspect="auto", interpolation="nearest", cmap="magma")
    more = f" (first {len(shown)} of {num_clients})" if len(shown) < num_clients else ""
    axes.set(xlabel=f"client{more}", ylabel="class", title="Examples of each class on each client")
    _name_axis(axes.yaxis, class_names, shown.shape[1])
    figure.colorbar(image, label="examples")
    return _pixels(canvas)


@_letting_go
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
    _name_axis(axes.xaxis, class_names, len(matrix))
    _name_axis(axes.yaxis, class_names, len(matrix))
    if len(matrix) <= 12:
        for (row, column), share in np.ndenumerate(shares):
            colour = "black" if share > 0.6 else "white"
            axes.text(column, row, f"{share:.0%}", ha="center", va="center", color=colour, size=8)
    figure.colorbar(image, label="share of the true class")
    return _pixels(canvas)


def _name_axis(axis: Any, names: Sequence[str], count: int) -> None:
    """Puts the names of the classes at an axis; of very many, some."""
    if len(names) != count or not names:
        return
    every = math.ceil(count / MOST_NAMES)
    shown = {place: str(names[place])[:LONGEST_NAME] for place in range(0, count, every)}
    size = 10 if len(shown) <= 20 else 7 if len(shown) <= 40 else 5
    longest = max(map(len, shown.values()))
    upright = 90 if axis.axis_name == "x" and longest > 2 else 0
    words = {"fontsize": size, "rotation": upright, "parse_math": False}
    axis.set_ticks(list(shown), labels=list(shown.values()), **words)


def _pixels(canvas: Any) -> np.ndarray:
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _hparams(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What made the run, by the names of settings."""
    flat = {
        name: value
        for name, value in settings.items()
        if isinstance(value, (bool, int, float, str)) and name in of_role(*TOLD_ROLES)
    }
    for group in GROUPED:
        for name, value in settings.get(group, {}).items():
            flat[f"{group}.{name}"] = value if isinstance(value, (bool, int, float)) else str(value)
    return flat


def _columns(hparams: Mapping[str, Any]) -> list[str]:
    """The columns of the table of runs, which TensorBoard takes from one run for all of them.

    First the method and its hyper-parameters, those that most methods have before others.
    """
    own = collections.Counter(
        f"hparams.{field.name}"
        for algorithm in all_algorithms().values()
        for field in dataclasses.fields(algorithm.Hparams)
    )
    own.update(name for name in hparams if name.startswith("hparams."))
    common = sorted(own, key=lambda name: (-own[name], name))
    ordered = ["algo", *common, *(n for role in TOLD_ROLES for n in of_role(role))]
    rest = [name for name in hparams if name not in ordered]
    return [name for name in dict.fromkeys([*ordered, *rest]) if name in hparams or name in own]


def _as_markdown(config: Mapping[str, Any]) -> str:
    text = json.dumps(config, indent=2)
    return "\n".join("    " + line for line in text.splitlines())
