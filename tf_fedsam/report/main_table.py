"""The table that a report is about: accuracies, differences, what targets took."""

from collections.abc import Iterator

from tf_fedsam.comparison.series import Series
from tf_fedsam.comparison.statistics import spread
from tf_fedsam.comparison.values import number
from tf_fedsam.comparison.words import counted, percent
from tf_fedsam.report.cells import (
    COLUMNS,
    COSTS,
    Cell,
    difference_cell,
    e,
    name_cell,
    seeds_cell,
    spread_cells,
    table,
    target_cells,
)
from tf_fedsam.report.sections import Section

TOLD_COSTS = ("round", "bytes", "gradient_evaluations")


def main_table(section: Section) -> str:
    """The table with its notes."""
    group, baseline = section.group, section.baseline
    columns: list[dict[str, Cell]] = [
        {s.label: name_cell(section, s) for s in group.series},
        {s.label: seeds_cell(s) for s in group.series},
    ]
    accuracies = [
        spread_cells(group, {s.label: s.spread(name) for s in group.series}, percent)
        for name in COLUMNS
    ]
    columns.append(accuracies[0])
    if baseline is not None:
        reach = _reach(section)
        columns.append(
            {s.label: difference_cell(section, s, "test_accuracy", reach) for s in group.series}
        )
    columns += accuracies[1:]
    columns += [cells for _, _, cells in _of_some(section)]
    columns += [target_cells(section, t, cost) for t in section.targets for cost in TOLD_COSTS]
    rows = []
    for series in group.series:
        kind = "baseline" if series is baseline else "" if series.complete else "unfinished"
        rows.append((kind, [column[series.label] for column in columns]))
    notes = "".join(f"<li>{e(note)}</li>" for note in _notes(section))
    return (
        table("Test accuracy and what it took", _header(section), rows)
        + f'<ul class="notes">{notes}</ul>'
    )


def _header(section: Section) -> list[tuple[str, str]]:
    baseline = section.baseline
    header = [
        ("Series", ""),
        ("Seeds", "runs with different seeds"),
        ("Last, %", "test accuracy after the last round: mean ± standard deviation over seeds"),
    ]
    if baseline is not None:
        hint = f"of the last accuracy to {baseline.label}: mean over seeds ± 95 % interval"
        header.append(("Difference, points", hint))
    header += [
        ("Best, %", "best tested round"),
        ("Mean of last 10, %", "mean of the last ten tests"),
        ("FedInit, %", "best of the last 50 rounds of the curve smoothed over five tests"),
    ]
    header += [(title, hint) for title, hint, _ in _of_some(section)]
    for target in section.targets:
        share = f"{100 * target:g} %"
        hint = f"until the first test with an accuracy of {share}"
        header += [(f"{COSTS[cost][0]} to {share}", hint) for cost in TOLD_COSTS]
    return header


def _of_some(section: Section) -> list[tuple[str, str, dict[str, Cell]]]:
    """Title, hint and cells of the columns that only some runs fill."""
    group, columns = section.group, []
    held_out = {s.label: s.held_out() for s in group.series}
    if any(held_out.values()):
        hint = "mean of the last ten accuracies on training examples that nobody trained on"
        columns.append(("Held out, %", hint, spread_cells(group, held_out, percent)))
    if any("test_accuracy_last" in run.last_probe for run in group.runs):
        found = {
            s.label: spread(number(r.last_probe.get("test_accuracy_last")) for r in s.runs)
            for s in group.series
        }
        hint = "test accuracy of the last model, where the mean of models (SWA) is the result"
        columns.append(("Last model, %", hint, spread_cells(group, found, percent, lowest=None)))
    if any(run.settings.get("dp_clip_norm") is not None for run in group.runs):
        cells = {s.label: _epsilon_cell(s) for s in group.series}
        columns.append(("Epsilon", "privacy loss of all rounds, at dp_delta", cells))
    return columns


def _epsilon_cell(series: Series) -> Cell:
    """The largest of its runs, which may have had different numbers of rounds."""
    settings = series.runs[0].settings
    if settings.get("dp_clip_norm") is None:
        return Cell("not private")
    if settings.get("sampling") != "bernoulli":
        return Cell("not accounted")
    found = [number(run.last_probe.get("epsilon")) for run in series.runs]
    there = [value for value in found if value is not None]
    return Cell(f"{max(there):.2f}", max(there)) if there else Cell("infinite, no noise")


