"""The drawn parts of a report's page that are no curves: clients, confusion, splits, surfaces."""

import base64
from collections.abc import Sequence

import numpy as np

from tf_fedsam import looks
from tf_fedsam.analysis.fairness import row_shares
from tf_fedsam.analysis.landscape.pictures import Curve as LossCurve
from tf_fedsam.comparison import clients
from tf_fedsam.comparison.clients import Clients
from tf_fedsam.comparison.compared_run import ComparedRun
from tf_fedsam.comparison.curves import Curve
from tf_fedsam.comparison.series import Series
from tf_fedsam.comparison.words import between, counted, listed, percent, short
from tf_fedsam.report import drawing
from tf_fedsam.report.cells import MORE, NONE, Cell, e, figure_grid, name_cell, swatch, table
from tf_fedsam.report.measures import CLIENTS_EXAMPLES
from tf_fedsam.report.sections import Report, Section
from tf_fedsam.report.surfaces import Drawn
from tf_fedsam.text import printable

SHOWN_SPLITS = 6


def fairness(section: Section) -> str:
    """How the accuracies of a model on the clients differ."""
    text = ""
    for part, about in CLIENTS_EXAMPLES.items():
        found = [
            (series, of_series)
            for series in section.group.series
            if (of_series := clients.clients(series.runs, part)) is not None
        ]
        if found:
            small = [_histogram(section, series, told, about) for series, told in found]
            rows = [("", _client_cells(section, series, told)) for series, told in found]
            header = ["Series", "Mean, %", "Std over clients, %", "Worst tenth, %"]
            text += (
                f"<h4>On {e(about)}</h4>{figure_grid(small, 'small')}"
                f"{table(f'Accuracy on {about}', [(name, '') for name in header], rows)}"
            )
    if not text:
        return ""
    return (
        "<h3>Clients</h3><p>Accuracy of the global model on each client at the last probe: mean "
        "(std) over clients, averaged over seeds. Bars are shares of the clients; the dashed line "
        f"is the mean over the worst tenth.</p>{text}"
    )


def _client_cells(section: Section, series: Series, told: Clients) -> list[Cell]:
    numbers = (told.mean, told.std, told.worst_decile)
    cells = [Cell(NONE) if value is None else Cell(percent(value), value) for value in numbers]
    return [name_cell(section, series), *cells]


def _histogram(section: Section, series: Series, told: Clients, about: str) -> str:
    """A figure, or nothing if the logs have no histogram or the series is not drawn."""
    if told.histogram is None or series.label not in section.styles:
        return ""
    std = "" if told.std is None else f" ({percent(told.std, 1)})"
    words = f"{percent(told.mean, 1)} %{std}"
    worst = told.worst_decile
    worst_words = "" if worst is None else f", worst tenth {percent(worst, 1)} %"
    picture = drawing.histogram(
        told.histogram,
        section.styles[series.label],
        alt=printable(
            f"Clients by accuracy on {about}, {series.label}: mean {words}{worst_words}."
        ),
        mark=worst,
    )
    return (
        f"<figure><figcaption>{swatch(section.styles[series.label])}{e(series.label)} "
        f'<span class="pm">{e(words)}</span></figcaption>{picture}</figure>'
    )


def confusions(section: Section) -> str:
    found = []
    for series in section.drawn:
        matrix = clients.confusion(series.runs)
        if matrix is None:
            continue
        names = class_names(series.runs[0], len(matrix))
        mistakes = [
            f"{names[a]} taken for {names[b]} ({percent(share, 0)} %)"
            for a, b, share in clients.most_confused(matrix)
        ]
        said = f"Most frequent mistakes: {', '.join(mistakes)}." if mistakes else "No mistakes."
        picture = drawing.heat_map(
            row_shares(matrix),
            alt=printable(f"Confusion matrix of {series.label}. {said}"),
            xlabel="predicted class",
            ylabel="true class",
            square=True,
            shares=True,
            xnames=_told_names(series.runs[0], len(matrix)),
            ynames=_told_names(series.runs[0], len(matrix)),
        )
        found.append(
            f"<figure><figcaption>{swatch(section.styles[series.label])}{e(series.label)}"
            f'</figcaption>{picture}<p class="said">{e(said)}</p></figure>'
        )
    if not found:
        return ""
    return (
        "<h3>Confusion</h3><p>Share of each true class (row) that was given each class (column) on "
        "the test examples at the last probe, all seeds together.</p>"
        f"{figure_grid(found, 'medium')}"
    )


def class_names(run: ComparedRun, num_classes: int) -> list[str]:
    told = _told_names(run, num_classes)
    return told or [f"class {index}" for index in range(num_classes)]


def _told_names(run: ComparedRun, num_classes: int) -> list[str]:
    """The names of the classes, if the run has them."""
    data = run.config.get("data")
    names = data.get("class_names") if isinstance(data, dict) else None
    if isinstance(names, list) and len(names) == num_classes:
        return [printable(str(name))[:40] for name in names]
    return []


