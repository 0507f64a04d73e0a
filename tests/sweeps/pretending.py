"""Sweeps without training: cells from Python, processes that only write what a run leaves."""

import json
import pathlib

import tasks  # noqa: F401  makes the data sets known
from tf_fedsam.analysis import results
from tf_fedsam.runs.config import ResolvedConfig, RunConfig
from tf_fedsam.sweeps import cells as making
from tf_fedsam.sweeps import runner
from tf_fedsam.sweeps.description import axes_of_texts, describe

COSTS = dict.fromkeys(results.COSTS, 1)


def cells_of(tmp_path, source=None, *, grid=(), **options):
    """The cells of a sweep, and how many were the same as another."""
    options = {"out": str(tmp_path / "out"), **options}
    return making.make(describe(source, grid=axes_of_texts(grid), **options))


def names(tmp_path, *args, **options):
    return [cell.name for cell in cells_of(tmp_path, *args, **options)[0]]


def yaml_file(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return str(path)


def reached(round_num):
    """What it took to reach a target in this round."""
    return {"round": round_num, **COSTS}


def complete(
    folder: pathlib.Path, config: ResolvedConfig, accuracy=0.5, targets=None, rounds=None
) -> None:
    """Writes what a complete run leaves; it stopped early if it has other ``rounds``."""
    (folder / "saved_model").mkdir(parents=True, exist_ok=True)
    for name in ("final_weights.npz", "model.keras", "events.out.tfevents.0"):
        (folder / name).touch()
    written = {"settings": config.as_dict(), "inputs": {}}
    (folder / "config.json").write_text(json.dumps(written))
    number = rounds or config.rounds
    lines = [{"round": r + 1, "test_accuracy": accuracy} | COSTS for r in range(number)]
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = {
        "rounds": number,
        "test_accuracy": accuracy,
        "best_test_accuracy": accuracy + 0.1,
        "mean_last_10_test_accuracy": accuracy - 0.1,
        "targets": targets or {},
    }
    if rounds is not None:
        wanted = {"rounds": config.rounds, "stop_at": config.stop_at}
        summary["stopped"] = {"reason": "a test", "wanted": wanted}
    (folder / "summary.json").write_text(json.dumps(summary))


def finished(tmp_path, accuracies, targets=None, fixed=None, **options):
    """Cells of 20 rounds with chosen accuracies; ``None``: not run."""
    cells, _ = cells_of(tmp_path, fixed={"rounds": 20, **(fixed or {})}, **options)
    for index, (cell, accuracy) in enumerate(zip(cells, accuracies, strict=True)):
        if accuracy is not None:
            told = None if targets is None else {"0.7": targets[index]}
            complete(cell.run.path, cell.resolved, accuracy, told)
    return cells


class Ended:
    """A process that has ended."""

    def __init__(self, code):
        self._code = code

    def poll(self):
        return self._code

    def send_signal(self, sig):
        raise ProcessLookupError

    def kill(self):
        pass


def of_python(args):
    """The folder and the config of a cell that ``tf_fedsam.sweep`` starts."""
    assert args[:2] == ("-m", "tf_fedsam.runs")
    return pathlib.Path(args[3]), RunConfig.from_values(json.loads(args[2])).resolve()


class Pretended:
    """Processes that only write.

    Args:
        of_args: gives folder and config of a cell from its process's arguments.
        codes: the exit codes of some cells, one an attempt.
        polls: how often a process is still running when it is looked at.
        write: what a process that ends well does.
    """

    def __init__(self, of_args=of_python, codes=None, polls=0, write=complete):
        self.of_args, self.polls, self.write = of_args, polls, write
        self.codes = {name: list(found) for name, found in (codes or {}).items()}
        self.started, self.environments, self.most, self._open = [], [], 0, 0

    def start(self, args, log, environment):
        folder, config = self.of_args(args)
        self.started.append(folder.name)
        self.environments.append(environment)
        self._open += 1
        self.most = max(self.most, self._open)
        left = self.codes.get(folder.name, [])
        code = left.pop(0) if left else 0
        if code:
            with log.open("a") as file:
                print(f"first line\nerror: {folder.name} went wrong", file=file)
        else:
            self.write(folder, config)
        return self._process(code)

    def _process(self, code):
        process, polls = Ended(code), iter(range(self.polls))

        def poll():
            if next(polls, None) is not None:
                return None
            self._open -= 1
            return code

        process.poll = poll
        return process


def install(monkeypatch, **options) -> Pretended:
    """Lets sweeps start processes that only write."""
    pretended = Pretended(**options)
    monkeypatch.setattr(runner, "start", pretended.start)
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(runner, "LOOK_SECONDS", 0.01)
    return pretended
