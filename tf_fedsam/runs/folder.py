"""The folder of a run, which is an interface: other tools read these files.

config.json           everything resolved: settings, versions, devices, split; how it was resumed
rounds.jsonl          one line a round, flushed at once
summary.json          the results, written last: a run that has it is complete
initial_weights.npz   arrays w0, w1, ... in the order of the model's trainable variables
final_weights.npz     the same after the last round, of the model that is reported
last_weights.npz      the same of the model that training goes on from, if that is another
network.keras         the global network for Keras, for normalised inputs
model.keras           the same for raw inputs
saved_model/          the global model for tf.saved_model.load; model.tflite, model.onnx and
                      serving/ if they were asked for
MODEL_CARD.md         what the model is, for people
events.out.tfevents.* event files of TensorBoard
checkpoints/          what a resumed run goes on from

The first runs have no network.keras, their model.keras takes normalised inputs, and their event
files are in tensorboard/. They stay complete, and go on as they began.
"""

import contextlib
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
from collections.abc import Collection, Mapping
from typing import Any

from tf_fedsam import paths
from tf_fedsam.errors import InputError
from tf_fedsam.runs.config import FREE, SETTINGS, of_role, with_defaults
from tf_fedsam.runs.settings import Role
from tf_fedsam.state.files import append_line, checksum, cut_back, write_atomically

LOCK_FILE = ".lock"
_HALF_WRITTEN = re.compile(
    r"\.(?:(?:config|summary)\.json|\.exported)\.[0-9a-f]{8}\.tmp"
    r"|\.new\.(?:(?:initial|final|last)_weights\.npz|(?:model|network)\.keras|saved_model|serving"
    r"|model\.(?:tflite|onnx))"
)
ENDING = tuple(name for name in of_role(Role.PROBLEM) if name in FREE)  # say when a run ends
FIRST_EXPORTS = ("final_weights.npz", "model.keras", "saved_model")  # of runs that name none
# Test examples that are dealt out to the clients are not what settings may be chosen by.
_FIRST_NAME, _NAME = "client_validation_accuracy", "client_test_accuracy"
EVENTS = "events.out.tfevents.*"
_LOG_CHECKSUM, _CHECKSUMS = "rounds.jsonl sha256", "sha256"  # beside the sizes of exports


