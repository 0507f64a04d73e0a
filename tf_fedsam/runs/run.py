"""A run in Python: make it, go on with it, look at it.

run = tf_fedsam.run(RunConfig(dataset="glyphs", algo="fedsam"), "runs/mine")
run.records, run.summary, run.model(), run.plot()
"""

import contextlib
import functools
import html
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tf_fedsam import looks, paths, text
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.data.arrays import read_npz
from tf_fedsam.data.federated_dataset import Preprocess
from tf_fedsam.errors import InputError
from tf_fedsam.own_code import is_reference
from tf_fedsam.runs import export, forms, room, tables
from tf_fedsam.runs.callbacks.base import Callback
from tf_fedsam.runs.config import RunConfig
from tf_fedsam.runs.experiment import Experiment, build, build_network
from tf_fedsam.runs.folder import RunFolder, read_config_of
from tf_fedsam.runs.names import output_folder
from tf_fedsam.runs.task import Task
from tf_fedsam.runs.training import Say, Training, compare_with_original
from tf_fedsam.state.lock import RunLock

CURVES = ("test_accuracy", "train_loss")


def say(message: str, *settings: str) -> None:
    """Tells a user of Python something: settings are called by their names."""
    del settings
    text.say(message)


def run(
    config: RunConfig,
    folder: str | os.PathLike | None = None,
    *,
    task: Task | None = None,
    callbacks: Sequence[Callback] = (),
    verbose: bool = True,
    say: Say = say,
    command: str | None = None,
    repeats: str | os.PathLike | None = None,
    restart: bool = False,
) -> "Run":
    """Trains, logs, saves and exports; the same call again goes on where it stopped.

    Args:
        config: what to run.
        folder: for everything that is written; by default a name made from the settings in
            ``runs/``.
        task: the data set; by default the one called ``config.dataset``.
        callbacks: called around every round.
        verbose: whether to show what is run, the progress and the results.
        say: how to tell a user something.
        command: how the run was started, for its ``config.json``.
        repeats: the folder or ``config.json`` of a run that this one repeats; other inputs are
            refused.
        restart: whether to begin again if the folder holds a part of this run; that is deleted.

    Returns:
        The run; it is not ``complete`` if it was interrupted. Of several workers only the chief
        writes the folder; that of the others knows no more than what it did.
    """
    resolved = config.resolve(task)
    where = RunFolder(output_folder(resolved) if folder is None else paths.expanded(folder))
    command = python_command(config, where.path) if command is None else command
    training = Training(
        build(resolved),
        where,
        callbacks=callbacks,
        say=say,
        show_progress=verbose,
        command=command,
    )
    training.agree()
    with contextlib.ExitStack() as stack:
        finished = training.team.after_chief(lambda: look(training, restart, repeats, stack))
        if not training.team.is_chief:
            training.say = lambda message, *settings: None
            return WorkerRun(training, finished or training.run(restart))
        if verbose:
            show(training)
        complete = finished or training.run(restart)
    done = Run(where.path)
    if finished:
        done.summary = training.results()
        lacking = [f.name for f in resolved.export_forms if not (where.path / f.file).exists()]
        if lacking and done.complete:
            done.export(*lacking)
    if verbose and complete:
        title = training.experiment.process.algorithm.title
        say("\n" + tables.results_table(title, done.summary, done.records[-1]))
    return done


def look(
    training: Training,
    restart: bool,
    repeats: str | os.PathLike | None,
    stack: contextlib.ExitStack,
) -> bool:
    """Refuses what cannot be done; gives whether there is nothing left to do.

    Args:
        training: what is to be done.
        restart: whether it begins again.
        repeats: the run that it repeats.
        stack: holds the lock of the folder, if there is something to do.
    """
    training.check()
    if repeats is not None:
        compare_with_original(read_config_of(repeats), training.written_config, training.say)
    if not restart and training.is_complete():
        return True
    stack.enter_context(RunLock(training.folder.path))
    training.check()  # somebody may have been here in between
    return False


def show(training: Training) -> None:
    """Tells what is going to be run."""
    experiment, folder = training.experiment, training.folder.path
    needed = room.estimate(experiment, experiment.initialize(), folder, training.on_disk)
    training.say(tables.start_table(experiment, folder, needed))
    for note in (*needed.warnings(), *tables.notes(experiment)):
        training.say(*note)


