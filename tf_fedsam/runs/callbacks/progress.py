"""Shows a user how far a run is."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

from tf_fedsam import text
from tf_fedsam.runs.callbacks.base import Callback

COMPILING = "compiling the round ..."
ACCURACIES = {"accuracy": "test_accuracy", "held out": "validation_accuracy"}


class Progress(Callback):
    """A bar on a terminal and in a notebook, else a line a round."""

    def on_run_begin(self):
        self._bar: Any = None
        self._accuracies: dict[str, str] = {}  # of the last test
        self._ends: list[float] = []  # of rounds, in seconds
        if sys.stdout.isatty() or in_notebook():
            self._bar = tqdm(
                total=self.training.config.rounds,
                initial=len(self.training.records),
                unit="round",
                dynamic_ncols=True,
                file=sys.stdout,
            )

    def on_round_begin(self, round):
        if self._ends:
            return
        if self._bar is None:
            text.say(COMPILING)
        else:
            self._bar.set_description_str(COMPILING)

    def on_round_end(self, round, record, state):
        fields = self._fields(record)
        self._ends.append(time.monotonic())
        if self._bar is not None:
            self._bar.set_description_str("", refresh=False)
            self._bar.set_postfix(fields, refresh=False)
            self._bar.update()
            return
        words = "  ".join(f"{name} {value}" for name, value in fields.items())
        total = self.training.config.rounds
        to_go = self._to_go(total - round)
        text.say(f"round {round:>4}/{total}  {words}  {record['seconds']:.2f} s{to_go}")

    def _to_go(self, rounds: int) -> str:
        """How long the rest takes, if it goes on as since the first round, which was compiled."""
        if rounds == 0 or len(self._ends) < 2:
            return ""
        mean = (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)
        return f"  {text.duration(mean * rounds)} to go"

    def on_run_end(self):
        if self._bar is not None:
            self._bar.close()

    def _fields(self, record: Mapping[str, Any]) -> dict[str, str]:
        for word, name in ACCURACIES.items():
            if record.get(name) is not None:
                self._accuracies[word] = f"{record[name]:.2%}"
        loss = record["train_loss"]
        return {"loss": "none" if loss is None else f"{loss:.4f}", **self._accuracies}


def in_notebook() -> bool:
    """Whether the code runs in Jupyter's kernel."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and "ZMQ" in type(running).__name__
