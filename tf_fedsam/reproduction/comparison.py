"""What was measured beside what is printed, and how far one can tell them apart.

Noise: the deviation over seeds, pooled over the methods of a column that have several (over all
columns if none has). A printed number counts as one run: it is within the noise if the difference
is at most t * s * sqrt(1 + 1 / n), with n seeds here, and the degrees of freedom of s.

Order: Spearman's rank correlation of measured and printed numbers over the methods of a column,
with an interval from resampling the methods.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_fedsam import rng
from tf_fedsam.comparison.statistics import CONFIDENCE, Difference, Spread, spread, t_quantile
from tf_fedsam.comparison.statistics import difference as paired_difference
from tf_fedsam.reproduction.cells import Place, key
from tf_fedsam.reproduction.results import Result
from tf_fedsam.reproduction.tables import (
    DEVIATION,
    FLATNESS,
    SHARES,
    Claim,
    Column,
    Number,
    Table,
)

NUM_RESAMPLES = 2000
MIN_METHODS = 4  # with fewer a rank correlation tells nothing
_OF_SUMMARY = {
    "best": "best_test_accuracy",
    "mean_last_10": "mean_last_10_test_accuracy",
}
_OF_LAST_ROUND = {
    "train": "client_train_accuracy_mean",
    "train_sd": "client_train_accuracy_std",
    "validation": "client_test_accuracy_mean",
    "validation_sd": "client_test_accuracy_std",
    **{name: name for name in FLATNESS},
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One number of a table.

    Attributes:
        row, column, item: its place.
        printed: what the paper has.
        measured: over seeds; ``None`` if there is nothing, or a target was not always reached.
        missed: seeds that did not reach the target.
        n: seeds there are.
        variant: the method that stands for the row.
        beyond: the paper does not have the row.
        reason: why the printed number is suspect; empty if it is not.
        by_seed: what each seed gave.
        order_only: what is printed is of other settings.
        curve: test accuracy by round, of the first seed.
        algo: the algorithm.
    """

    row: str
    column: str
    item: str
    printed: Number
    measured: Spread | None
    missed: int
    n: int
    variant: str
    beyond: bool = False
    reason: str = ""
    by_seed: Mapping[int, float | None] = dataclasses.field(default_factory=dict)
    order_only: bool = False
    curve: Sequence[tuple[int, float]] = ()
    algo: str = ""

    @property
    def difference(self) -> float | None:
        """Measured minus printed."""
        if self.measured is None or self.printed.value is None or self.order_only:
            return None
        return self.measured.mean - self.printed.value


@dataclasses.dataclass(frozen=True)
class Noise:
    """A deviation over seeds, and its degrees of freedom."""

    std: float
    degrees: int

    def allows(self, difference: float, n: int) -> bool:
        """Whether a mean of n seeds and one more run may differ by this."""
        t = t_quantile((1 + CONFIDENCE) / 2, self.degrees)
        return abs(difference) <= t * self.std * math.sqrt(1 + 1 / n)