class Run:
    """A run in its folder, complete or not.

    Args:
        folder: as ``run`` left it.

    Attributes:
        folder: its path.
        config_file: the content of its ``config.json``.
        records: the log, a dict a round; ``pandas.DataFrame(run.records)`` is a table of it.
        summary: the results; empty if it is not complete.
    """

    def __init__(self, folder: str | os.PathLike):
        self._files = RunFolder(paths.expanded(folder))
        self.folder = self._files.path
        if not self._files.config_exists():
            raise InputError(
                f"{self.folder} is not a run folder: there is no config.json in it. Expected: a "
                f"folder that a run made."
            )
        self.config_file = self._files.config()
        self.records = self._files.records()
        self.summary = self._files.summary()

    @functools.cached_property
    def config(self) -> RunConfig:
        """The description of the run."""
        return RunConfig.of_run(self.config_file, self.folder)

    @property
    def complete(self) -> bool:
        return self._files.is_complete(self.config_file["settings"])

    @property
    def algo(self) -> str:
        """The method's name, of a user's own one that of its class."""
        name = str(self.config_file["settings"].get("algo", "run"))
        return name.rpartition(":")[2] if is_reference(name) else name

    @property
    def title(self) -> str:
        """The method's name as its paper writes it."""
        known = all_algorithms().get(self.algo)
        return self.algo if known is None else known.title

    def model(self, *, raw: bool = False) -> keras.Model:
        """The global model after the last round; it gives logits.

        Args:
            raw: whether it takes raw inputs, as ``model.keras`` does, in place of inputs that are
                already normalised, as ``network.keras``.
        """
        self._require_complete()
        shape, num_classes = tuple(self._data("input_shape")), self._data("num_classes")
        network = build_network(self.config, shape, num_classes, pretrained=False)
        export.read_model(network, self.folder)
        return export.with_normalisation(network, self._preprocess) if raw else network

    def export(self, *names: str) -> list[pathlib.Path]:
        """Writes the global model in more forms into the folder, and gives their paths.

        Args:
            *names: of ``saved_model``, ``keras``, ``tflite``, ``onnx`` and ``serving``.
        """
        wanted = forms.read_forms(",".join(names))
        forms.check_available(wanted)
        network, settings = self.model(), self.config_file["settings"]
        with RunLock(self.folder):
            export.save_model(
                network,
                self._preprocess,
                self.folder,
                wanted,
                name=forms.serving_name(str(settings["dataset"]), str(settings["algo"])),
                dtype=self.config_file["data"].get("dtype", "uint8"),
            )
            self._files.mark_more_exported([forms.NETWORK, *(form.file for form in wanted)])
        return [self.folder / form.file for form in wanted]

    @property
    def _preprocess(self) -> Preprocess:
        """From raw inputs to normalised ones."""
        found = self._data("preprocess")
        return Preprocess(found["scale"], tuple(found["mean"]), tuple(found["std"]))

    def _data(self, name: str) -> Any:
        """What the config says of the data."""
        try:
            return self.config_file["data"][name]
        except (KeyError, TypeError):
            raise InputError(
                f"The config.json of {self.folder} has no data.{name}. Expected: as the run wrote "
                f"it. Put it back, or train again in another folder."
            ) from None

    def weights(self) -> list[np.ndarray]:
        """The global model's trainable weights after the last round."""
        self._require_complete()
        found = read_npz(self.folder / "final_weights.npz")
        return [found[f"w{i}"] for i in range(len(found))]

    def experiment(self, task: Task | None = None) -> Experiment:
        """The run's objects, made again: data, clients, process."""
        return build(self.config, task=task)

    def results(self) -> str:
        """The results as a table."""
        self._require_complete()
        return tables.results_table(self.title, self.summary, self.records[-1])

    def plot(self, *names: str) -> Any:
        """A matplotlib figure of numbers of the log over rounds, in the method's colour.

        Args:
            *names: of the log; test accuracy and training loss by default.
        """
        from matplotlib.figure import Figure

        names = names or CURVES
        known = {name for record in self.records for name in record}
        for name in names:
            if name not in known:
                raise InputError(
                    f"The log has no {name!r}. Expected: {', '.join(sorted(known)) or 'a round'}."
                )
        figure = Figure(figsize=(4.5 * len(names), 3.2), layout="constrained")
        for axes, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
            points = [(r["round"], r[name]) for r in self.records if r.get(name) is not None]
            look = looks.line(self.algo, len(points))
            axes.plot(*zip(*points, strict=True) if points else ((), ()), **look)
            axes.set(xlabel="round", title=name.replace("_", " "))
            axes.grid(alpha=0.3)
        figure.suptitle(self.title)
        return figure

    def __fspath__(self) -> str:
        """The folder, wherever a path is asked for."""
        return os.fspath(self.folder)

    def __repr__(self) -> str:
        state = "complete" if self.complete else "not complete"
        return f"Run({str(self.folder)!r}, {self.algo}, {len(self.records)} rounds, {state})"

    def _repr_html_(self) -> str:
        """The results as a notebook shows them."""
        rows: list[tuple[str, Any]] = [("folder", self.folder), ("rounds", len(self.records))]
        if self.complete:
            rows = [rows[0], *tables.result_rows(self.summary, self.records[-1])]
        elif self.records and self.records[-1].get("test_accuracy") is not None:
            rows.append(("test accuracy", f"{self.records[-1]['test_accuracy']:.2%}"))
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name.strip())}</th>"
            f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
            for name, value in rows
        )
        state = "" if self.complete else " (not complete)"
        return f"<table><caption>{html.escape(self.title)}{state}</caption>{cells}</table>"

    def _require_complete(self) -> None:
        if not self.complete:
            raise InputError(
                f"The run {self.folder} is not complete. Received: {len(self.records)} rounds. "
                f"Run it to its end first."
            )


class WorkerRun(Run):
    """A run as a worker sees it that is not the chief: the folder need not be there."""

    def __init__(self, training: Training, complete: bool):
        self.folder = training.folder.path
        self.config_file = training.written_config
        self.records = training.records
        self.summary = {}
        self._complete = complete

    @property
    def complete(self) -> bool:
        return self._complete

    def _require_complete(self) -> None:
        raise InputError("Worker 0 has the run's results; this is another worker.")


def python_command(config: RunConfig, folder: pathlib.Path) -> str:
    """How a run is started in Python."""
    given = ", ".join(f"{name}={value!r}" for name, value in config.given.items())
    return f"tf_fedsam.run(tf_fedsam.RunConfig({given}), {str(folder)!r})"
