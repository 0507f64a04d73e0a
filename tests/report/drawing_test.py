"""Drawings that fit into a page."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from tf_fedsam.analysis.landscape.pictures import Scale
from tf_fedsam.comparison.curves import Curve
from tf_fedsam.report import drawing


def line(values, style=0, std=None):
    values = np.asarray(values, float)
    return drawing.Line(Curve(np.arange(1.0, len(values) + 1), values, std), style)


def draw(*drawn, **more):
    return drawing.lines(drawn, **{"alt": "A", "xlabel": "round", **more})


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("text")]


def test_a_chart_is_of_the_page():
    svg = draw(line([0.1, 0.5, 0.9], 3), line([0.2, 0.3, 0.4], 9), percent=True, alt='a < "b" & c')
    root = ElementTree.fromstring(svg)
    assert root.attrib["aria-label"] == 'a < "b" & c'
    assert root.attrib["role"] == "img"
    assert {"round", "20 %", "80 %", "1", "2", "3"} <= set(texts(svg))
    assert "var(--s3)" in svg
    assert "var(--s9)" in svg  # the tenth style is the second hue again, darker and dashed
    assert "stroke-dasharray" in svg
    assert "currentColor" in svg
    assert "var(--grid)" in svg
    assert not re.search(r"http|#ab00|font-family|<style|metadata", svg)


def test_text_of_ticks_is_not_shortened():
    svg = draw(line([0.001, 0.0015, 0.002]))
    assert {"0.0012", "0.0018"} <= set(texts(svg))


def test_names_in_two_charts_do_not_clash():
    first, second = (draw(line([1, 2, 3]), alt=alt) for alt in "AB")
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert draw(line([1, 2, 3]), alt="A") == first  # the same every time


def test_bands():
    with_band = draw(line([1, 2, 3], 0, np.asarray([0.1, 0.2, 0.3])))
    assert "fill-opacity: 0.18" in with_band
    assert "fill-opacity: 0.18" not in draw(line([1, 2, 3]))


def test_logarithmic_only_above_zero():
    assert {"0.1", "10"} <= set(texts(draw(line([0.1, 10]), log=True)))
    assert {"0.00", "1.00"} <= set(texts(draw(line([-1, 1]), log=True)))
    band = line([1.0, 1.0], 0, np.asarray([5.0, 5.0]))  # its lower end is below zero
    assert draw(band, log=True)


@pytest.mark.parametrize(
    ("low", "high"), [(0.31, 0.44), (3.1, 3.4), (0.9, 1.1), (1e-9, 3e-9), (0.02, 5e4), (7, 7)]
)
def test_a_logarithmic_axis_has_two_labels_at_least(low, high):
    svg = draw(line([low, high]), log=True)
    found = texts(svg)
    for label in ("round", "0", "1", "2"):  # at the x axis
        found.remove(label)
    numbers = [float(t) for t in found if t and t.strip()]
    assert len(numbers) >= 2
    assert len(numbers) < 10


def test_small_numbers_have_no_letter():
    """0.6 s, not 600m; thousands have one."""

    def ticks(last):
        values = np.linspace(0, 1, 4)
        return texts(draw(drawing.Line(Curve(last * values, values, None), 0)))

    assert {"0.6", "1.2", "3"} <= set(ticks(3.1))
    assert {"0", "3k", "6k"} <= set(ticks(6000))


def test_x_that_does_not_begin_at_zero():
    curve = Curve(np.asarray([-1.0, 0.0, 1.0]), np.asarray([1.0, 0.5, 1.0]), None)
    svg = draw(drawing.Line(curve, 0), from_zero=False)
    found = {t.replace("\N{MINUS SIGN}", "-") for t in texts(svg)}
    assert {"-1.0", "-1.00"} & found


def test_a_surface_and_its_colours():
    scale = Scale(0.1, 5.0, True)
    axis = [-1.0, 0.0, 1.0]
    svg = drawing.contour(np.asarray([[9, 1, 9], [1, 0.1, 1], [9, 1, 9.0]]), axis, scale, alt="S")
    assert texts(svg).count("1") == 2
    assert svg.count("data:image/png") == 1  # the filled part; words and lines stay sharp
    assert "mean cross-entropy, log scale" in texts(drawing.scale_bar(scale))


def test_rounding_errors_are_not_made_large():
    assert {"0.100"} <= set(texts(draw(line([0.1, 0.1 + 1e-8, 0.1 - 1e-8]))))
    assert not any("e" in t for t in texts(draw(line([0.1, 0.1 + 1e-8]), xlabel="x")))


def test_a_single_point_is_a_dot():
    assert "<use" in draw(line([0.5])).split("clip-path", 1)[1]


@pytest.mark.parametrize("length", [1, 300, 301, 5000])
def test_thinned_keeps_extremes_and_ends(length):
    values = np.sin(np.arange(length))
    values[length // 3], values[length // 2] = 9, -9
    kept = drawing.thinned(values)
    assert len(kept) <= drawing.MOST_POINTS
    assert {0, length - 1, int(np.argmax(values)), int(np.argmin(values))} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()


def test_a_long_run_makes_a_small_drawing():
    noise = np.random.default_rng(0).normal(size=20_000)
    assert len(draw(line(noise, 0, np.ones(20_000)))) < 40_000


def test_histogram():
    svg = drawing.histogram(np.asarray([0.25, 0.75]), 2, alt="H", mark=0.3)
    assert texts(svg) == ["0", "25", "50", "75", "100 %"]
    assert "var(--s2)" in svg
    assert drawing.histogram(np.zeros(20), 0, alt="none")  # nor is a word of the alt text special


def test_heat_map():
    svg = drawing.heat_map(np.eye(5), alt="M", xlabel="client", ylabel="class", shares=True)
    assert {"client", "class", "20 %"} <= set(texts(svg))
    assert svg.count('href="data:image/png;base64,') == 2  # the matrix and its scale
    assert drawing.heat_map(np.zeros((3, 4)), alt="M", xlabel="x", ylabel="y", square=True)


def test_names_along_a_heat_map():
    """They are text of the page: no mathematics, no tags, no letter that is missing."""
    names = ["$x$", "<b>&", "\u732b", "a name that is long"]
    svg = drawing.heat_map(
        np.eye(4), alt="M", xlabel="x", ylabel="y", square=True, xnames=names, ynames=names
    )
    assert [text for text in texts(svg) if text not in "xy" and "%" not in text][:8] == [
        *names[:3],
        "a name that i\u2026",
    ] * 2
    assert "@" not in svg
    assert "0.5" not in texts(svg)


def test_of_very_many_names_some_are_shown():
    names = [f"c{number}" for number in range(100)]
    svg = drawing.heat_map(np.eye(100), alt="M", xlabel="x", ylabel="y", ynames=names)
    shown = [text for text in texts(svg) if text.startswith("c")]
    assert shown == names[::5]
    assert len(shown) <= drawing.MOST_NAMES
    assert {"0", "20"} <= set(texts(svg))  # columns are numbers


def test_styles():
    assert drawing.colour(3 + 8) == "var(--s11)"  # the second look of a hue is darker
    assert drawing.dashes(0) == ""
    assert drawing.dashes(8) == "6 2.5"
    paths = {drawing.marker_path(8 * variant) for variant in range(8)}
    assert len(paths) == 8
