"""What it took runs to reach a test accuracy, by one rule for everything that tells it.

    costs = [results.cost_to(run.records, 0.8) for run in runs]
    reached_words(reached(costs, rounds=100))       # "41 ± 3.2", "by 2 of 3" or ">100"

A mean is given only if all runs reached the target: a mean over those that did would favour series
of which few do.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tf_fedsam.analysis import results
from tf_fedsam.comparison import words
from tf_fedsam.comparison.statistics import Spread, spread
from tf_fedsam.errors import InputError

DOWN_AND_UP = ("bytes", "vectors")  # costs that are told of both ways together
_STEP = 0.05


@dataclasses.dataclass(frozen=True)
class Reached:
    """What it took some runs to reach a target.

    Attributes:
        num_reached: runs that did.
        n: runs there are.
        rounds: that every one of them had.
        costs: ``round``, ``bytes``, ``vectors`` and every cost of the log; empty unless all runs
            reached it.
    """

    num_reached: int
    n: int
    rounds: int
    costs: Mapping[str, Spread]


def reached(costs: Sequence[Mapping[str, Any] | None], rounds: int) -> Reached:
    """What some runs of a series say together.

    Args:
        costs: of each run, as ``results.cost_to`` or the ``targets`` of a summary have them;
            ``None`` for a run that did not reach the target.
        rounds: the fewest that one of the runs had.
    """
    there = [cost for cost in costs if cost is not None]
    if len(there) < len(costs):
        return Reached(len(there), len(costs), rounds, {})
    columns: dict[str, Spread] = {}
    for name in ("round", *DOWN_AND_UP, *results.COSTS):
        one = spread(total(cost, name) for cost in there)
        if one is not None and one.mean > 0:  # logs without a cost have zeros
            columns[name] = one
    return Reached(len(there), len(costs), rounds, columns)


def total(costs: Mapping[str, Any], name: str) -> float:
    """One of the costs; bytes and vectors down and up together."""
    if name in DOWN_AND_UP:
        return costs.get(f"{name}_down", 0) + costs.get(f"{name}_up", 0)
    return costs.get(name, 0)


def reached_words(found: Reached, cost: str = "round", unit: float = 1.0) -> str:
    """A cost to the target: its mean ± standard deviation, or how many runs got there.

    Args:
        found: of the runs.
        cost: which.
        unit: of the numbers, such as 1e6 for bytes as MB.
    """
    if cost in found.costs:
        return words.plus_minus(found.costs[cost].in_units_of(unit))
    if not found.n:
        return "-"
    if found.num_reached == found.n:
        return "not logged"
    if found.num_reached:
        return f"by {found.num_reached} of {found.n}"
    return f">{found.rounds}" if cost == "round" else "-"


def common_target(best: Iterable[float]) -> float | None:
    """The highest multiple of 5 % that every one of these accuracies is; ``None`` if it is 0."""
    steps = math.floor(min(best, default=0.0) / _STEP + 1e-9)
    return round(steps * _STEP, 2) if steps else None


def check_targets(targets: Iterable[float]) -> tuple[float, ...]:
    """Test accuracies in order, each once."""
    found = tuple(targets)
    if not all(isinstance(target, (int, float)) and 0 < target <= 1 for target in found):
        raise InputError(
            f"targets must be test accuracies in (0, 1], such as [0.7, 0.8]. Received: {found}.",
            "targets",
        )
    return tuple(sorted(set(found)))