class RunFolder:
    """Reads and writes the files of a run.

    Args:
        path: the folder; it need not exist.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.config_file = path / "config.json"
        self.rounds_file = path / "rounds.jsonl"
        self.summary_file = path / "summary.json"
        self.checkpoints = path / "checkpoints"
        self._final_weights = path / FIRST_EXPORTS[0]
        self._saved_mark = path / ".saved"
        self._exported_mark = path / ".exported"

    @property
    def tensorboard(self) -> pathlib.Path:
        """Where event files are: here, so that TensorBoard calls the run by its folder's name."""
        first = self.path / "tensorboard"  # of runs that began so
        return first if first.exists() else self.path

    def events(self) -> list[pathlib.Path]:
        """The event files there are."""
        return sorted(self.tensorboard.glob(EVENTS)) if self.tensorboard.is_dir() else []

    def check(self, settings: Mapping[str, Any], inputs: Mapping[str, str]) -> None:
        """Refuses a folder that holds something else, before anything is written.

        Args:
            settings: of the run that wants the folder.
            inputs: fingerprints of what the run reads.
        """
        try:
            os.fspath(self.path).encode()
        except UnicodeEncodeError:
            raise InputError(
                f"output_dir={os.fspath(self.path)!r} is not text in UTF-8, which TensorFlow asks "
                f"of names. Choose another name.",
                "output_dir",
            ) from None
        if self.path.exists() and not self.path.is_dir():
            raise InputError(
                f"output_dir={self.path} is a file. Expected: a folder. Choose another name.",
                "output_dir",
            )
        present = set(os.listdir(self.path)) - {LOCK_FILE} if self.path.exists() else set()
        if all(_HALF_WRITTEN.fullmatch(name) for name in present):  # killed at its very first file
            return
        if not self.config_file.exists():
            raise InputError(
                f"output_dir={self.path} holds files that are not of a run: "
                f"{', '.join(sorted(present)[:5])}. Choose another folder.",
                "output_dir",
            )
        there = self.config()
        now = json.loads(json.dumps(settings))
        different = differences(with_defaults(there["settings"]), now, FREE)
        if different:
            chosen = _chosen(there["settings"], now)
            pinned = f" To go on with other rounds, give {chosen[0][1]}." if chosen else ""
            raise InputError(
                f"output_dir={self.path} holds another run. Different settings: "
                f"{'; '.join(different)}. Choose another folder, or the same settings to resume."
                f"{pinned}",
                *("output_dir", *(name for name, _ in chosen)),
            )
        changed = differences(there["inputs"], inputs)
        if changed and (self.records() or self.was_saved()):  # else it ended before its first round
            raise InputError(
                f"output_dir={self.path} holds a run that read something else. Different "
                f"content: {'; '.join(changed)}. Put back what it read, or choose another folder.",
                "output_dir",
            )
        done = len(self.records())
        if now["rounds"] < done:
            raise InputError(
                f"output_dir={self.path} holds {done} rounds of this run. Received: "
                f"rounds={now['rounds']}. Expected: at least {done}.",
                *("output_dir", "rounds="),
            )

    def config_exists(self) -> bool:
        return self.config_file.exists()

    def config(self) -> dict[str, Any]:
        return read_config(self.config_file)

    def write_config(self, config: Mapping[str, Any]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        _write_json(self.config_file, config)

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds a round to the log; a checkpoint makes sure that it is on the disk."""
        append_line(self.rounds_file, json.dumps(record, allow_nan=False), sync=False)

    def records(self) -> list[dict[str, Any]]:
        """The rounds of the log; a last line that was cut off by a crash is left out."""
        if not self.rounds_file.exists():
            return []
        lines = paths.regular(self.rounds_file).read_bytes().split(b"\n")[:-1]
        try:
            records = [with_new_names(json.loads(line)) for line in lines]
            rounds = [record["round"] for record in records]
            if rounds != list(range(1, len(rounds) + 1)):
                raise ValueError(f"its rounds are not 1 to {len(rounds)}, each once")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"{self.rounds_file} is not a log of rounds: {error}. It was changed: put it back, "
                f"or choose another folder."
            ) from None
        return records

    def cut_log(self, num_bytes: int, sha256: str | None = None) -> list[dict[str, Any]]:
        """Cuts the log back to what it was at a checkpoint; returns its rounds."""
        cut_back(self.rounds_file, num_bytes, sha256)
        return self.records()

    def is_complete(self, settings: Mapping[str, Any]) -> bool:
        """Whether the results of a run with these settings are all there.

        What is exported is not read; ``damaged`` does that.
        """
        return self.came_to_its_end(settings) and not self._lacking()

    def came_to_its_end(self, settings: Mapping[str, Any]) -> bool:
        """Whether a run with these settings was complete, whatever became of its exports.

        It has all its rounds, or was stopped as they say.
        """
        summary = self.summary()
        stopped = summary.get("stopped") or {}
        whole = summary.get("rounds") == settings.get("rounds")
        return whole or stopped_as_wanted(stopped, settings)

    def exports(self) -> dict[str, int | None]:
        """What the run exported, with its size if it must stay as it is."""
        marked = _read_mapping(self._exported_mark)
        sizes = {n: size for n, size in marked.items() if n not in (_LOG_CHECKSUM, _CHECKSUMS)}
        return sizes or dict.fromkeys(FIRST_EXPORTS)

    def damaged(self) -> list[str]:
        """What is gone or not as the run wrote it; the first runs do not know their contents.

        All of it is read, so this takes longer than to ask whether a run is complete.
        """
        written = _read_mapping(self._exported_mark).get(_CHECKSUMS, {})
        changed = [name for name, digest in written.items() if checksum(self.path / name) != digest]
        return list(dict.fromkeys([*self._lacking(), *changed]))

    def _lacking(self) -> list[str]:
        """What the run wrote that is gone or has another size."""
        drawn = bool(self.events()) or self.tensorboard != self.path
        lacking = [name for name, size in self.exports().items() if not self._is_whole(name, size)]
        return lacking if drawn else [*lacking, EVENTS]

    def _is_whole(self, name: str, size: int | None) -> bool:
        return (self.path / name).exists() and size in (None, self.size(name))

    def mark_exported(self, names: Collection[str], free: Collection[str] = ()) -> None:
        """Remembers what the exports and the log are, so that a change is noticed.

        Args:
            names: files and folders.
            free: files that may be changed.
        """
        self._mark({}, names, free)

    def mark_more_exported(self, names: Collection[str]) -> None:
        """Remembers what some exports of a complete run are, and still how the others were."""
        marked = _read_mapping(self._exported_mark)
        self._mark({**dict.fromkeys(self.exports()), **marked}, names, ())

    def _mark(
        self, before: Mapping[str, Any], names: Collection[str], free: Collection[str]
    ) -> None:
        sizes: dict[str, int | None] = {name: self.size(name) for name in names}
        digests = {name: checksum(self.path / name) for name in names}
        _write_json(
            self._exported_mark,
            {
                _LOG_CHECKSUM: self._log_checksum(),
                **before,
                **sizes,
                **dict.fromkeys(free),
                _CHECKSUMS: {**before.get(_CHECKSUMS, {}), **digests},
            },
        )

    def check_log(self) -> None:
        """Refuses a log that is not what it was when the run was complete."""
        written = _read_mapping(self._exported_mark).get(_LOG_CHECKSUM)
        rounds, received = self.summary().get("rounds"), len(self.records())
        if received != rounds:
            raise InputError(
                f"{self.rounds_file} has {received} rounds. Expected: the {rounds} of "
                f"{self.summary_file.name}. It was changed: put it back, or choose another folder."
            )
        if written is not None and written != self._log_checksum():
            raise InputError(
                f"{self.rounds_file} has another content than when the run was complete. It was "
                f"changed: put it back, or choose another folder."
            )

    def _log_checksum(self) -> str:
        return hashlib.sha256(self.rounds_file.read_bytes()).hexdigest()

    def size(self, name: str) -> int:
        """Bytes of a file of the run, or of all files of a folder."""
        path = self.path / name
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())

    def summary(self) -> dict[str, Any]:
        """The results, or nothing if there are none that can be read."""
        return _read_mapping(self.summary_file)

    def begin(self) -> None:
        """Takes the mark of a complete run away, before anything of it is changed.

        What a kill left half written beside its name goes, too.
        """
        with contextlib.suppress(FileNotFoundError):
            self.summary_file.unlink()
        for name in os.listdir(self.path):
            if _HALF_WRITTEN.fullmatch(name):
                path = self.path / name
                with contextlib.suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def mark_saved(self) -> None:
        """Remembers that there is a checkpoint, which somebody might delete."""
        self._saved_mark.touch()

    def was_saved(self) -> bool:
        """Whether there was a checkpoint once; results are written after the last one."""
        marks = (self._saved_mark, self.summary_file, self._final_weights)
        return any(path.exists() for path in marks)

    def has_checkpoints(self) -> bool:
        """Whether there is one now, intact or not."""
        from tf_fedsam.state.checkpoint.format import manifest_numbers  # loads TensorFlow

        return bool(manifest_numbers(self.checkpoints))

    def clear(self) -> None:
        """Deletes what there is of the run; killed in between, it can still be begun again."""
        for path in (self.summary_file, self._final_weights, self._saved_mark):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        self.rounds_file.unlink(missing_ok=True)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        _write_json(self.summary_file, summary)


def read_config_of(path: str | os.PathLike) -> dict[str, Any]:
    """The content of a ``config.json``, or of the one in a run folder."""
    path = paths.expanded(path)
    return read_config(path / "config.json" if path.is_dir() else path)


def wanted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What decides when a run ends, for its summary."""
    return {name: settings.get(name) for name in ENDING}


def stopped_as_wanted(stopped: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether a run that stopped early was to end as these settings say.

    Args:
        stopped: of its summary; what it does not name was not given.
        settings: of the run.
    """
    there = stopped.get("wanted")
    return isinstance(there, dict) and wanted(there) == wanted(settings)


def read_config(path: pathlib.Path) -> dict[str, Any]:
    """The content of a ``config.json``, with ``settings`` and ``inputs`` in it.

    Other parts may be missing, but are of the right kind.
    """
    try:
        config = json.loads(paths.regular(path).read_text())
        for name in ("settings", "inputs", "versions", "source"):
            needed = name in ("settings", "inputs")
            if not isinstance(config.get(name, None if needed else {}), dict):
                raise ValueError(f"no {name} in it")
        resumes = config.get("resumes", [])
        if not isinstance(resumes, list) or not all(isinstance(r, dict) for r in resumes):
            raise ValueError("no list of resumes in it")
    except InputError:
        raise
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(
            f"{path} could not be read: {reason}. Expected: the config.json of a run. Choose "
            f"another file or folder."
        ) from None
    return config


def differences(
    there: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str] = ()
) -> list[str]:
    """In words, what is not the same."""
    return [
        f"{name}: {there.get(name)!r} there, {now.get(name)!r} now"
        for name in sorted({*there, *now} - set(free))
        if there.get(name) != now.get(name)
    ]


def _chosen(there: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Settings whose value was chosen to suit another one that has changed, with how they were."""
    return [
        (f"{name}=", f"{name}={there[name]}")
        for name, setting in SETTINGS.items()
        if setting.follows and there.get(setting.follows) != now.get(setting.follows)
        if there.get(name) is not None and there[name] != now.get(name)
    ]


def with_new_names(record: Mapping[str, Any]) -> dict[str, Any]:
    """A round whose numbers are called as now; version 0.1 had other names for some."""
    if f"{_FIRST_NAME}_mean" not in record:
        return dict(record)
    return {name.replace(_FIRST_NAME, _NAME, 1): value for name, value in record.items()}


def without_nan(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with ``None`` for numbers that are not finite, which JSON cannot hold."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in record.items()
    }


def _read_mapping(path: pathlib.Path) -> dict[str, Any]:
    """The mapping of a JSON file; empty if there is none that can be read."""
    try:
        content = json.loads(paths.regular(path).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_json(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())
