"""The results of a sweep: a row for each setting, over its seeds."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from launch import terminal
from launch.sweep_cells import Cell, short

CHOSEN_BY = "mean_last_10_test_accuracy"
COLUMNS = {
    "test_accuracy": "last",
    "best_test_accuracy": "best",
    CHOSEN_BY: "mean of last 10",
}
# What makes another problem or another method, so that the best over it means nothing.
NOT_TUNED = (
    *("data_file", "data_dir", "subset", "image_size", "client_noise", "category_noise"),
    *("partition", "num_clients", "alpha", "replacement", "size_sigma", "classes_per_client"),
    *("shards_per_client", "participation", "sampling", "client_schedule", "dropout_rate"),
    *("step_fraction_min", "model", "hidden_units", "trainable", "precision", "norm_state"),
    *("init_weights", "rounds", "relaxed_init", "nesterov"),
)
MAX_ROWS = 60


@dataclasses.dataclass
class Row:
    """Cells that differ only in the seed.

    Attributes:
        cells: all of them.
        summaries: of those that are complete.
        best: whether no other setting of its algorithm on the same problem did better.
        alone: there is no other setting to choose from.
    """

    cells: list[Cell]
    summaries: list[Mapping[str, Any]]
    best: bool = False
    alone: bool = True

    @property
    def key(self) -> tuple[Any, ...]:
        """Algorithm and problem."""
        cell = self.cells[0]
        problem = {
            name: value
            for name, value in cell.varied.items()
            if name in NOT_TUNED or name.startswith("model_options.")
        }
        return cell.algo, cell.dataset, repr(sorted(problem.items()))

    def mean(self, name: str) -> float:
        return statistics.fmean(summary[name] for summary in self.summaries)


def rows(cells: Sequence[Cell]) -> list[Row]:
    """The settings in the order of the cells, with the best of each algorithm marked.

    A setting of which some seed has no result is not chosen.
    """
    found: dict[str, Row] = {}
    for cell in cells:
        key = repr((cell.algo, cell.dataset, sorted(cell.varied.items())))
        row = found.setdefault(key, Row([], []))
        row.cells.append(cell)
        if cell.is_complete():
            row.summaries.append(cell.run.summary())
    rivals: dict[tuple, list[Row]] = {}
    for row in found.values():
        rivals.setdefault(row.key, []).append(row)
    for group in rivals.values():
        whole = [row for row in group if len(row.summaries) == len(row.cells)]
        for row in group:
            row.alone = len(group) == 1
        if len(group) > 1 and whole:
            max(whole, key=lambda row: row.mean(CHOSEN_BY)).best = True
    return list(found.values())


def table(cells: Sequence[Cell]) -> str:
    """What the sweep found, in per cent of test accuracy."""
    settings = rows(cells)
    shown = settings
    if len(shown) > MAX_ROWS:
        shown = [row for row in settings if row.best or row.alone]
    names = list(dict.fromkeys(name for cell in cells for name in cell.varied))
    targets = list(
        dict.fromkeys(t for row in shown for s in row.summaries for t in s.get("targets") or {})
    )
    header = ["algo", "dataset", *map(short, names), "seeds", *COLUMNS.values()]
    header += [f"rounds to {float(target):.4g}" for target in targets]
    lines = []
    for row in shown:
        cell = row.cells[0]
        number = f"{len(row.summaries)}"
        if len(row.summaries) < len(row.cells):
            number += f" of {len(row.cells)}"
        line = [f"{cell.algo}{' *' if row.best else ''}", cell.dataset]
        line += [_value(cell.varied.get(name, "")) for name in names]
        line += [number, *(_percent([s[c] for s in row.summaries]) for c in COLUMNS)]
        line += [_rounds(row.summaries, target) for target in targets]
        lines.append(line)
    notes = ["Test accuracy in %, of one seed."]
    if any(len(row.summaries) > 1 for row in shown):
        notes = ["Test accuracy in %; mean ± standard deviation over seeds (of a sample: n - 1)."]
    if any(row.best for row in shown):
        notes += [
            "* the best of its algorithm by the mean over seeds of the last 10 tests. It was",
            "  chosen on test accuracy, so its numbers are better than fresh ones would be: for a",
            "  claim, run it again with seeds that had no part in the choice.",
        ]
    if len(shown) < len(settings):
        notes.append(f"Shown are the best; launch.report has all {len(settings)} settings.")
    return "\n".join([terminal.grid(header, lines), "", *notes])


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _percent(values: Sequence[float]) -> str:
    if not values:
        return "-"
    text = f"{100 * statistics.fmean(values):.2f}"
    return text if len(values) == 1 else f"{text} ± {100 * statistics.stdev(values):.2f}"


def _rounds(summaries: Sequence[Mapping[str, Any]], target: str) -> str:
    """Rounds to a target over the seeds that reached it."""
    costs = [(summary.get("targets") or {}).get(target) for summary in summaries]
    reached = [cost["round"] for cost in costs if cost is not None]
    if not reached:
        return "never" if summaries else "-"
    text = f"{statistics.fmean(reached):.4g}"
    if len(reached) > 1:
        text += f" ± {statistics.stdev(reached):.2g}"
    return text if len(reached) == len(costs) else f"{text} ({len(reached)} of {len(costs)})"
