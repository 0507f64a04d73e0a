"""The folder of a run, which is an interface: other tools read these files.

config.json           everything resolved: settings, versions, devices, split
rounds.jsonl          one line a round, flushed at once
summary.json          the results, written at the end
initial_weights.npz   arrays w0, w1, ... in the order of the model's trainable variables
final_weights.npz     the same after the last round
model.keras           the global model for Keras
saved_model/          the global model for tf.saved_model.load
tensorboard/          event files
checkpoints/          what a resumed run goes on from
"""

import json
import os
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from tf_fedsam.errors import InputError
from tf_fedsam.state.files import append_line, cut_back, write_atomically

LOCK_FILE = ".lock"


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

    def check(self, settings: Mapping[str, Any], free: Collection[str]) -> None:
        """Refuses a folder that holds something else, before anything is written.

        Args:
            settings: of the run that wants the folder.
            free: names of settings in which a resumed run may differ from what is there.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InputError(
                f"--output_dir={self.path} is a file. Expected: a folder. Choose another name."
            )
        present = set(os.listdir(self.path)) - {LOCK_FILE} if self.path.exists() else set()
        if not present:
            return
        if not self.config_file.exists():
            raise InputError(
                f"--output_dir={self.path} holds files that are not of a run: "
                f"{', '.join(sorted(present)[:5])}. Choose another folder."
            )
        there = self.config()["settings"]
        now = json.loads(json.dumps(settings))
        different = [
            f"{name}: {there.get(name)!r} there, {now.get(name)!r} now"
            for name in sorted({*there, *now} - set(free))
            if there.get(name) != now.get(name)
        ]
        if different:
            raise InputError(
                f"--output_dir={self.path} holds another run. Different settings: "
                f"{'; '.join(different)}. Choose another folder, or the same settings to resume."
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
        try:
            config = json.loads(self.config_file.read_text())
            if not isinstance(config.get("settings"), dict):
                raise ValueError("no settings in it")
        except (OSError, ValueError, AttributeError) as error:
            raise InputError(
                f"{self.config_file} could not be read: {error}. Expected: the settings of a run. "
                f"Choose another --output_dir."
            ) from None
        return config

    def write_config(self, config: Mapping[str, Any]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        _write_json(self.config_file, config)

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds a round to the log; a checkpoint makes sure that it is on the disk."""
        append_line(self.rounds_file, json.dumps(record), sync=False)

    def records(self) -> list[dict[str, Any]]:
        """The rounds of the log; a last line that was cut off by a crash is left out."""
        if not self.rounds_file.exists():
            return []
        lines = self.rounds_file.read_bytes().split(b"\n")[:-1]
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise InputError(f"{self.rounds_file} is not a log of rounds: {error}.") from None

    def cut_log(self, num_bytes: int) -> list[dict[str, Any]]:
        """Cuts the log back to the size it had at a checkpoint; returns its rounds."""
        if self.rounds_file.exists() or num_bytes:
            cut_back(self.rounds_file, num_bytes)
        return self.records()

    def log_bytes(self) -> int:
        return self.rounds_file.stat().st_size if self.rounds_file.exists() else 0

    def summary(self) -> dict[str, Any] | None:
        return json.loads(self.summary_file.read_text()) if self.summary_file.exists() else None

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        _write_json(self.summary_file, summary)


def _write_json(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
