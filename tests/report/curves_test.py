"""The curves of a page: what is drawn, said and left out."""

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