def splits(section: Section) -> str:
    """A picture of every distinct split."""
    first: dict[str, ComparedRun] = {}
    for run in section.group.runs:
        if clients.class_counts(run) is not None:
            first.setdefault(run.fingerprints[1], run)
    found = []
    for run in list(first.values())[:SHOWN_SPLITS]:
        counts = clients.class_counts(run)
        assert counts is not None
        partition = run.config.get("partition")
        fingerprint = partition.get("fingerprint", "") if isinstance(partition, dict) else ""
        present = (counts > 0).sum(axis=1)
        sizes = counts.sum(axis=1)
        said = (
            f"{len(counts)} clients with {between(sizes)} examples of {between(present)} of the "
            f"{counts.shape[1]} classes"
        )
        picture = drawing.heat_map(
            counts.T,
            alt=printable(f"Split of seed {run.seed}: {said}."),
            xlabel="client",
            ylabel="class",
            ynames=_told_names(run, counts.shape[1]),
        )
        found.append(
            f'<figure><figcaption>Seed {e(run.seed)} <span class="pm">split {e(fingerprint)}</span>'
            f'</figcaption>{picture}<p class="said">{e(said)}.</p></figure>'
        )
    if not found:
        return ""
    more = len(first) - len(found)
    rest = f" {counted(more, 'more split')} not shown." if more > 0 else ""
    return (
        "<h3>Split</h3><p>Examples of each class on each client (at most the first 200); the split "
        f"depends on the seed and is the same for all methods.{rest}</p>{figure_grid(found)}"
    )


def surfaces(report: Report) -> str:
    """Loss surfaces: drawn for this page where their numbers are there, else as pictures."""
    if not report.pictures:
        return ""
    text = "".join(_drawn_surfaces(one) for one in report.surfaces)
    drawn_anew = {
        (str(one.folder), file)
        for one in report.surfaces
        for file, numbers in (
            *(("contour.png", one.panels), ("line.png", one.lines), ("between.png", one.between)),
        )
        if numbers
    }
    found = []
    for picture in report.pictures:
        if (picture.folder, picture.file) in drawn_anew:
            continue
        data = base64.b64encode(picture.content).decode()
        found.append(
            f'<figure class="picture"><div class="box" role="region" tabindex="0" '
            f'aria-label="A picture"><img src="data:image/png;base64,{data}" '
            f'alt="{e(picture.alt)}"></div>{MORE}<figcaption>{e(picture.alt)}</figcaption></figure>'
        )
    folders = listed(dict.fromkeys(p.folder for p in report.pictures))
    return (
        f'<section><h2 id="surfaces">Loss surfaces</h2><p>From {e(folders)}.</p>{text}'
        f"{figure_grid(found, 'pictures')}</section>"
    )


def _drawn_surfaces(drawn: Drawn) -> str:
    """Contours side by side, and lines."""
    text = ""
    if drawn.panels:
        scale = drawn.scale([panel.loss for panel in drawn.panels])
        small = [
            f'<figure><figcaption>{e(panel.title)} <span class="pm">{e(panel.note)}</span>'
            f"</figcaption>"
            + drawing.contour(
                panel.loss,
                drawn.axis,
                scale,
                alt=printable(f"Loss around {panel.title}: {panel.note}."),
            )
            + "</figure>"
            for panel in drawn.panels
        ]
        clipped = f" Yellow is {scale.high:.3g} or more." if scale.clipped else ""
        text += (
            "<h3>From above</h3><p>Loss around each solution in two random filter-normalised "
            f"directions, the same for all and on one scale.{clipped}</p>"
            f'<div class="bar">{drawing.scale_bar(scale)}</div>{figure_grid(small, "small")}'
        )
    pairs = (
        ("Along a line", "distance in filter norms", drawn.lines),
        ("Between solutions", "share of the way from the first run to the second", drawn.between),
    )
    for title, along, curves in pairs:
        if curves:
            text += f"<h3>{title}</h3>{_line_charts(drawn, curves, along)}"
    return text


def _line_charts(drawn: Drawn, curves: Sequence[LossCurve], along: str) -> str:
    scale = drawn.scale([curve.loss for curve in curves])
    styles = looks.styles([curve.method for curve in curves])
    log = scale.high / scale.low > 20
    clipped = f", drawn up to {scale.high:.3g}" if scale.clipped else ""
    what = {
        f"Mean cross-entropy{', log scale' if log else ''}{clipped}": lambda c: scale.clip(c.loss),
        "Accuracy": lambda c: c.accuracy,
    }
    charts = []
    for title, values in what.items():
        lines = [
            drawing.Line(Curve(np.asarray(curve.at), values(curve), None), style)
            for curve, style in zip(curves, styles, strict=True)
        ]
        said = ", ".join(
            f"{curve.label} from {short(line.curve.mean.min())} to {short(line.curve.mean.max())}"
            for curve, line in zip(curves, lines, strict=True)
        )
        picture = drawing.lines(
            lines,
            alt=printable(f"{title} along the line: {said}."),
            xlabel=along,
            percent=title == "Accuracy",
            log=log and title != "Accuracy",
            from_zero=False,
        )
        names = "".join(
            f"<li>{swatch(style)}{e(curve.label)}</li>"
            for curve, style in zip(curves, styles, strict=True)
        )
        charts.append(
            f"<figure><figcaption>{e(title)}</figcaption>{picture}"
            f'<ul class="legend">{names}</ul></figure>'
        )
    return figure_grid(charts)
