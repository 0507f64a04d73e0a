"""What tables are made of."""

import pytest

from tests.comparison.runs import run
from tests.report.in_memory import DASH, only_table, section, two_by_two
from tests.report.pages import Page
from tf_fedsam.comparison.statistics import Difference, Spread
from tf_fedsam.report import cells
from tf_fedsam.report.cells import NONE, Cell


def test_texts_of_users_are_texts():
    assert cells.e('<b a="1">&\x1b\n') == "&lt;b a=&quot;1&quot;&gt;&amp;\ufffd"
    assert cells.e(3) == "3"


def test_plus_minus():
    assert cells.plus_minus(None) == NONE
    assert cells.plus_minus(Spread(1.5, None, 1)) == "1.5"
    assert cells.plus_minus(Spread(10.25, 0.5, 3)) == '10.25 <span class="pm">± 0.50</span>'
    assert cells.plus_minus(Spread(0.5, None, 1), lambda v: f"{v:.0%}") == "50%"


def test_table():
    """What is shown, what is sorted by, and where there is nothing."""
    header = [("Series", ""), ("Last <%>", "a hint"), ("State", "")]
    rows = [("baseline", [Cell("<i>A</i>", "A"), Cell("1.0", 1.0), Cell("done", "done")])]
    rows += [("", [Cell("B", "B"), Cell(NONE), Cell("going", "going")])]
    text = cells.table("Cap & tion", header, rows)
    assert only_table(text) == [
        *(["Series", "Last <%>", "State"], ["A", "1.0", "done"], ["B", DASH, "going"]),
    ]
    values = [a.get("data-value") for a in Page(text).attributes("td")]
    assert values == ["1.0", "done", "", "going"]
    assert [a["class"] for a in Page(text).attributes("tr")[1:]] == ["baseline", ""]
    assert Page(text).attributes("th")[1]["title"] == "a hint"
    assert list(Page(text).tables) == ["Cap & tion"]
    assert "scroll sideways" in Page(text).text


def test_figures_side_by_side():
    assert cells.figure_grid([]) == cells.figure_grid(["", ""]) == ""
    assert cells.figure_grid(["<a>", "<b>"], "small") == '<div class="small"><a><b></div>'


class TestBest:
    def test_nobody_is_best_alone(self):
        one, two = two_by_two().group.series
        assert cells.best_of([(one, 1.0)]) == []
        assert cells.best_of([(one, 1.0), (two, None)]) == []

    def test_highest_lowest_and_equal(self):
        one, two = two_by_two().group.series
        assert cells.best_of([(one, 1.0), (two, 2.0)]) == [two]
        assert cells.best_of([(one, 1.0), (two, 2.0)], lowest=True) == [one]
        assert cells.best_of([(one, 1.0), (two, 1.0)]) == [one, two]

    def test_bold_in_a_column(self):
        group = two_by_two().group
        found = {s.label: s.spread("test_accuracy") for s in group.series}
        column = cells.spread_cells(group, found, lambda v: f"{v:.2f}")
        assert column["FedSAM"].content.startswith("<strong>0.50 ")
        assert "<strong>" not in column["FedAvg"].content
        assert column["FedAvg"].value == pytest.approx(0.25)
        plain = cells.spread_cells(group, found, lowest=None)
        assert not any("strong" in cell.content for cell in plain.values())


def test_name_and_badges():
    found = section(
        run("fedavg", 0, (0.1, 0.2)),
        run("fedsam", 0, (0.3, 0.4)),
        run("fedsam", 1, (0.3,), rounds=2, complete=False),
    )
    names = {s.label: cells.name_cell(found, s) for s in found.group.series}
    texts = {label: Page(cell.content).text for label, cell in names.items()}
    assert "baseline" in texts["FedAvg"]
    assert [t for t in texts.values() if "1 of 2 rounds" in t]
    assert names["FedAvg"].value == "FedAvg"


class TestDifference:
    def test_to_the_baseline(self):
        """0.4 - 0.2 and 0.6 - 0.3: mean 0.25; t of 1 degree is 12.706, std 0.0707, over sqrt 2."""
        found = two_by_two()
        sam, avg = found.group.series
        text = Page(cells.difference_cell(found, sam, "test_accuracy").content).text
        assert text == f"+25.00 ± {12.7062 * 7.0711 / 2**0.5:.2f}, n=2"
        assert cells.difference_cell(found, avg, "test_accuracy").value == 0

    def test_of_one_seed(self):
        found = section(run("fedavg", 0, (0.2,)), run("fedsam", 0, (0.5,)))
        text = cells.difference_cell(found, found.group.series[0], "test_accuracy").content
        assert Page(text).text == "+30.00 no interval, 1 seed"

    def test_without_a_common_seed(self):
        found = section(run("fedavg", 0, (0.2,)), run("fedsam", 1, (0.5,)))
        text = cells.difference_cell(found, found.group.series[0], "test_accuracy").content
        assert "no common seed" in text

    @pytest.mark.parametrize(
        ("difference", "places", "kind"),
        [
            (Difference(0.1, 0.05, 3), ("62.0", "74.0", "86.0"), "evidence"),
            (Difference(0.0, 0.1, 3), ("26.0", "50.0", "74.0"), "open"),
            (Difference(0.1, 9.0, 3), ("2.0", "74.0", "98.0"), "open"),  # cut at the ends
        ],
    )
    def test_interval(self, difference, places, kind):
        """From 50 the middle, 48 units are the reach of 0.2."""
        drawn = Page(cells.interval(difference, 0.2))
        line, circle = drawn.attributes("line")[1], drawn.attributes("circle")[0]
        assert (line["x1"], circle["cx"], line["x2"]) == places
        assert kind in drawn.attributes("svg")[0]["class"]


def test_targets():
    """FedSAM has 30 % in round 1, which costs 20 bytes; FedAvg only one of two, in round 2."""
    found = two_by_two()
    rounds = cells.target_cells(found, 0.3, "round")
    assert Page(rounds["FedSAM"].content).text == "1 ± 0"
    assert "by 1 of 2" in rounds["FedAvg"].content
    assert cells.target_cells(found, 0.3, "bytes")["FedSAM"].value == 20
    assert cells.target_cells(found, 0.9, "bytes")["FedSAM"].content == NONE
    assert "&gt;2" in cells.target_cells(found, 0.9, "round")["FedSAM"].content


def test_swatches():
    assert "<line" not in cells.swatch(None)
    first, second = cells.swatch(0), cells.swatch(16)  # the same colour, dashed, another marker
    assert "var(--s0)" in first
    assert "var(--s0)" in second
    for part in ("line", "path"):
        assert Page(first).attributes(part) != Page(second).attributes(part)