def _reach(section: Section) -> float:
    """The difference that the drawn intervals span to each side."""
    baseline = section.baseline
    found = [
        s.difference(baseline, "test_accuracy")
        for s in section.group.complete
        if baseline is not None and s is not baseline
    ]
    reach = max((abs(d.mean) + d.half for d in found if d and d.half is not None), default=0.0)
    # One seed too few makes an interval that would squeeze all others to a dot.
    return min(reach, 3 * max((abs(d.mean) for d in found if d), default=0) + 0.02)


def _notes(section: Section) -> Iterator[str]:
    """What a reader must know before they believe the numbers."""
    group = section.group
    yield (
        "Mean ± sample standard deviation over seeds. Bold is the best mean of a column; values "
        "closer to it than the uncertainty of their difference are no evidence that it is better."
    )
    yield from _notes_on_differences(section)
    if len(group.seeds) == 1:
        yield "All runs have the same seed, so nothing here tells how much is chance."
    elif len(group.seeds) == 2 and any(s is not section.baseline for s in group.complete):
        yield "Two seeds make wide intervals: t is 12.7 for two pairs, 4.3 for three, 2.8 for five."
    if group.selected:
        yield _selection(section)
    elif group.tuned:
        yield (
            "Some methods are here with several settings. The best of them was picked by test "
            "accuracy, which is optimistic: the more settings are tried, the better the best of "
            "them is by chance. Choose on other data, and give every method as many tries."
        )
    if section.targets and not section.targets_given:
        yield (
            f"No targets were given; {100 * section.targets[0]:g} % is the highest multiple of "
            f"5 % that every complete run reached."
        )
    stopped = sum(len(s.stopped) for s in group.series)
    if stopped:
        yield (
            f"{counted(stopped, 'run')} stopped early: last accuracies and costs are those of the "
            f"round in which a run stopped. The table of all runs says why."
        )
    if any(not s.complete for s in group.series):
        yield (
            "Runs that are not complete are listed by themselves, up to their last tested round; "
            "they take no part in differences and in what is bold."
        )
    if group.data_depend_on_seed:
        yield (
            "Each seed has data of its own (a subset, noise or a test part drawn by the seed), so "
            "the spread over seeds includes that of the data."
        )


def _selection(section: Section) -> str:
    """Which setting of each method is best on held-out examples, and its test accuracy."""
    told = []
    for series in section.group.selected:
        held, test = series.held_out(), series.spread("test_accuracy")
        assert held is not None  # or it would not have been selected
        assert test is not None
        told.append(
            f"{series.label} ({percent(held.mean)} % held out, {percent(test.mean)} % on test)"
        )
    return (
        "Some methods are here with several settings. By the accuracy on training examples that "
        "nobody trained on (mean of the last ten tests) the best of each is: "
        f"{'; '.join(told)}. Its test accuracy had no part in the choice."
    )


def _notes_on_differences(section: Section) -> Iterator[str]:
    group, baseline = section.group, section.baseline
    others = [s for s in group.complete if s is not baseline]
    if baseline is None or not others:
        return
    found = [s.difference(baseline, "test_accuracy") for s in others]
    intervals = sum(d is not None and d.half is not None for d in found)
    several = (
        f" {intervals} intervals are not corrected for being {intervals}: some may miss by chance."
        if intervals > 2
        else ""
    )
    yield (
        f"Differences are to {baseline.label} in percentage points of the last test accuracy, "
        f"seed by seed (the same seed means the same split, cohorts and batches), with a 95 % "
        f"confidence interval by Student's t over n seeds. An interval that includes zero is "
        f"no evidence of a difference; one seed has no interval.{several}"
    )
    same = [s for s in group.complete if s.algo == baseline.algo]
    if len(same) > 1:
        which = "that with the best last accuracy" if baseline is same[0] else "one of them"
        yield (
            f"There are {len(same)} series of the baseline's algorithm; {which} is taken. "
            f"baseline='LABEL' takes another."
        )
