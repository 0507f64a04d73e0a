"""The public door to the comparison of runs.

comparison = tf_fedsam.compare(["runs/mine", "runs/other", run, "sweeps/first"])
comparison.table(), comparison.rows(), comparison.plot(), comparison.html("report.html")
"""

import dataclasses
import functools
import html as escaping
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import tf_fedsam
from tf_fedsam import paths
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.comparison.finding import Place, find_runs
from tf_fedsam.comparison.grouping import group_runs
from tf_fedsam.comparison.reading import Skipped, read_runs
from tf_fedsam.comparison.series import Group, Series, baselines
from tf_fedsam.comparison.targets import check_targets
from tf_fedsam.comparison.words import counted
from tf_fedsam.errors import InputError
from tf_fedsam.report import exports, page, plot, printed
from tf_fedsam.report.pictures import read_pictures
from tf_fedsam.report.sections import (
    MAX_CURVES,
    Report,
    Section,
    make_sections,
    section_title,
)
from tf_fedsam.report.surfaces import read_surfaces, readable_surfaces
from tf_fedsam.runs.task import all_tasks
from tf_fedsam.state.files import write_atomically

BASELINE = "fedavg"


def compare(
    runs: Place | Iterable[Place],
    *,
    baseline: str | None = None,
    targets: Iterable[float] | None = None,
) -> "Comparison":
    """Compares runs: over their seeds, and only with runs on the same problem.

    Runs that differ only in their seed are one series. What cannot be read is left out and told in
    ``skipped``; a run that is not complete is shown as far as it got.

    Args:
        runs: run folders, folders that contain some (such as that of a sweep), or runs.
        baseline: the series, by its label or algorithm, that others are compared with; FedAvg if it
            is there, else the first.
        targets: test accuracies, to tell what it took to reach them; by default the highest
            multiple of 0.05 that all runs reached.

    Raises:
        InputError: if there is no run that can be compared, or no such baseline.
    """
    places: list[Place] = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    wanted = None if targets is None else check_targets(targets)
    found, skipped = read_runs(find_runs(places))
    titles = {name: algorithm.title for name, algorithm in all_algorithms().items()}
    groups, repeated = group_runs(found, titles)
    skipped += [
        Skipped(run.name, f"the same settings and seed as {other.name}") for run, other in repeated
    ]
    chosen = baselines(groups, baseline, BASELINE)
    given = {"baseline": baseline, "targets": None if wanted is None else list(wanted)}
    options = "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
    call = f"tf_fedsam.compare({[str(paths.expanded(place)) for place in places]}{options})"
    return Comparison(tuple(groups), tuple(skipped), tuple(chosen), wanted, call)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Runs side by side; make it with :func:`compare`.

    Attributes:
        groups: a problem each, with the series that solve it, the best last accuracy first.
        skipped: what is left out, and why.
        baselines: of each group, what its other series are compared with.
        targets: test accuracies; ``None`` if each group has its own.
        call: how it was made.
    """

    groups: Sequence[Group]
    skipped: Sequence[Skipped]
    baselines: Sequence[Series | None]
    targets: Sequence[float] | None
    call: str

    @functools.cached_property
    def sections(self) -> list[Section]:
        """The groups with what they are compared by."""
        return self._sections(MAX_CURVES)

    @functools.cached_property
    def datasets(self) -> dict[str, str]:
        """What the data sets that are known are called."""
        return {name: task.title for name, task in all_tasks().items()}

    def table(self, *, brief: bool = False) -> "Table":
        """Accuracies, differences to the baseline and rounds to targets; a line a series.

        Args:
            brief: only the last accuracy and the difference.
        """
        return Table(self, brief)

    def rows(self) -> list[dict[str, Any]]:
        """All numbers, a dict a series: ``pandas.DataFrame(comparison.rows())``."""
        return exports.rows(self.sections)

    def html(
        self,
        path: str | os.PathLike,
        *,
        max_curves: int = MAX_CURVES,
        landscapes: Sequence[str | os.PathLike] = (),
        command: str | None = None,
        reload_seconds: float | None = None,
    ) -> pathlib.Path:
        """Writes a page with tables and curves that needs nothing but itself.

        Args:
            path: of the file.
            max_curves: series that are drawn of a problem.
            landscapes: folders with pictures of loss surfaces, to be put into the page.
            command: how the page is made, to stand at its end.
            reload_seconds: after which the page loads itself again, while runs go on; ``None`` for
                never.

        Returns:
            The path.
        """
        sections = self._sections(max_curves)
        call = f"{self.call}.html({str(path)!r})" if command is None else command
        pictures = read_pictures(landscapes)
        report = Report(
            sections,
            self.skipped,
            pictures,
            call,
            self.datasets,
            tf_fedsam.__version__,
            reload_seconds,
            readable_surfaces(landscapes),
        )
        return _write(path, page.render(report))

    def csv(self, path: str | os.PathLike) -> pathlib.Path:
        """Writes the rows as CSV."""
        return _write(path, exports.as_csv(self.sections))

    def latex(self, path: str | os.PathLike) -> pathlib.Path:
        """Writes a table each problem, for the package booktabs."""
        return _write(path, exports.as_latex(self.sections))

    def plot(
        self, metric: str = "test_accuracy", *, over: str = "round", max_curves: int = MAX_CURVES
    ) -> Any:
        """A matplotlib figure: means over seeds with bands of one standard deviation.

        Args:
            metric: a number of the log.
            over: ``round``, ``bytes``, ``gradient_evaluations`` or ``seconds``.
            max_curves: series that are drawn of a problem.
        """
        return plot.plot(self._sections(max_curves), self.datasets, metric, over)

    def figures(
        self,
        folder: str | os.PathLike,
        formats: Sequence[str] = ("pdf",),
        *,
        style: str = "serif",
        width: str = "one",
        max_curves: int = MAX_CURVES,
        landscapes: Sequence[str | os.PathLike] = (),
    ) -> list[pathlib.Path]:
        """Writes figures for papers, each with its data as CSV.

        Args:
            folder: for the files; it is made.
            formats: of ``pdf``, ``svg`` and ``png``.
            style: of the letters, ``serif`` or ``sans``.
            width: of ``one`` column (3.35 inches) or ``two`` (6.9).
            max_curves: series that are drawn of a problem.
            landscapes: folders of loss surfaces, which are drawn again in the same style.

        Returns:
            The files.
        """
        formats = [formats] if isinstance(formats, str) else list(formats)
        printed.check(formats, style, width)
        surfaces = [read_surfaces(place) for place in landscapes]
        sections = self._sections(max_curves)
        look: dict[str, Any] = {"formats": formats, "style": style, "width": width}
        return printed.write(sections, folder, surfaces=surfaces, **look)

    def title(self, section: Section) -> str:
        """The problem of a section in words."""
        return section_title(section, self.datasets)

    def _sections(self, max_curves: int) -> list[Section]:
        return make_sections(self.groups, self.baselines, self.targets, max_curves)

    def __repr__(self) -> str:
        num_runs = sum(len(group.runs) for group in self.groups)
        num_series = sum(len(group.series) for group in self.groups)
        parts = [counted(num_runs, "run"), counted(num_series, "series", "series")]
        parts += [counted(len(self.groups), "problem"), f"{len(self.skipped)} skipped"]
        return f"Comparison({', '.join(parts)})"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


@dataclasses.dataclass(frozen=True, repr=False)
class Table:
    """The table of a comparison: a text, and HTML in a notebook."""

    comparison: Comparison
    brief: bool = False

    def __str__(self) -> str:
        sections = self.comparison.sections
        parts = []
        for section in sections:
            titled = [self.comparison.title(section)] if len(sections) > 1 else []
            parts.append("\n".join([*titled, exports.as_text(section, brief=self.brief)]))
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return "".join(
            _html_table(self.comparison.title(section), section)
            for section in self.comparison.sections
        )


def _html_table(title: str, section: Section) -> str:
    header, rows = exports.text_columns(section)
    left = "style='text-align:left'"
    heads = "".join(f"<th {left}>{escaping.escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td {left}>{escaping.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    notes = "".join(f"<p>{escaping.escape(line)}</p>" for line in exports.stopped_words(section))
    return (
        f"<table><caption {left}>{escaping.escape(title)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table>{notes}"
    )


def _write(path: str | os.PathLike, text: str) -> pathlib.Path:
    file = paths.expanded(path)
    try:
        write_atomically(file, text.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(
            f"{file} cannot be written ({error.strerror or error}). Choose another place."
        ) from None
    return file
