"""The folder of a run, which is an interface: other tools read these files.

config.json           everything resolved: settings, versions, devices, split; how it was resumed
rounds.jsonl          one line a round, flushed at once
summary.json          the results, written last: a run that has it is complete
initial_weights.npz   arrays w0, w1, ... in the order of the model's trainable variables
final_weights.npz     the same after the last round
model.keras           the global model for Keras
saved_model/          the global model for tf.saved_model.load
tensorboard/          event files
checkpoints/          what a resumed run goes on from
"""

import contextlib
import json
import math
import os
import pathlib
import re
from collections.abc import Collection, Mapping
from typing import Any

from tf_fedsam.errors import InputError
from tf_fedsam.state.files import append_line, cut_back, write_atomically

LOCK_FILE = ".lock"
_HALF_WRITTEN = re.compile(r"\.(?:config|summary)\.json\.[0-9a-f]{8}\.tmp")
RESULTS = ("final_weights.npz", "model.keras", "saved_model", "tensorboard", "summary.json")


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
        self.tensorboard = path / "tensorboard"

    def check(
        self, settings: Mapping[str, Any], free: Collection[str], inputs: Mapping[str, str]
    ) -> None:
        """Refuses a folder that holds something else, before anything is written.

        Args:
            settings: of the run that wants the folder.
            free: names of settings in which a resumed run may differ from what is there.
            inputs: fingerprints of what the run reads.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InputError(
                f"--output_dir={self.path} is a file. Expected: a folder. Choose another name."
            )
        present = set(os.listdir(self.path)) - {LOCK_FILE} if self.path.exists() else set()
        if all(_HALF_WRITTEN.fullmatch(name) for name in present):  # killed at its very first file
            return
        if not self.config_file.exists():
            raise InputError(
                f"--output_dir={self.path} holds files that are not of a run: "
                f"{', '.join(sorted(present)[:5])}. Choose another folder."
            )
        there = self.config()
        now = json.loads(json.dumps(settings))
        different = differences(there["settings"], now, free)
        if different:
            raise InputError(
                f"--output_dir={self.path} holds another run. Different settings: "
                f"{'; '.join(different)}. Choose another folder, or the same settings to resume."
            )
        changed = differences(there["inputs"], inputs)
        if changed:
            raise InputError(
                f"--output_dir={self.path} holds a run that read something else. Different "
                f"content: {'; '.join(changed)}. Put back what it read, or choose another folder."
            )
        done = len(self.records())
        if now["rounds"] < done:
            raise InputError(
                f"--output_dir={self.path} holds {done} rounds of this run. Received: "
                f"--rounds={now['rounds']}. Expected: at least {done}."
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
        lines = self.rounds_file.read_bytes().split(b"\n")[:-1]
        try:
            records = [json.loads(line) for line in lines]
            rounds = [record["round"] for record in records]
            if rounds != list(range(1, len(rounds) + 1)):
                raise ValueError(f"its rounds are not 1 to {len(rounds)}, each once")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"{self.rounds_file} is not a log of rounds: {error}. It was changed: put it back, "
                f"or choose another folder."
            ) from None
        return records

    def cut_log(self, num_bytes: int) -> list[dict[str, Any]]:
        """Cuts the log back to the size it had at a checkpoint; returns its rounds."""
        if self.rounds_file.exists() or num_bytes:
            cut_back(self.rounds_file, num_bytes)
        return self.records()

    def log_bytes(self) -> int:
        return self.rounds_file.stat().st_size if self.rounds_file.exists() else 0

    def is_complete(self, rounds: int) -> bool:
        """Whether the results after so many rounds are all there."""
        right = self.summary().get("rounds") == rounds
        return right and all((self.path / name).exists() for name in RESULTS)

    def summary(self) -> dict[str, Any]:
        """The results, or nothing if there are none that can be read."""
        try:
            summary = json.loads(self.summary_file.read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        return summary if isinstance(summary, dict) else {}

    def begin(self) -> None:
        """Takes the mark of a complete run away, before anything of it is changed.

        What a kill left half written beside its name goes, too.
        """
        with contextlib.suppress(FileNotFoundError):
            self.summary_file.unlink()
        for name in os.listdir(self.path):
            if _HALF_WRITTEN.fullmatch(name):
                with contextlib.suppress(OSError):
                    (self.path / name).unlink()

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        _write_json(self.summary_file, summary)


def read_config(path: pathlib.Path) -> dict[str, Any]:
    """The content of a ``config.json``, with ``settings`` and ``inputs`` in it.

    Other parts may be missing, but are of the right kind.
    """
    try:
        config = json.loads(path.read_text())
        for name in ("settings", "inputs", "versions", "source"):
            needed = name in ("settings", "inputs")
            if not isinstance(config.get(name, None if needed else {}), dict):
                raise ValueError(f"no {name} in it")
        resumes = config.get("resumes", [])
        if not isinstance(resumes, list) or not all(isinstance(r, dict) for r in resumes):
            raise ValueError("no list of resumes in it")
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


def without_nan(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with ``None`` for numbers that are not finite, which JSON cannot hold."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in record.items()
    }


def _write_json(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())
