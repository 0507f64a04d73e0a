"""What a report is about: a section each problem, with what its series are compared by."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tf_fedsam import looks
from tf_fedsam.comparison.grouping import told_apart
from tf_fedsam.comparison.reading import Skipped
from tf_fedsam.comparison.series import Group, Series
from tf_fedsam.comparison.words import counted
from tf_fedsam.errors import InputError
from tf_fedsam.report.surfaces import Drawn
from tf_fedsam.text import printable

MAX_CURVES = 12
MOST_CURVES = 32  # of a problem, that can be told apart


@dataclasses.dataclass(frozen=True)
class Section:
    """A group with what it is compared by.

    Attributes:
        group: the series.
        baseline: differences are to this one; ``None`` if there is nothing to compare.
        targets: test accuracies.
        targets_given: by the user, not chosen for them.
        styles: of the series that are drawn, by label.
        apart: what tells it from sections that would have the same title.
    """

    group: Group
    baseline: Series | None
    targets: Sequence[float]
    targets_given: bool
    styles: Mapping[str, int]
    apart: str = ""

    @property
    def drawn(self) -> list[Series]:
        return [s for s in self.group.series if s.label in self.styles]


@dataclasses.dataclass(frozen=True)
class Picture:
    """A PNG to be put into the page."""

    content: bytes
    alt: str
    folder: str
    file: str = ""


@dataclasses.dataclass(frozen=True)
class Report:
    """All that is on the page.

    Attributes:
        sections: a group each.
        skipped: runs that are not reported, and why.
        pictures: loss surfaces.
        command: that made the report.
        datasets: what data sets are called.
        version: of the package.
        reload_seconds: after which the page loads itself again; ``None`` for never.
        surfaces: loss surfaces that are drawn as a part of the page, in place of pictures.
    """

    sections: Sequence[Section]
    skipped: Sequence[Skipped]
    pictures: Sequence[Picture]
    command: str
    datasets: Mapping[str, str]
    version: str
    reload_seconds: float | None = None
    surfaces: Sequence[Drawn] = ()


def make_sections(
    groups: Sequence[Group],
    baselines: Sequence[Series | None],
    targets: Sequence[float] | None,
    max_curves: int = MAX_CURVES,
) -> list[Section]:
    """A section each group.

    Args:
        groups: of runs.
        baselines: one a group.
        targets: test accuracies; ``None`` for the highest multiple of 5 % that all runs reached.
        max_curves: series that are drawn of a group.
    """
    check_max_curves(max_curves)
    chosen = [b if len(g.complete) > 1 else None for g, b in zip(groups, baselines, strict=True)]
    sections = []
    for group, base, styles in zip(
        groups, chosen, _styles(groups, chosen, max_curves), strict=True
    ):
        common = group.common_target
        mine = targets if targets is not None else () if common is None else (common,)
        sections.append(Section(group, base, mine, targets is not None, styles))
    return _told_apart(sections)


def check_max_curves(max_curves: int) -> None:
    """Refuses more lines than can be told apart."""
    if not 1 <= max_curves <= MOST_CURVES:
        raise InputError(
            f"max_curves must be 1 to {MOST_CURVES}. Received: {max_curves}. More lines could not "
            f"be told apart.",
            "max_curves",
        )


def _styles(
    groups: Sequence[Group], baselines: Sequence[Series | None], max_curves: int
) -> list[dict[str, int]]:
    """The best series of each group and its baseline, one style a label everywhere if enough."""
    drawn = []
    for group, base in zip(groups, baselines, strict=True):
        best = list(group.series[:max_curves])
        if base is not None and base not in best:
            best[-1] = base
        drawn.append({s.label: s.algo for s in best})
    labels = {label: algo for algos in drawn for label, algo in algos.items()}
    everywhere = _styles_of(labels)
    enough = len(labels) <= max(MAX_CURVES, max_curves)
    return [
        {label: everywhere[label] for label in algos} if enough else _styles_of(algos)
        for algos in drawn
    ]


def _styles_of(algos: Mapping[str, str]) -> dict[str, int]:
    """The style of each label, in the colour of its method."""
    return dict(zip(algos, looks.styles(list(algos.values())), strict=True))


def _told_apart(sections: list[Section]) -> list[Section]:
    """Sections whose titles are not the same."""
    alike: dict[str, list[int]] = {}
    for place, section in enumerate(sections):
        alike.setdefault(section_title(section, {}), []).append(place)
    found = list(sections)
    for places in alike.values():
        words = told_apart([sections[place].group for place in places])
        for place, apart in zip(places, words, strict=True):
            if len(places) > 1:
                found[place] = dataclasses.replace(sections[place], apart=apart)
    return found


def dataset_title(section: Section, titles: Mapping[str, str]) -> str:
    name = section.group.problem["dataset"]
    return titles.get(name, name).split(" (")[0]


def section_title(section: Section, titles: Mapping[str, str]) -> str:
    problem = section.group.problem
    parts = [dataset_title(section, titles), str(scheme(section.group))]
    parts += [str(problem["model"]), counted(problem["rounds"], "round")]
    parts += [section.apart] if section.apart else []
    return printable(", ".join(parts))


def scheme(group: Group) -> Any:
    partition = group.runs[0].config.get("partition")
    found = partition.get("scheme") if isinstance(partition, dict) else None
    return found or f"{group.problem['partition']} split"
