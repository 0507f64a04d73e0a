"""The round loop of a run: from the last checkpoint to the exported model."""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from tf_fedsam.analysis.results import summarise, with_totals
from tf_fedsam.errors import InputError, TellableError
from tf_fedsam.process import State
from tf_fedsam.runs import export, forms, interrupts, model_card, provenance, room, together
from tf_fedsam.runs.callbacks.base import Callback
from tf_fedsam.runs.callbacks.checkpoints import Checkpoints
from tf_fedsam.runs.callbacks.patience import Patience
from tf_fedsam.runs.callbacks.progress import Progress
from tf_fedsam.runs.callbacks.stop_at import StopAt
from tf_fedsam.runs.callbacks.tensorboard import TensorBoard
from tf_fedsam.runs.callbacks.watch import Watch
from tf_fedsam.runs.config import FREE, ResolvedConfig
from tf_fedsam.runs.experiment import Experiment
from tf_fedsam.runs.folder import RunFolder, differences, wanted, without_nan
from tf_fedsam.runs.no_memory import is_no_memory
from tf_fedsam.state.checkpoint import load_latest
from tf_fedsam.state.files import write_atomically
from tf_fedsam.workers import naming_lost

SPLIT_CLIENTS = 200  # clients whose classes are counted in the config
CODE = ("versions", "source")  # what says in the config which code it was


class OutOfMemoryError(TellableError, RuntimeError):
    """There is not enough memory for the run; the message says what to lower."""


class OutputClosedError(TellableError, RuntimeError):
    """Whoever read what the run says has gone."""


class Say(Protocol):
    """Tells the user a sentence, and which of its words are names of settings."""

    def __call__(self, message: str, *settings: str) -> None: ...


