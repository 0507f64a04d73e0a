"""The drawn parts of a report's page: curves, clients, confusion, splits, loss surfaces."""

import base64
import dataclasses
from collections.abc import Iterable, Mapping

from launch.report_parts import (
    MEGA,
    NONE,
    Cell,
    Report,
    Section,
    between,
    counted,
    e,
    listed,
    name_cell,
    percent,
    short,
    swatch,
    table,
)
from tf_fedsam.analysis import charts, compare
from tf_fedsam.analysis.compare import Run
from tf_fedsam.analysis.fairness import row_shares

SHOWN_SPLITS = 6
X_AXES = {
    None: ("by round", "round", 1.0),
    "bytes": ("by traffic", "MB sent, down and up", MEGA),
    "gradient_evaluations": ("by gradients", "gradient evaluations", 1.0),
    "seconds": ("by time", "seconds of training", 1.0),
}


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number of the log that is drawn and listed."""

    name: str
    title: str
    percent: bool = False
    log: bool = False


ACCURACY = Measure("test_accuracy", "Test accuracy", percent=True)
FLATNESS = Measure("flatness_distance", "Flatness distance", log=True)
CHARTS: dict[str, tuple[str, tuple[Measure, ...]]] = {
    "Loss": (
        "Train loss is the mean over the local steps of a round; the other two are of the global "
        "model.",
        (
            Measure("train_loss", "Train loss"),
            Measure("test_loss", "Test loss"),
            Measure("global_train_loss", "Train loss of the global model"),
        ),
    ),
    "Flatness and drift": (
        "Mean squared distance of local models to the new global model (flatness distance) and to "
        "their own mean (dispersion); of all clients' last models to the global one (divergence).",
        (
            FLATNESS,
            Measure("dispersion", "Dispersion", log=True),
            Measure("divergence", "Divergence", log=True),
        ),
    ),
    "Sharpness": (
        "How much the train loss rises one step uphill, and the largest eigenvalue of its Hessian.",
        (
            Measure("sharpness", "Sharpness"),
            Measure("hessian_eigenvalue", "Largest Hessian eigenvalue"),
        ),
    ),
    "Agreement": (
        "Mean cosine between updates of two clients, and of an update to the server's momentum.",
        (
            Measure("update_cosine", "Cosine between updates"),
            Measure("momentum_cosine", "Cosine to the momentum"),
        ),
    ),
    "Lengths": (
        "Norm of the global update and of the clients' perturbation.",
        (
            Measure("update_norm", "Update norm", log=True),
            Measure("perturbation_norm", "Perturbation norm"),
        ),
    ),
}


def legend(section: Section, values: Mapping[str, str]) -> str:
    items = "".join(
        f"<li>{swatch(section.styles[s.label])}{e(s.label)}"
        f"{f' <b>{values[s.label]}</b>' if values[s.label] else ''}</li>"
        for s in section.drawn
        if s.label in values
    )
    return f'<ul class="legend">{items}</ul>'


def chart(section: Section, measure: Measure, cost: str | None = None) -> str:
    """A figure, or nothing if the logs have no curve of it."""
    by, xlabel, scale = X_AXES[cost]
    lines, ends = [], {}
    form = (lambda v: f"{percent(v, 1)} %") if measure.percent else short
    for series in section.drawn:
        found = compare.curve(series.runs, measure.name, cost)
        if found is None:
            continue
        found = dataclasses.replace(found, x=found.x / scale)
        lines.append(charts.Line(found, section.styles[series.label]))
        ends[series.label] = form(float(found.mean[-1]))
    if not any(len(line.curve.x) > 1 for line in lines):
        return ""
    said = ", ".join(
        f"{label} {'ends ' if first else ''}at {end}"
        for first, (label, end) in zip((True, *[False] * len(ends)), ends.items(), strict=False)
    )
    drawing = charts.lines(
        lines[::-1],
        alt=compare.printable(f"{measure.title} {by}: {said}."),
        xlabel=xlabel,
        percent=measure.percent,
        log=measure.log,
    )
    return (
        f"<figure><figcaption>{e(measure.title)} {by}</figcaption>{drawing}"
        f"{legend(section, ends)}</figure>"
    )


def figures(parts: Iterable[str], kind: str = "charts") -> str:
    found = "".join(parts)
    return f'<div class="{kind}">{found}</div>' if found else ""


def curves(section: Section) -> str:
    left_out = len(section.group.series) - len(section.drawn)
    note = (
        f"<p>{len(section.drawn)} series are drawn: those with the best last accuracy and the "
        f"baseline. {left_out} more are in the tables; --max_curves draws more.</p>"
        if left_out
        else ""
    )
    band = (
        "Lines are means over seeds, bands one standard deviation to each side; they end where the "
        "first seed has no value."
        if any(len(s.runs) > 1 for s in section.drawn)
        else "Each line is a single run, so there are no bands."
    )
    text = f"<h3>Accuracy</h3><p>{band} Numbers are the last ones.</p>{note}"
    text += figures(chart(section, ACCURACY, cost) for cost in X_AXES)
    for title, (about, measures) in CHARTS.items():
        drawn = figures(chart(section, measure) for measure in measures)
        if drawn:
            text += f"<h3>{title}</h3><p>{about}</p>{drawn}"
    return text


def fairness(section: Section) -> str:
    text = ""
    for part, about in (
        ("train", "each client's own training examples"),
        ("validation", "validation examples in each client's class mix"),
    ):
        found = {s.label: compare.clients(s.runs, part) for s in section.group.series}
        if not any(found.values()):
            continue
        small, rows = [], []
        for series in section.group.series:
            clients = found[series.label]
            if clients is None:
                continue
            std = "" if clients.std is None else f" ({percent(clients.std, 1)})"
            worst = clients.worst_decile
            words = f"{percent(clients.mean, 1)} %{std}"
            worst_words = "" if worst is None else f", worst tenth {percent(worst, 1)} %"
            worst_cell = Cell(NONE) if worst is None else Cell(percent(worst), worst)
            std_cell = (
                Cell(NONE) if clients.std is None else Cell(percent(clients.std), clients.std)
            )
            row = [name_cell(section, series), Cell(percent(clients.mean), clients.mean), std_cell]
            rows.append(("", [*row, worst_cell]))
            if clients.histogram is None or series.label not in section.styles:
                continue
            drawing = charts.histogram(
                clients.histogram,
                section.styles[series.label],
                alt=compare.printable(
                    f"Clients by accuracy on {about}, {series.label}: mean {words}{worst_words}."
                ),
                mark=worst,
            )
            small.append(
                f"<figure><figcaption>{swatch(section.styles[series.label])}{e(series.label)} "
                f'<span class="pm">{e(words)}</span></figcaption>{drawing}</figure>'
            )
        header = [
            ("Series", ""),
            ("Mean, %", ""),
            ("Std over clients, %", ""),
            ("Worst tenth, %", ""),
        ]
        text += (
            f"<h4>On {e(about)}</h4>{figures(small, 'small')}"
            f"{table(f'Accuracy on {about}', header, rows)}"
        )
    if not text:
        return ""
    return (
        "<h3>Clients</h3><p>Accuracy of the global model on each client at the last probe: mean "
        "(std) over clients, averaged over seeds. Bars are shares of the clients; the dashed line "
        f"is the mean over the worst tenth.</p>{text}"
    )


def confusions(section: Section) -> str:
    found = []
    for series in section.drawn:
        matrix = compare.confusion(series.runs)
        if matrix is None:
            continue
        names = class_names(series.runs[0], len(matrix))
        mistakes = [
            f"{names[a]} taken for {names[b]} ({percent(share, 0)} %)"
            for a, b, share in compare.most_confused(matrix)
        ]
        said = f"Most frequent mistakes: {', '.join(mistakes)}." if mistakes else "No mistakes."
        drawing = charts.heat_map(
            row_shares(matrix),
            alt=compare.printable(f"Confusion matrix of {series.label}. {said}"),
            xlabel="predicted class",
            ylabel="true class",
            square=True,
            shares=True,
        )
        found.append(
            f"<figure><figcaption>{swatch(section.styles[series.label])}{e(series.label)}"
            f'</figcaption>{drawing}<p class="said">{e(said)}</p></figure>'
        )
    if not found:
        return ""
    return (
        "<h3>Confusion</h3><p>Share of each true class (row) that was given each class (column) on "
        f"the test examples at the last probe, all seeds together.</p>{figures(found, 'medium')}"
    )


def class_names(run: Run, num_classes: int) -> list[str]:
    data = run.config.get("data")
    names = data.get("class_names") if isinstance(data, dict) else None
    if isinstance(names, list) and len(names) == num_classes:
        return [str(name)[:40] for name in names]
    return [f"class {index}" for index in range(num_classes)]


def splits(section: Section) -> str:
    """A picture of every distinct split."""
    first: dict[str, Run] = {}
    for run in section.group.runs:
        if compare.class_counts(run) is not None:
            first.setdefault(run.fingerprints[1], run)
    found = []
    for run in list(first.values())[:SHOWN_SPLITS]:
        counts = compare.class_counts(run)
        assert counts is not None
        partition = run.config.get("partition")
        fingerprint = partition.get("fingerprint", "") if isinstance(partition, dict) else ""
        present = (counts > 0).sum(axis=1)
        sizes = counts.sum(axis=1)
        said = (
            f"{len(counts)} clients with {between(sizes)} examples of {between(present)} of the "
            f"{counts.shape[1]} classes"
        )
        drawing = charts.heat_map(
            counts.T,
            alt=compare.printable(f"Split of seed {run.seed}: {said}."),
            xlabel="client",
            ylabel="class",
        )
        found.append(
            f'<figure><figcaption>Seed {e(run.seed)} <span class="pm">split {e(fingerprint)}</span>'
            f'</figcaption>{drawing}<p class="said">{e(said)}.</p></figure>'
        )
    if not found:
        return ""
    more = len(first) - len(found)
    rest = f" {counted(more, 'more split')} not shown." if more > 0 else ""
    return (
        "<h3>Split</h3><p>Examples of each class on each client (at most the first 200); the split "
        f"depends on the seed and is the same for all methods.{rest}</p>{figures(found)}"
    )


def surfaces(report: Report) -> str:
    if not report.pictures:
        return ""
    found = []
    for picture in report.pictures:
        data = base64.b64encode(picture.content).decode()
        found.append(
            f'<figure class="picture"><img src="data:image/png;base64,{data}" '
            f'alt="{e(picture.alt)}"><figcaption>{e(picture.alt)}</figcaption></figure>'
        )
    folders = listed(dict.fromkeys(p.folder for p in report.pictures))
    return (
        f'<section><h2 id="surfaces">Loss surfaces</h2><p>From {e(folders)}.</p>'
        f"{figures(found, 'pictures')}</section>"
    )
