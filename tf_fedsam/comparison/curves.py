"""Numbers of the log over the rounds, or over what was spent until then."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tf_fedsam.comparison import targets
from tf_fedsam.comparison.compared_run import ComparedRun
from tf_fedsam.comparison.values import number


@dataclasses.dataclass(frozen=True)
class Curve:
    """Mean and standard deviation over seeds, where every seed has a value.

    Attributes:
        x: rounds, or the mean cost up to them.
        std: ``None`` of a single seed.
    """

    x: np.ndarray
    mean: np.ndarray
    std: np.ndarray | None


def curve(runs: Sequence[ComparedRun], name: str, over: str = "round") -> Curve | None:
    """A number of the log over the rounds, or over what was spent until then.

    Args:
        runs: of a series.
        name: of the number.
        over: ``round``, ``bytes``, ``vectors`` (both down and up together), or a single cost.
    """
    values = [
        {r["round"]: v for r in run.records if (v := number(r.get(name))) is not None}
        for run in runs
    ]
    rounds = sorted(set.intersection(*(set(v) for v in values)))
    if not rounds:
        return None
    y = np.asarray([[v[r] for r in rounds] for v in values])
    x = np.asarray(rounds, float)
    if over != "round":
        spent = np.asarray(
            [
                np.cumsum([targets.total(record, over) for record in run.records])[: rounds[-1]]
                for run in runs
            ],
            float,
        )
        if not spent.any():
            return None
        x = spent.mean(axis=0)[np.asarray(rounds) - 1]
    std = y.std(axis=0, ddof=1) if len(runs) > 1 else None
    return Curve(x, y.mean(axis=0), std)