class Training:
    """A run under way.

    Args:
        experiment: what is trained.
        folder: where everything is written.
        callbacks: of the user.
        say: tells the user something.
        show_progress: whether rounds are shown.
        command: how the run was started, for ``config.json``.

    Attributes:
        records: the log, one entry a round.
        saved_round: the newest round that was given to be saved.
        stopped: why a callback ended the run early, or ``""``.
        on_disk: whether client state is on the disk, and in memory only while it is needed.
        written_config: the content of ``config.json``.
    """

    def __init__(
        self,
        experiment: Experiment,
        folder: RunFolder,
        *,
        callbacks: Sequence[Callback] = (),
        say: Say,
        show_progress: bool = True,
        command: str = "",
    ):
        self.experiment = experiment
        self.folder = folder
        self.say = say
        self.records: list[dict[str, Any]] = []
        self.saved_round = 0
        self.stopped = ""
        self.on_disk = room.on_disk(experiment)
        self.written_config = make_config(experiment, command)
        self._hopeless: Exception | None = None
        config = experiment.config
        stop_at = [] if config.stop_at is None else [StopAt(config.stop_at)]
        patience = [] if config.patience is None else [Patience(config.patience)]
        self.team = experiment.process.engine.team
        self._deciding: list[Callback] = [*callbacks, *stop_at, *patience]
        self._checkpoints = Checkpoints()
        self._writing: list[Callback] = [
            *(TensorBoard(), self._checkpoints, Watch()),
            *([Progress()] if show_progress else []),
        ]
        if not self.team.is_chief:  # whose word counts, and who writes
            self._deciding, self._writing = [], [Watch()]

    @property
    def config(self) -> ResolvedConfig:
        return self.experiment.config

    def stop(self, reason: str) -> None:
        """Ends the run after this round, as a complete one.

        Args:
            reason: for the summary.
        """
        self.stopped = self.stopped or reason

    def give_up(self, error: Exception) -> None:
        """Ends the run after this round, saved, with an error."""
        self._hopeless = error

    def check(self) -> None:
        """Refuses a folder that holds something else, and exports that cannot be made."""
        forms.check_available(self.config.export_forms)
        self.folder.check(self.config.as_dict(), self.written_config["inputs"])

    def is_complete(self) -> bool:
        """Whether the folder holds all of this run already, as the run wrote it."""
        folder = self.folder
        if not (folder.config_exists() and folder.came_to_its_end(self.config.as_dict())):
            return False
        damaged = folder.damaged()
        if not damaged:
            return True
        what = f"Gone, or not as the run wrote it: {', '.join(damaged)} in {folder.path}."
        if folder.has_checkpoints():
            self.say(f"Note: {what}")
            return False
        self.say(
            f"Note: {what} There is no checkpoint to write it anew from. Do not use it; "
            f"restart=true trains again.\n",
            "restart=",
        )
        return True

    def results(self) -> dict[str, Any]:
        """The summary of a run that is complete.

        What it took to reach other targets than before is put into its ``summary.json``, if that
        can be written.
        """
        self.folder.check_log()
        self.records = self.folder.records()
        before = self.folder.summary()
        summary = self._summary(before.get("stopped"))
        if summary["targets"] != before.get("targets"):
            try:
                self.folder.write_summary(summary)
            except OSError as error:
                self.say(f"Note: {self.folder.summary_file} stays as it was: {error.strerror}.")
        return summary

    def run(self, restart: bool = False) -> bool:
        """Trains from the last checkpoint, if there is one; gives whether the run is complete.

        Args:
            restart: from round 1, and what the folder holds of the run is deleted.
        """
        state = self._restore(restart)
        if state.round_num == self.config.rounds:
            self.say("All rounds are there; writing the results anew from the last checkpoint.\n")
        self._begin(state, restart)
        state = self._train(state)
        if self._hopeless is not None:
            raise self._hopeless
        complete = bool(self.stopped) or self.saved_round >= self.config.rounds
        if complete and self.team.is_chief:
            with self._failures_told():
                self._finish(state)
        self.team.any(False)  # nobody leaves before the chief has written everything
        return complete

    def agree(self) -> None:
        """Refuses to begin with workers that differ."""
        weights = self.experiment.initialize().server["weights"]
        digest = hashlib.sha256(b"".join(w.numpy().tobytes() for w in weights)).hexdigest()[:16]
        together.agree(self.team, self.written_config, digest)

    def _restore(self, restart: bool) -> State:
        """The state to go on from: that of the chief."""
        states = [self.experiment.initialize()]

        def look() -> dict[str, Any]:
            states.append(states[0] if restart else self._read_folder(states[0]))
            return {"round_num": states[1].round_num, "positions": states[1].clients.positions}

        told = self.team.after_chief(look)
        self.saved_round = told["round_num"]
        return together.shared_state(self.team, states[-1], **told)

    def _read_folder(self, fresh: State) -> State:
        """The state that the folder holds, with the log up to there."""
        folder = self.folder
        found = None
        if folder.config_exists():
            found = load_latest(folder.checkpoints, fresh, self.say, on_disk=self.on_disk)
        if found is None:
            if folder.was_saved():
                raise InputError(
                    f"{folder.path} holds {len(folder.records())} rounds of this run, and its "
                    f"checkpoints are gone, so it cannot go on. Put {folder.checkpoints} back, "
                    f"choose another folder, or use restart=true, which deletes these rounds and "
                    f"begins again.",
                    "restart",
                )
            lost = len(folder.records())
            if lost:
                self.say(f"There is no checkpoint yet: round 1 to {lost} are trained again.\n")
            self.records = folder.cut_log(0)
            return fresh
        state, extra = found
        self.records = folder.cut_log(extra["log_bytes"], extra.get("log_sha256"))
        if len(self.records) != state.round_num:
            raise InputError(
                f"{folder.rounds_file} has {len(self.records)} rounds. Expected: the "
                f"{state.round_num} of the checkpoint. It was changed: put it back, or choose "
                f"another folder."
            )
        if state.round_num < self.config.rounds:
            self.say(f"Going on after round {state.round_num} of {self.config.rounds}.\n")
        self.saved_round = state.round_num
        return state

    def _begin(self, state: State, restart: bool) -> None:
        # Mistakes come out before anything is written or deleted.
        self.experiment.process.trace(state)
        if self.team.is_chief:
            if restart:
                self.folder.clear()
            self._begin_folder(state)

    def _begin_folder(self, state: State) -> None:
        self.folder.begin()
        if self.records:  # else nothing of what the folder says is of before
            self.written_config = self._resumed(state.round_num)
        self.folder.write_config(self.written_config)
        if not self.records:
            weights = self.experiment.process.get_model_weights(state).trainable
            export.save_weights(weights, self.folder.path / "initial_weights.npz")

    def _train(self, state: State) -> State:
        with self._failures_told(), self._callbacks():
            with interrupts.noted() as asked:
                while state.round_num < self.config.rounds and not self.team.any(
                    bool(asked.made or self.stopped or self._hopeless)
                ):
                    state = self._round(state)
            if self.team.is_chief:
                self._checkpoints.save()
        return state

    def _round(self, state: State) -> State:
        number = state.round_num + 1
        callbacks = [*self._deciding, *self._writing]
        for callback in callbacks:
            callback.on_round_begin(number)
        state, record = self.experiment.round(state)
        record = with_totals(without_nan(record), self.records)
        for callback in self._deciding:
            callback.on_round_end(number, record, state)
        self._agree_to_stop()
        if self.stopped and "test_accuracy" not in record:
            record |= self.experiment.test(state)
        if self.stopped and number < self.config.rounds:
            record |= self.experiment.probe(state)
        record = without_nan(record)
        if self.team.is_chief:
            self.folder.append(record)
        else:
            self.saved_round = number  # by the chief
        self.records.append(record)
        for callback in self._writing:
            callback.on_round_end(number, record, state)
        return state

    def _agree_to_stop(self) -> None:
        """What the chief's callbacks decided holds for all workers."""
        if self.team.count > 1 and self.team.any(bool(self.stopped)):
            self.stopped = self.team.messages(self.stopped)[0]

    @contextlib.contextmanager
    def _callbacks(self) -> Iterator[None]:
        """Begins all callbacks, and ends all that have begun, whatever happens."""
        with contextlib.ExitStack() as begun:
            for callback in [*self._deciding, *self._writing]:
                callback.set_training(self)
                callback.on_run_begin()
                begun.callback(callback.on_run_end)
            try:
                yield
            except KeyboardInterrupt:
                pass  # the second one: what was given to be saved counts
            except BrokenPipeError as error:
                self._checkpoints.save()
                raise OutputClosedError(
                    f"Nobody reads the output any more, so training stopped after round "
                    f"{self.saved_round} of {self.config.rounds}. Everything is saved: the same "
                    f"command, with its output to a file or a terminal, goes on from there."
                ) from error

    @contextlib.contextmanager
    def _failures_told(self) -> Iterator[None]:
        """A disk, a file or a worker that fails in the middle of training, in the user's words."""
        try:
            with naming_lost(self.team, lambda: _saved_words(self.saved_round)):
                yield
        except Exception as error:
            if is_no_memory(error):
                raise out_of_memory(self.saved_round) from error
            if isinstance(error, (OSError, InputError)):
                raise failure(error, self.saved_round) from error
            raise

    def _finish(self, state: State) -> None:
        """Exports the model; the summary comes last and makes the run complete."""
        process, path = self.experiment.process, self.folder.path
        wanted_forms, settings = self.config.export_forms, self.config
        weights = process.get_model_weights(state)
        export.save_weights(weights.trainable, path / forms.WEIGHTS)
        if process.reported(state) is not state:
            last = process.get_model_weights(state, last=True)
            export.save_weights(last.trainable, path / forms.LAST_WEIGHTS)
        export.remove_others(path, wanted_forms)
        export.save_model(
            process.get_model(state),
            self.experiment.dataset.preprocess,
            path,
            wanted_forms,
            name=forms.serving_name(settings.dataset, settings.algo),
            dtype=self.written_config["data"].get("dtype", "uint8"),
        )
        stopped = None
        if self.stopped:
            stopped = {"reason": self.stopped, "wanted": wanted(self.config.as_dict())}
        summary = self._summary(stopped)
        title = process.algorithm.title
        card = model_card.render(self.written_config, summary, title, wanted_forms)
        write_atomically(path / forms.CARD, card.encode("utf-8", "replace"))
        names = [forms.WEIGHTS, forms.NETWORK, *(form.file for form in wanted_forms)]
        names += [forms.LAST_WEIGHTS] * (path / forms.LAST_WEIGHTS).exists()
        self.folder.mark_exported(names, free=[forms.CARD])
        self.folder.write_summary(summary)

    def _summary(self, stopped: Any) -> dict[str, Any]:
        summary = summarise(self.records, self.config.target_accuracies)
        if self.experiment.privacy is not None:
            summary["privacy"] = self.experiment.privacy.words(summary["rounds"])
        return {**summary, "stopped": stopped} if stopped else summary

    def _resumed(self, round_num: int) -> dict[str, Any]:
        """The config of a run that goes on: as it began, with the settings of now."""
        before, config = self.folder.config(), self.written_config
        settings = before["settings"]
        changed = {
            name: [settings.get(name), value]
            for name, value in config["settings"].items()
            if name in FREE and settings.get(name) != value
        }
        now = {name: config[name] for name in ("command", "devices", "versions", "source")}
        note_differences(before, now, "The run began with other code or versions", self.say)
        entry = {"after_round": round_num, "changed_settings": changed, **now}
        return {
            **_filled(before, config),
            "settings": config["settings"],
            "resumes": [*before.get("resumes", []), entry],
        }


