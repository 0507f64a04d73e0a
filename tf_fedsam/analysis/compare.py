"""Runs compared: series of runs that differ only in their seed, side by side where that is fair.

A *group* is one problem: data, split, model and number of rounds. A *series* is one way to solve
it: everything that decides a run but the seed. Numbers of different groups are never put together.
Runs of the same seed share split, cohorts and batches, so differences are taken seed by seed.
"""

import collections
import dataclasses
import functools
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tf_fedsam.analysis import fairness, results
from tf_fedsam.errors import InputError, unknown

CONFIDENCE = 0.95
# Settings that make the problem.
PROBLEM = (
    *("dataset", "subset", "image_size", "client_noise", "category_noise", "partition"),
    *("num_clients", "alpha", "replacement", "size_sigma", "classes_per_client"),
    *("shards_per_client", "model", "model_options", "trainable", "rounds"),
)
# Settings that change what is logged or where, but not the training. Data are told by fingerprint.
NOT_DECISIVE = (
    *("seed", "output_dir", "data_dir", "data_file", "devices", "deterministic", "stream"),
    *("eval_every", "checkpoint_every", "keep_checkpoints", "max_failed_rounds", "targets"),
    *("diagnostics", "probe_every", "probes", "probe_examples", "sharpness_rho", "validation"),
    *("validation_clients", "keep_local_models"),
)
ACCURACIES = (
    *("test_accuracy", "best_test_accuracy", "mean_last_10_test_accuracy"),
    "fedinit_test_accuracy",
)
LONGEST_LABEL = 80
_TARGET_STEP = 0.05
_Key = TypeVar("_Key", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that was read and found whole; make it with :func:`make_run`.

    Attributes:
        name: where it was found.
        config: its ``config.json``.
        records: its rounds, up to the last tested one if it is not complete.
        complete: whether all its rounds are there.
    """

    name: str
    config: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    complete: bool = True

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.config["settings"]

    @property
    def seed(self) -> int:
        return self.settings["seed"]

    @property
    def algo(self) -> str:
        return self.settings["algo"]

    @property
    def fingerprints(self) -> tuple[str, str]:
        """Of the data and of the split."""
        inputs = self.config.get("inputs", {})
        return _key(inputs.get("data")), _key(inputs.get("split"))

    @functools.cached_property
    def results(self) -> dict[str, Any]:
        return results.summarise(self.records)

    @functools.cached_property
    def last_probe(self) -> dict[str, Any]:
        """The newest value of everything that is measured now and then."""
        found: dict[str, Any] = {}
        for record in self.records:
            found |= {name: value for name, value in record.items() if value is not None}
        return found


def make_run(
    name: str, config: Mapping[str, Any], records: Sequence[Mapping[str, Any]], complete: bool
) -> Run:
    """A run whose files were read, if they make sense.

    Raises:
        InputError: with the reason why not.
    """
    settings = config["settings"]
    for key, kind in {"algo": str, "dataset": str, "seed": int, "rounds": int}.items():
        if not isinstance(settings.get(key), kind):
            raise InputError(f"its config.json has no setting {key}")
    for key in ("hparams", "model_options"):
        if not isinstance(settings.get(key, {}), dict):
            raise InputError(f"its config.json has a wrong setting {key}")
    for record in records:
        _check(record)
    tested = [i for i, r in enumerate(records) if r.get("test_accuracy") is not None]
    if not tested:
        raise InputError(f"it has no tested round yet ({len(records)} rounds in its log)")
    return Run(name, config, records if complete else records[: tested[-1] + 1], complete)


def _check(record: Mapping[str, Any]) -> None:
    """Refuses a round without the numbers that results are made of."""
    where = f"round {record['round']} of its log"
    for key in (*results.COSTS, "eval_seconds"):
        cost = number(record.get(key, 0))
        if cost is None or cost < 0:
            raise InputError(f"{where} has {key} = {_short(record.get(key))}")
    for key in ("train_loss", "test_loss", "test_accuracy"):
        value = record.get(key)
        if value is not None and number(value) is None:
            raise InputError(f"{where} has {key} = {_short(value)}")
    accuracy = record.get("test_accuracy")
    if accuracy is not None and (not 0 <= accuracy <= 1 or "test_loss" not in record):
        raise InputError(f"{where} has no test accuracy in [0, 1] with a loss")
    ok = isinstance(record.get("failed_client_ids"), list) and "train_loss" in record
    if not ok or not isinstance(record.get("skipped"), (bool, int)):
        raise InputError(f"{where} has no train_loss, failed_client_ids or skipped")


def number(value: Any) -> float | None:
    """The value as a finite number; ``None`` if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _short(value: Any) -> str:
    return f"{value!r:.40}"


# Statistics.


@dataclasses.dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (over n - 1; ``None`` of a single value)."""

    mean: float
    std: float | None
    n: int


def spread(values: Iterable[float | None]) -> Spread | None:
    """``None`` if a value is missing, or there is none at all."""
    numbers = list(values)
    present = [v for v in numbers if v is not None]
    if not present or len(present) < len(numbers):
        return None
    std = float(np.std(present, ddof=1)) if len(present) > 1 else None
    return Spread(float(np.mean(present)), std, len(present))


@dataclasses.dataclass(frozen=True)
class Difference:
    """Mean of the differences of n pairs, and half of its confidence interval.

    Attributes:
        half: ``None`` of a single pair, which has no interval.
    """

    mean: float
    half: float | None
    n: int

    @property
    def is_evidence(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.half is not None and abs(self.mean) > self.half


def difference(
    values: Mapping[_Key, float | None], baseline: Mapping[_Key, float | None]
) -> Difference | None:
    """Differences of what has the same key in both; ``None`` if nothing has.

    The interval is Student's, for differences that are normally distributed:
    mean +- t * std / sqrt(n).
    """
    pairs = [(value, baseline.get(key)) for key, value in values.items()]
    found = [a - b for a, b in pairs if a is not None and b is not None]
    if not found:
        return None
    n = len(found)
    if n == 1:
        return Difference(float(found[0]), None, 1)
    error = float(np.std(found, ddof=1)) / math.sqrt(n)
    return Difference(float(np.mean(found)), t_quantile((1 + CONFIDENCE) / 2, n - 1) * error, n)


def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t distribution, for a probability of at least one half."""
    if not 0.5 <= probability < 1 or degrees < 1:
        raise ValueError(
            f"Expected a probability in [0.5, 1) and at least 1 degree of freedom. Received: "
            f"{probability}, {degrees}."
        )
    within, low, high = 2 * probability - 1, 0.0, 1.0
    while _within(high, degrees) < within:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _within(middle, degrees) < within else (low, middle)
    return (low + high) / 2


def _within(t: float, degrees: int) -> float:
    """P(-t < T < t), which is a finite sum for whole degrees of freedom."""
    angle = math.atan2(t, math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term, total = cosine if odd else 1.0, 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


# Series and groups.


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
    runs: tuple[Run, ...]
    decisive: Mapping[str, Any]
    complete: bool

    @property
    def algo(self) -> str:
        return self.runs[0].algo

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    def values(self, name: str) -> dict[int, float | None]:
        """A result of every run, by seed."""
        return {run.seed: run.results[name] for run in self.runs}

    def spread(self, name: str) -> Spread | None:
        return spread(self.values(name).values())

    def difference(self, baseline: "Series", name: str) -> Difference | None:
        """To the baseline, over the seeds whose data and split are the same in both."""
        mine, other = (
            {(run.seed, run.fingerprints): run.results[name] for run in series.runs}
            for series in (self, baseline)
        )
        return difference(mine, other)

    @functools.cached_property
    def _reached(self) -> Callable[[float], "Reached"]:
        return functools.cache(lambda target: reached(self.runs, target))

    def reached(self, target: float) -> "Reached":
        return self._reached(target)


@dataclasses.dataclass(frozen=True)
class Group:
    """Series that solve the same problem, the best last test accuracy first.

    Attributes:
        problem: settings that all of them share.
        series: complete ones first.
    """

    problem: Mapping[str, Any]
    series: tuple[Series, ...]

    @property
    def runs(self) -> list[Run]:
        return [run for series in self.series for run in series.runs]

    @property
    def complete(self) -> list[Series]:
        return [series for series in self.series if series.complete]

    @property
    def seeds(self) -> list[int]:
        return sorted({run.seed for run in self.runs})

    def common(self, name: str) -> Any:
        """A setting's value if all runs share it, else ``None``."""
        values = [run.settings.get(name) for run in self.runs]
        return values[0] if all(value == values[0] for value in values) else None

    @property
    def tuned(self) -> list[str]:
        """Algorithms that are there with more than one setting."""
        counts = collections.Counter(s.algo for s in self.complete)
        return [algo for algo, count in counts.items() if count > 1]

    @property
    def data_depend_on_seed(self) -> bool:
        return len({run.fingerprints[0] for run in self.runs}) > 1


def group_runs(
    runs: Sequence[Run], titles: Mapping[str, str]
) -> tuple[list[Group], list[tuple[Run, Run]]]:
    """Groups of series, and runs that repeat another one (left out), each with that one.

    Args:
        runs: in any order.
        titles: what algorithms are called; others go by their name.
    """
    problems: dict[str, list[Run]] = {}
    for run in runs:
        problems.setdefault(_key(_problem(run)), []).append(run)
    groups, repeated = [], []
    for same in problems.values():
        for members in _by_data(same):
            group, again = _make_group(members, titles)
            groups.append(group)
            repeated += again
    return groups, repeated


def _problem(run: Run) -> dict[str, Any]:
    data = run.config.get("data")
    data = data if isinstance(data, dict) else {}
    sizes = ("train_examples", "test_examples", "num_classes", "input_shape")
    return {
        **{name: run.settings.get(name) for name in PROBLEM},
        **{name: data.get(name) for name in sizes},
        "num_parameters": run.config.get("num_parameters"),
    }


def told_apart(groups: Sequence[Group]) -> list[str]:
    """For each group the settings of its problem that it does not share with all the others.

    Problems with the same settings have different data; they are numbered.
    """
    flat = [
        {**{n: g.problem[n] for n in PROBLEM}, **(g.problem["model_options"] or {})} for g in groups
    ]
    found = []
    for number, mine in enumerate(flat, 1):
        differs = [
            name
            for name, value in mine.items()
            if name != "model_options" and value is not None
            if any(_key(other.get(name)) != _key(value) for other in flat)
        ]
        words = [f"{name}={_plain(mine[name])}" for name in sorted(differs)]
        words += [f"data {number}"] if sum(_key(other) == _key(mine) for other in flat) > 1 else []
        found.append(printable(" ".join(words)))
    return found


def _by_data(runs: list[Run]) -> list[list[Run]]:
    """Runs of one problem, apart if they read different data.

    Data that are the same for two seeds do not depend on the seed, so all of them must be the same.
    Otherwise (a subset, noise, a test part set aside) each seed may have its own.
    """
    seeds: dict[Any, set[int]] = {}
    for run in runs:
        seeds.setdefault(run.fingerprints[0], set()).add(run.seed)
    if len(seeds) == 1:
        return [runs]
    parts: dict[Any, list[Run]] = {}
    if any(len(of_data) > 1 for of_data in seeds.values()):
        for run in runs:
            parts.setdefault(run.fingerprints[0], []).append(run)
        return list(parts.values())
    known: dict[int, list[Any]] = {}
    for run in runs:
        versions = known.setdefault(run.seed, [])
        if run.fingerprints[0] not in versions:
            versions.append(run.fingerprints[0])
        place = run.settings.get("data_file"), run.settings.get("data_dir")
        parts.setdefault((place, versions.index(run.fingerprints[0])), []).append(run)
    return list(parts.values())


def _make_group(runs: list[Run], titles: Mapping[str, str]) -> tuple[Group, list[tuple[Run, Run]]]:
    members: dict[tuple[str, bool], dict[int, Run]] = {}
    repeated = []
    for run in sorted(runs, key=lambda run: not run.complete):
        key = _key(_decisive(run))
        whole = members.get((key, True), {}).get(run.seed)
        of_seed = members.setdefault((key, run.complete), {})
        first = whole or of_seed.get(run.seed)
        if first is not None:
            repeated.append((run, first))
            continue
        of_seed[run.seed] = run
    kept = {key: by_seed for key, by_seed in members.items() if by_seed}
    decisive = [_decisive(next(iter(by_seed.values()))) for by_seed in kept.values()]
    labels = _labels(decisive, [complete for _, complete in kept], titles)
    series = [
        Series(label, tuple(by_seed[seed] for seed in sorted(by_seed)), settings, complete)
        for label, settings, ((_, complete), by_seed) in zip(
            labels, decisive, kept.items(), strict=True
        )
    ]
    series.sort(key=lambda s: (not s.complete, -s.spread("test_accuracy").mean, s.label))  # type: ignore[union-attr]
    return Group(_problem(runs[0]), tuple(series)), repeated


def _decisive(run: Run) -> dict[str, Any]:
    """What makes a series within a problem, flat; files count by their content."""
    flat = {
        name: value
        for name, value in run.settings.items()
        if name not in (*PROBLEM, *NOT_DECISIVE, "hparams")
    }
    flat |= {f"hparams.{name}": v for name, v in run.settings.get("hparams", {}).items()}
    for name, fingerprint in run.config.get("inputs", {}).items():
        if name not in ("data", "split"):
            flat[f"content of {name}"] = fingerprint
            if name != "algo":
                flat.pop(name, None)
    return flat


def _labels(
    decisive: Sequence[Mapping[str, Any]], complete: Sequence[bool], titles: Mapping[str, str]
) -> list[str]:
    """Names that tell series apart: what differs, hyper-parameters only within an algorithm."""
    labels: list[str] = []
    for mine, whole in zip(decisive, complete, strict=True):
        alike = [other for other in decisive if other["algo"] == mine["algo"]]
        words = [title(mine["algo"], titles)]
        for name in sorted(mine, key=lambda name: (not name.startswith("hparams."), name)):
            own = name.startswith(("hparams.", "content of "))
            others = alike if own else decisive
            differs = any(_key(other.get(name)) != _key(mine[name]) for other in others)
            if name != "algo" and differs and mine[name] is not None:
                words.append(f"{name.removeprefix('hparams.')}={_plain(mine[name])}")
        label = printable(" ".join(words)) or "?"
        if len(label) > LONGEST_LABEL:
            label = label[: LONGEST_LABEL - 1] + "…"
        label += "" if whole else " (unfinished)"
        same = sum(other == label or other.startswith(f"{label} #") for other in labels)
        labels.append(f"{label} #{same + 1}" if same else label)
    return labels


def title(algo: str, titles: Mapping[str, str]) -> str:
    """What an algorithm is called; one of a user's file by its class."""
    return titles.get(algo) or algo.rpartition(".py:")[2] or algo


def printable(text: str) -> str:
    """The text on one line, without characters that steer a terminal or turn the reading around."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ",".join(map(_plain, value))
    return str(value)


def _key(value: Any) -> str:
    """The same for equal values only, whatever JSON they are; 1 and 1.0 are equal."""

    def equal(item: Any) -> Any:
        if isinstance(item, dict):
            return {str(k): equal(v) for k, v in item.items()}
        if isinstance(item, (list, tuple)):
            return [equal(v) for v in item]
        if isinstance(item, float) and item.is_integer():
            return int(item)
        return item

    return json.dumps(equal(value), sort_keys=True)


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


# Costs and curves.


@dataclasses.dataclass(frozen=True)
class Reached:
    """What it took the runs of a series to reach a target.

    Attributes:
        num_reached: runs that did.
        n: runs there are.
        costs: ``round``, ``bytes`` and every cost; only if all runs reached it, since a mean over
            those that did would favour series of which few do.
    """

    num_reached: int
    n: int
    costs: Mapping[str, Spread]


def reached(runs: Sequence[Run], target: float) -> Reached:
    found = [results.cost_to(run.records, target) for run in runs]
    there = [cost for cost in found if cost is not None]
    if len(there) < len(runs):
        return Reached(len(there), len(runs), {})
    columns: dict[str, Spread] = {}
    for name in ("round", "bytes", "vectors", *results.COSTS):
        if name in ("bytes", "vectors"):
            values = [cost[f"{name}_down"] + cost[f"{name}_up"] for cost in there]
        else:
            values = [cost[name] for cost in there]
        one = spread(values)
        if one is not None and one.mean > 0:  # logs without a cost have zeros
            columns[name] = one
    return Reached(len(there), len(runs), columns)


def common_target(group: Group) -> float | None:
    """The highest multiple of 5 % that every complete run reached; ``None`` if there is none."""
    best = [run.results["best_test_accuracy"] for s in group.complete for run in s.runs]
    steps = math.floor(min(best) / _TARGET_STEP + 1e-9) if best else 0
    return round(steps * _TARGET_STEP, 2) if steps else None


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


def curve(runs: Sequence[Run], name: str, cost: str | None = None) -> Curve | None:
    """A number of the log over the rounds, or over what was spent until then.

    Args:
        runs: of a series.
        name: of the number.
        cost: ``bytes``, ``vectors`` (both down and up together), or a single cost.
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
    if cost is not None:
        names = (f"{cost}_down", f"{cost}_up") if cost in ("bytes", "vectors") else (cost,)
        spent = np.asarray(
            [np.cumsum([sum(r.get(n, 0) for n in names) for r in run.records])[: rounds[-1]]
             for run in runs],
            float,
        )  # fmt: skip
        if not spent.any():
            return None
        x = spent.mean(axis=0)[np.asarray(rounds) - 1]
    std = y.std(axis=0, ddof=1) if len(runs) > 1 else None
    return Curve(x, y.mean(axis=0), std)


def total(run: Run, cost: str) -> float:
    """A cost of the whole run; bytes and vectors down and up together."""
    if cost in ("bytes", "vectors"):
        return run.results[f"{cost}_down"] + run.results[f"{cost}_up"]
    return run.results[cost]


@dataclasses.dataclass(frozen=True)
class Clients:
    """Accuracy of the global model on each client at the last probe, means over seeds.

    Attributes:
        mean, std, worst_decile: over clients; ``None`` if not logged.
        histogram: shares of the clients in equal parts of [0, 1]; ``None`` if not logged.
    """

    mean: float
    std: float | None
    worst_decile: float | None
    histogram: np.ndarray | None


def clients(runs: Sequence[Run], part: str) -> Clients | None:
    """How fair a series is on the clients' ``train`` or ``validation`` examples."""

    def over_seeds(name: str) -> float | None:
        values = [number(run.last_probe.get(f"client_{part}_accuracy_{name}")) for run in runs]
        found = spread(values)
        return None if found is None else found.mean

    mean = over_seeds("mean")
    if mean is None:
        return None
    shares = [
        _counts(run.last_probe.get(f"client_{part}_accuracy_histogram"), dims=1) for run in runs
    ]
    histogram = None
    if all(s is not None and s.sum() > 0 and len(s) == len(shares[0]) for s in shares):  # type: ignore[arg-type]
        histogram = np.mean([s / s.sum() for s in shares], axis=0)  # type: ignore[union-attr]
    return Clients(mean, over_seeds("std"), over_seeds("worst_decile"), histogram)


def confusion(runs: Sequence[Run]) -> np.ndarray | None:
    """Examples by true (rows) and predicted class at the last probe, all seeds together."""
    found = [_counts(run.last_probe.get("confusion"), dims=2) for run in runs]
    matrices = [m for m in found if m is not None and m.shape[0] == m.shape[1] and m.sum() > 0]
    if not matrices or any(m.shape != matrices[0].shape for m in matrices):
        return None
    return np.sum(matrices, axis=0)


def most_confused(matrix: np.ndarray, most: int = 3) -> list[tuple[int, int, float]]:
    """The most frequent mistakes: true class, predicted class, share of the true class."""
    shares = fairness.row_shares(matrix)
    np.fill_diagonal(shares, 0)
    order = np.argsort(-shares, axis=None, kind="stable")[:most]
    pairs = [tuple(int(i) for i in np.unravel_index(k, shares.shape)) for k in order]
    return [(a, b, float(shares[a, b])) for a, b in pairs if shares[a, b] > 0]


def class_counts(run: Run) -> np.ndarray | None:
    """Examples of each class (columns) on each client, as far as the config has them."""
    split = run.config.get("split")
    return _counts(split.get("class_counts"), dims=2) if isinstance(split, dict) else None


def _counts(value: Any, dims: int) -> np.ndarray | None:
    """An array of counts from JSON; ``None`` if it is not one."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError, OverflowError):
        return None
    good = array.ndim == dims and array.size and np.isfinite(array).all() and (array >= 0).all()
    return array if good else None
