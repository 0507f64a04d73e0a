"""Series of runs that differ only in their seed, and groups of series on the same problem."""

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tf_fedsam.analysis import results
from tf_fedsam.comparison import statistics, targets
from tf_fedsam.comparison.compared_run import ComparedRun
from tf_fedsam.comparison.statistics import Difference, Spread
from tf_fedsam.comparison.targets import Reached
from tf_fedsam.errors import unknown


@dataclasses.dataclass(frozen=True)
class Series:
    """Runs that differ only in their seed.

    Attributes:
        label: the method's title and the settings that tell the series from its neighbours.
        runs: by seed, one a seed.
        decisive: what makes it this series.
        complete: whether its runs are; those that are not make a series of their own.
    """

    label: str
    runs: tuple[ComparedRun, ...]
    decisive: Mapping[str, Any]
    complete: bool

    @property
    def algo(self) -> str:
        return self.runs[0].algo

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def stopped(self) -> list[ComparedRun]:
        """Runs that ended before the last of the rounds they were to have."""
        return [run for run in self.runs if run.stopped]

    def values(self, name: str) -> dict[int, float | None]:
        """A result of every run, by seed."""
        return {run.seed: run.results[name] for run in self.runs}

    def spread(self, name: str) -> Spread | None:
        return statistics.spread(self.values(name).values())

    def held_out(self) -> Spread | None:
        """Mean of the last ten accuracies on held-out training examples, over seeds."""
        name = "mean_last_10_validation_accuracy"
        return statistics.spread(run.results.get(name) for run in self.runs)

    def difference(self, baseline: "Series", name: str) -> Difference | None:
        """To the baseline, over the seeds whose data and split are the same in both."""
        mine, other = (
            {(run.seed, run.fingerprints): run.results[name] for run in series.runs}
            for series in (self, baseline)
        )
        return statistics.difference(mine, other)

    def reached(self, target: float) -> Reached:
        """What it took the runs to reach a test accuracy."""
        return self._reached(target)

    @functools.cached_property
    def _reached(self) -> Callable[[float], Reached]:
        return functools.cache(
            lambda target: targets.reached(
                [results.cost_to(run.records, target) for run in self.runs],
                rounds=min(len(run.records) for run in self.runs),
            )
        )


@dataclasses.dataclass(frozen=True)
class Group:
    """Series that solve the same problem, the best last test accuracy first.

    Attributes:
        problem: what all of them share.
        series: complete ones first.
    """

    problem: Mapping[str, Any]
    series: tuple[Series, ...]

    @property
    def runs(self) -> list[ComparedRun]:
        return [run for series in self.series for run in series.runs]

    @property
    def complete(self) -> list[Series]:
        return [series for series in self.series if series.complete]

    @property
    def seeds(self) -> list[int]:
        return sorted({run.seed for run in self.runs})

    @property
    def tuned(self) -> list[str]:
        """Algorithms that are there with more than one setting."""
        counts = collections.Counter(s.algo for s in self.complete)
        return [algo for algo, count in counts.items() if count > 1]

    @property
    def selected(self) -> list[Series]:
        """Of each algorithm with several settings the best on held-out training examples.

        Empty if nothing is held out.
        """
        found = []
        for algo in self.tuned:
            rivals = [
                (spread.mean, series)
                for series in self.complete
                if series.algo == algo and (spread := series.held_out()) is not None
            ]
            if rivals:
                found.append(max(rivals, key=lambda pair: pair[0])[1])
        return found

    @property
    def data_depend_on_seed(self) -> bool:
        return len({run.fingerprints[0] for run in self.runs}) > 1

    @property
    def common_target(self) -> float | None:
        """The highest multiple of 5 % that every complete run reached."""
        return targets.common_target(
            run.results["best_test_accuracy"] for series in self.complete for run in series.runs
        )


def choose_baseline(group: Group, wanted: str) -> Series | None:
    """The series of this label, or of this algorithm.

    Of several of an algorithm it is the one with the best last accuracy: nothing then looks better
    than it is because the baseline was not tuned.
    """
    names: Sequence[Callable[[Series], str]] = (
        lambda s: s.label,
        lambda s: s.algo,
        lambda s: s.label.split()[0],
    )
    for name in names:
        found = [s for s in group.complete if name(s).lower() == wanted.strip().lower()]
        if found:
            return found[0]
    return None


def baselines(groups: Sequence[Group], wanted: str | None, default: str) -> list[Series | None]:
    """The baseline of every group: the wanted series, else the default one, else the first."""
    found = [None if wanted is None else choose_baseline(g, wanted) for g in groups]
    if wanted is not None and not any(found):
        names = {name for g in groups for s in g.complete for name in (s.label, s.algo)}
        raise unknown("baseline", wanted, names, "Only complete runs can be one.")
    first = [min(g.complete, key=lambda s: s.label, default=None) for g in groups]
    return [
        f or choose_baseline(g, default) or s for f, g, s in zip(found, groups, first, strict=True)
    ]