def _filled(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What ``before`` lacks is as now, but for the code that the run began with."""
    lacking = {name: value for name, value in now.items() if name not in (*before, *CODE)}
    inside = {
        name: _filled(value, now[name])
        for name, value in before.items()
        if name not in CODE and isinstance(value, dict) and isinstance(now.get(name), dict)
    }
    return {**before, **lacking, **inside}


def _saved_words(saved: int) -> str:
    return f"The checkpoint after round {saved} is intact. " if saved else ""


def out_of_memory(saved: int) -> "OutOfMemoryError":
    """What to lower."""
    good = (
        f"The checkpoint after round {saved} is intact" if saved else "There is no checkpoint yet"
    )
    return OutOfMemoryError(
        f"A device ran out of memory. {good}. Lower what is held at a time: "
        f"microbatch=N (the same gradients, in parts), devices=cpu:1 (one client at a time), "
        f"diagnostics=false (two models less a device), wave=N (client state of N clients at a "
        f"time), client_state=disk (what clients keep stays in the checkpoints), stream=always "
        f"(images stay in files), or participation. With devices, diagnostics, wave and "
        f"client_state the same run goes on; other settings need another output_dir.",
        *("microbatch=", "devices=", "diagnostics=", "wave=", "client_state=", "stream="),
        "participation",
        "output_dir",
    )


def failure(error: OSError | InputError, saved: int) -> OSError:
    """What to do after a disk or a file has failed."""
    if isinstance(error, InputError):
        what, fix = str(error).removesuffix("."), "put it right"
    else:
        what = f"Could not use {error.filename or 'the disk'}: {error.strerror or error}"
        fix = "make room or make the folder writable"
    good = (
        f"The checkpoint after round {saved} is intact: {fix}, then give the same command again, "
        f"which goes on from there"
        if saved
        else f"There is no checkpoint yet: {fix}, then start again"
    )
    return OSError(f"{what}. {good}.")


def compare_with_original(original: Mapping[str, Any], config: Mapping[str, Any], say: Say) -> None:
    """Refuses to repeat a run with other inputs; says what else may make the result differ."""
    different = differences(original["inputs"], config["inputs"])
    if different:
        raise InputError(
            f"The run cannot be repeated: what it read is not what is there now. Different "
            f"content: {'; '.join(different)}. Put back what it read."
        )
    note_differences(original, config, "The run was made with other code or versions", say)
    if any(r.get("devices") != original.get("devices") for r in original.get("resumes", [])):
        say("Note: the run changed its devices on the way; that is not repeated.")


def note_differences(
    before: Mapping[str, Any], now: Mapping[str, Any], what: str, say: Say
) -> None:
    """Says that the code is not the same, which need not be wrong."""
    old, new = ({k: v for n in CODE for k, v in c.get(n, {}).items()} for c in (before, now))
    if old != new:
        different = "; ".join(differences(old, new))
        say(f"Note: {what}, so the last bits may differ. {different}.\n")


def make_config(experiment: Experiment, command: str) -> dict[str, Any]:
    """Everything that was used, for ``config.json``."""
    config, dataset, process = experiment.config, experiment.dataset, experiment.process
    return {
        "command": command,
        "working_folder": os.getcwd(),
        "settings": config.as_dict(),
        "algorithm": process.algorithm.describe() | {"server_lr": process.algorithm.server_lr},
        "data": {
            "source": experiment.loaded.source,
            "train_examples": experiment.num_train,
            "test_examples": len(experiment.loaded.test),
            **({} if dataset.holdout is None else {"holdout_examples": len(dataset.holdout)}),
            "input_shape": list(dataset.input_shape),
            "dtype": str(dataset.train.x.dtype),
            "num_classes": dataset.num_classes,
            "class_names": list(experiment.loaded.class_names),
            "preprocess": vars(dataset.preprocess),
        },
        "partition": {
            "scheme": dataset.partition.scheme,
            "num_clients": dataset.num_clients,
            "with_replacement": dataset.partition.with_replacement,
            "fingerprint": dataset.partition.fingerprint(),
        },
        "split": {"class_counts": experiment.class_counts(SPLIT_CLIENTS).tolist()},
        "num_parameters": process.num_parameters,
        "devices": _devices(process.engine.strategy, process.engine.team.count),
        "inputs": provenance.fingerprints(config, dataset),
        "versions": provenance.versions(),
        "source": provenance.source(),
    }


def _devices(strategy: tf.distribute.Strategy, num_workers: int) -> list[str]:
    """The devices of all workers, which have as many each."""
    own = list(strategy.extended.worker_devices)
    if num_workers == 1:
        return own
    return [re.sub(r"task:\d+", f"task:{n}", name) for n in range(num_workers) for name in own]
