"""Runs put into series and groups, with names that tell them apart."""

from collections.abc import Mapping, Sequence
from typing import Any

from tf_fedsam.comparison.compared_run import ComparedRun
from tf_fedsam.comparison.decisive import SIZES, decisive, problem
from tf_fedsam.comparison.series import Group, Series
from tf_fedsam.comparison.values import key, plain
from tf_fedsam.runs.config import of_role
from tf_fedsam.runs.settings import Role
from tf_fedsam.text import printable

LONGEST_LABEL = 80


def group_runs(
    runs: Sequence[ComparedRun], titles: Mapping[str, str]
) -> tuple[list[Group], list[tuple[ComparedRun, ComparedRun]]]:
    """Groups of series, and runs that repeat another one (left out), each with that one.

    Args:
        runs: in any order.
        titles: what algorithms are called; others go by their name.
    """
    problems: dict[str, list[ComparedRun]] = {}
    for run in runs:
        problems.setdefault(key(problem(run)), []).append(run)
    groups, repeated = [], []
    for same in problems.values():
        for members in _by_data(same):
            group, again = _make_group(members, titles)
            groups.append(group)
            repeated += again
    return groups, repeated


def told_apart(groups: Sequence[Group]) -> list[str]:
    """For each group the settings of its problem that it does not share with all the others.

    Problems with the same settings have different data; they are numbered.
    """
    flat = [
        {
            **{name: value for name, value in g.problem.items() if name not in SIZES},
            **(g.problem.get("model_options") or {}),
        }
        for g in groups
    ]
    found = []
    for number, mine in enumerate(flat, 1):
        differs = [
            name
            for name, value in mine.items()
            if name != "model_options" and value is not None
            if any(key(other.get(name)) != key(value) for other in flat)
        ]
        words = [f"{name}={plain(mine[name])}" for name in sorted(differs)]
        words += [f"data {number}"] if sum(key(other) == key(mine) for other in flat) > 1 else []
        found.append(printable(" ".join(words)))
    return found


def _by_data(runs: list[ComparedRun]) -> list[list[ComparedRun]]:
    """Runs of one problem, apart if they read different data.

    Data that are the same for two seeds do not depend on the seed, so all of them must be the same.
    Otherwise (a subset, noise, a test part set aside) each seed may have its own.
    """
    seeds: dict[Any, set[int]] = {}
    for run in runs:
        seeds.setdefault(run.fingerprints[0], set()).add(run.seed)
    if len(seeds) == 1:
        return [runs]
    parts: dict[Any, list[ComparedRun]] = {}
    if any(len(of_data) > 1 for of_data in seeds.values()):
        for run in runs:
            parts.setdefault(run.fingerprints[0], []).append(run)
        return list(parts.values())
    known: dict[int, list[Any]] = {}
    for run in runs:
        versions = known.setdefault(run.seed, [])
        if run.fingerprints[0] not in versions:
            versions.append(run.fingerprints[0])
        place = key([run.settings.get(name) for name in of_role(Role.SOURCE)])
        parts.setdefault((place, versions.index(run.fingerprints[0])), []).append(run)
    return list(parts.values())


def _make_group(
    runs: list[ComparedRun], titles: Mapping[str, str]
) -> tuple[Group, list[tuple[ComparedRun, ComparedRun]]]:
    members: dict[tuple[str, bool], dict[int, ComparedRun]] = {}
    repeated = []
    for run in sorted(runs, key=lambda run: not run.complete):
        settings = key(decisive(run))
        whole = members.get((settings, True), {}).get(run.seed)
        of_seed = members.setdefault((settings, run.complete), {})
        first = whole or of_seed.get(run.seed)
        if first is not None:
            repeated.append((run, first))
            continue
        of_seed[run.seed] = run
    kept = {name: by_seed for name, by_seed in members.items() if by_seed}
    ways = [decisive(next(iter(by_seed.values()))) for by_seed in kept.values()]
    labels = _labels(ways, [complete for _, complete in kept], titles)
    series = [
        Series(label, tuple(by_seed[seed] for seed in sorted(by_seed)), settings, complete)
        for label, settings, ((_, complete), by_seed) in zip(
            labels, ways, kept.items(), strict=True
        )
    ]
    series.sort(key=lambda s: (not s.complete, -s.spread("test_accuracy").mean, s.label))  # type: ignore[union-attr]
    return Group(problem(runs[0]), tuple(series)), repeated


def _labels(
    ways: Sequence[Mapping[str, Any]], complete: Sequence[bool], titles: Mapping[str, str]
) -> list[str]:
    """Names that tell series apart: what differs, hyper-parameters only within an algorithm."""
    labels: list[str] = []
    for mine, whole in zip(ways, complete, strict=True):
        alike = [other for other in ways if other["algo"] == mine["algo"]]
        words = [title(mine["algo"], titles)]
        for name in sorted(mine, key=lambda name: (not name.startswith("hparams."), name)):
            own = name.startswith(("hparams.", "content of "))
            others = alike if own else ways
            differs = any(key(other.get(name)) != key(mine[name]) for other in others)
            if name != "algo" and differs and mine[name] is not None:
                words.append(f"{name.removeprefix('hparams.')}={plain(mine[name])}")
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
