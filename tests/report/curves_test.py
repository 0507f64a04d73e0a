"""The curves of a page: what is drawn, said and left out."""

import dataclasses
import re

from tests.comparison.runs import run
from tests.report.in_memory import logged, section, two_by_two
from tests.report.pages import Page
from tf_fedsam.report.curves import chart, curves, distinct
from tf_fedsam.report.measures import ACCURACY, Measure


def test_a_chart_says_where_lines_end():
    """Means of 0.2 and 0.3, and of 0.4 and 0.6."""
    page = Page(chart(two_by_two(), ACCURACY))
    assert "Test accuracy by round" in page.text
    assert "FedSAM 50.0 %" in page.text
    assert "FedAvg 25.0 %" in page.text
    alt = next(a["aria-label"] for a in page.attributes("svg") if "aria-label" in a)
    assert alt == "Test accuracy by round: FedSAM ends at 50.0 %, FedAvg at 25.0 %."


def test_over_other_costs():
    assert "by traffic" in Page(chart(two_by_two(), ACCURACY, "bytes")).text
    assert "by time" in Page(chart(two_by_two(), ACCURACY, "seconds")).text


def test_nothing_to_draw():
    assert chart(two_by_two(), Measure("sharpness", "Sharpness")) == ""
    assert chart(section(run(accuracies=(0.1,))), ACCURACY) == ""  # a single point is no curve


def test_twins_are_drawn_once():
    """Equal but for rounding they are one drawing; a series that differs keeps them apart."""
    measures = [Measure("flatness_distance", "Flatness distance"), Measure("dispersion", "Spread")]

    def of(**last):
        runs = [logged("fedavg", flatness_distance=2.0, dispersion=2.000001), logged(**last)]
        return section(*runs)

    same = of(algo="fedsam", flatness_distance=3.0, dispersion=3.0)
    assert distinct(same, measures) == [(measures[0], (measures[1],))]
    other = of(algo="fedsam", flatness_distance=3.0, dispersion=2.9)
    assert distinct(other, measures) == [(measures[0], ()), (measures[1], ())]
    lacking = of(algo="fedsam", flatness_distance=3.0)
    assert len(distinct(lacking, measures)) == 2


def test_one_scale_for_what_is_compared():
    """0.1 to 0.2 beside 0.6 to 0.8: on one scale the axis of each has 0.2 and 0.8 on it."""
    values = {"sharpness_local_on_own": (0.1, 0.2), "sharpness_local_on_all": (0.6, 0.8)}
    one = run("fedavg", 0, (0.1, 0.2))
    records = [
        {**record, **{name: both[i] for name, both in values.items()}}
        for i, record in enumerate(one.records)
    ]
    page = curves(section(dataclasses.replace(one, records=records)))
    _, own, everyone = page.partition("Local against global")[2].split("<figure>")
    for chart_of_one in (own, everyone):
        ticks = re.findall(r">([\d.]+)</text>", chart_of_one)
        assert {"0.2", "0.8"} <= set(ticks)


def test_held_out_examples_are_drawn():
    one = run("fedavg", 0, (0.1, 0.2))
    records = [{**r, "validation_accuracy": 0.5, "validation_loss": 1.0} for r in one.records]
    text = Page(curves(section(dataclasses.replace(one, records=records)))).text
    assert "Accuracy on held-out examples by round" in text
    assert "Loss on held-out examples by round" in text
    assert "held-out" not in Page(curves(two_by_two())).text


def test_a_logarithmic_axis_is_named():
    found = section(run("fedavg"), run("fedsam"))
    named = chart(found, Measure("test_accuracy", "A", log=True), twins=[Measure("b", "Bee")])
    assert "A = bee by round log scale" in Page(named).text
    assert "log scale" not in chart(found, Measure("test_accuracy", "A"))


def test_what_is_left_out_is_told():
    runs = [run("fedsam", 0, (0.1, 0.01 * i), lr=float(i)) for i in range(1, 6)]
    text = Page(curves(section(*runs, max_curves=2))).text
    assert "2 series are drawn" in text
    assert "3 more are in the tables; max_curves draws more" in text
    assert "max_curves" not in Page(curves(two_by_two())).text


def test_bands():
    assert "bands one standard deviation" in curves(two_by_two())
    assert "Each line is a single run" in curves(section(run("fedavg"), run("fedsam")))