@dataclasses.dataclass(frozen=True)
class Order:
    """Whether the methods of a column are in the printed order.

    Attributes:
        n: methods that have both numbers.
        correlation: Spearman's; ``None`` of fewer than four methods, or if all are equal.
        low, high: of its interval.
        mean_difference: measured minus printed, over the methods.
        mean_size: of the differences without their signs.
        largest: method and difference that is largest without its sign.
        here, there: the methods from the best, as measured and as printed; empty if the paper
            prints the same for all.
    """

    n: int
    correlation: float | None
    low: float | None
    high: float | None
    mean_difference: float
    mean_size: float
    largest: tuple[str, float]
    here: tuple[str, ...]
    there: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A table, or a part of it, measured and printed.

    Attributes:
        table: the table.
        columns: those that are compared.
        entries: its numbers, row by row.
        variants: the methods of rows that are the best of some, each by itself.
        changed: settings that were not the table's, with the table's values.
    """

    table: Table
    columns: tuple[Column, ...]
    entries: tuple[Entry, ...]
    variants: tuple[Entry, ...]
    changed: Mapping[str, Any]

    def of(self, column: str, item: str) -> list[Entry]:
        return [e for e in self.entries if (e.column, e.item) == (column, item)]

    def items(self, column: str) -> list[str]:
        return list(dict.fromkeys(e.item for e in self.entries if e.column == column))

    def is_empty(self, column: str | None = None) -> bool:
        """Whether nothing was measured, in a column or at all."""
        return not any(e.n for e in self.entries if column in (None, e.column))

    def noise(self, column: str, item: str) -> Noise | None:
        """Of a column, or of all if none of its methods has several seeds."""
        both = [e for e in (*self.entries, *self.variants) if e.item == item]
        every = {(e.row, e.column, e.variant): e for e in both}.values()  # the best stands in both
        own = _pooled([e.measured for e in every if e.column == column])
        return _pooled([e.measured for e in every]) if own is None else own

    def within_noise(self, entry: Entry) -> bool | None:
        """``None`` if that cannot be told."""
        noise = self.noise(entry.column, entry.item)
        if noise is None or entry.difference is None:
            return None
        return noise.allows(entry.difference, entry.n)

    def pairs(self, column: str, item: str) -> list[tuple[str, str, Difference]]:
        """The pairs of rows that the table asks for: the first minus the second, seed by seed."""
        there = {e.row: e.by_seed for e in self.of(column, item)}
        found = []
        for first, second in self.table.pairs:
            one = paired_difference(there.get(first, {}), there.get(second, {}))
            if one is not None:
                found.append((first, second, one))
        return found

    def judged(self, claim: Claim) -> tuple[list[Entry], list[int], list[int]]:
        """The numbers of a claim, the seeds that have all of them, and those in which they rise."""
        there = {(e.row, e.column): e for e in self.entries if e.item == claim.item}
        entries = [there[place] for place in claim.places if place in there]
        if len(entries) < len(claim.places):
            return entries, [], []
        seeds = sorted(set.intersection(*(set(e.by_seed) for e in entries)))
        values = {seed: [e.by_seed[seed] for e in entries] for seed in seeds}
        known = {seed: some for seed, some in values.items() if None not in some}
        rising = [s for s, some in known.items() if np.all(np.diff(np.asarray(some, float)) > 0)]
        return entries, list(known), rising

    def order(self, column: str, item: str = "accuracy") -> Order | None:
        """Of the methods that have both numbers; ``None`` if there is none."""
        return order(
            {
                e.row: (e.measured.mean, e.printed.value)
                for e in self.of(column, item)
                if e.measured is not None and e.printed.value is not None
            },
            higher_is_better=item in SHARES,
        )


def compare(
    table: Table,
    found: Sequence[Place],
    results: Sequence[Result],
    statistic: str | None = None,
) -> Comparison:
    """Puts results into the places of a table.

    Args:
        table: the table.
        found: the places that are wanted.
        results: of runs, in any order.
        statistic: the entry of a run's results that stands for its accuracy; the table's by
            default.
    """
    by_key = {result.key: result for result in results}
    there: dict[tuple[str, str], dict[str, list[Result]]] = {}
    changed: dict[str, Any] = {}
    for place in found:
        changed |= place.changed
        of_place = there.setdefault((place.row, place.column), {}).setdefault(place.variant, [])
        result = by_key.get(key(place.cell.resolved.as_dict()))
        if result is not None:
            of_place.append(result)
    statistic = statistic or table.statistic
    entries: list[Entry] = []
    variants: list[Entry] = []
    for (row, column), by_variant in there.items():
        for item in table.columns[column].items:
            if item == DEVIATION:
                continue
            some = [
                _entry(table, row, column, item, variant, of_variant, statistic)
                for variant, of_variant in by_variant.items()
            ]
            entries.append(max(some, key=_goodness))
            variants += some if len(some) > 1 else []
    names = dict.fromkeys(place.column for place in found)
    columns = tuple(table.columns[name] for name in names)
    return Comparison(table, columns, tuple(entries), tuple(variants), changed)


def order(pairs: Mapping[str, tuple[float, float]], higher_is_better: bool = True) -> Order | None:
    """Of methods with a measured and a printed number each."""
    if not pairs:
        return None
    names = list(pairs)
    here, there = np.asarray(list(pairs.values()), np.float64).T
    differences = here - there
    worst = int(np.argmax(np.abs(differences)))
    correlation, low, high = rank_correlation(here, there)
    sign = 1 if higher_is_better else -1
    best = [np.argsort(-sign * values, kind="stable") for values in (here, there)]
    ordered = np.ptp(there) > 0
    return Order(
        len(names),
        correlation,
        low,
        high,
        float(differences.mean()),
        float(np.abs(differences).mean()),
        (names[worst], float(differences[worst])),
        *(tuple(names[i] for i in some if ordered) for some in best),
    )


def rank_correlation(
    a: np.ndarray, b: np.ndarray
) -> tuple[float | None, float | None, float | None]:
    """Spearman's correlation with the interval of 95 % that resampling the pairs gives."""
    if len(a) < MIN_METHODS:
        return None, None, None
    whole = spearman(a, b)
    generator = rng.generator(0, "resampled_methods")
    found = []
    for _ in range(NUM_RESAMPLES):
        chosen = generator.integers(0, len(a), len(a))
        one = spearman(a[chosen], b[chosen])
        if one is not None:
            found.append(one)
    if whole is None or not found:
        return None, None, None
    low, high = np.percentile(found, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return whole, float(low), float(high)


def spearman(a: np.ndarray, b: np.ndarray) -> float | None:
    """The correlation of the ranks; equal values share the mean of theirs."""
    first, second = ranks(a), ranks(b)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def ranks(values: np.ndarray) -> np.ndarray:
    """From 1 for the smallest."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def _entry(
    table: Table,
    row: str,
    column: str,
    item: str,
    variant: str,
    of_variant: Sequence[Result],
    statistic: str,
) -> Entry:
    if table.columns[column].not_measured:
        values: list[float | None] = []
    else:
        values = [_value(r, item, table.columns[column], statistic) for r in of_variant]
    missed = sum(value is None for value in values) if item == "rounds" else 0
    return Entry(
        row,
        column,
        item,
        table.printed.get((row, column, item), Number()),
        spread(values),
        missed,
        len(values),
        variant,
        table.rows[row].beyond,
        table.suspect.get((row, column), ""),
        dict(zip((int(r.settings["seed"]) for r in of_variant), values, strict=False)),
        table.order_only,
        of_variant[0].curve if of_variant else (),
        table.rows[row].variants[variant]["algo"],
    )


def _value(result: Result, item: str, column: Column, statistic: str) -> float | None:
    """A number of a run; ``None`` if it has none, as one that did not reach the target."""
    summary = result.summary
    if item == "accuracy":
        return summary.get(statistic)
    if item in _OF_SUMMARY:
        return summary.get(_OF_SUMMARY[item])
    if item in _OF_LAST_ROUND:
        return result.last_round.get(_OF_LAST_ROUND[item])
    if item == "seconds":
        return summary["seconds"] / summary["rounds"]
    cost = (summary.get("targets") or {}).get(f"{column.target:g}")
    if cost is None:
        return None
    return float(cost["round" if item == "rounds" else "seconds"])


def _goodness(entry: Entry) -> float:
    """For the best of some: high accuracy, few rounds; nothing measured is worst."""
    if entry.measured is None:
        return -math.inf
    return entry.measured.mean if entry.item in SHARES else -entry.measured.mean


def _pooled(found: Sequence[Spread | None]) -> Noise | None:
    some = [one for one in found if one is not None and one.std is not None]
    degrees = sum(one.n - 1 for one in some)
    if not degrees:
        return None
    square = sum((one.n - 1) * (one.std or 0.0) ** 2 for one in some) / degrees
    return Noise(math.sqrt(square), degrees)
