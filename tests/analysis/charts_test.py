"""Drawings that fit into a page."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from tf_fedsam.analysis import charts
from tf_fedsam.analysis.compare import Curve


def line(values, style=0, std=None):
    values = np.asarray(values, float)
    return charts.Line(Curve(np.arange(1.0, len(values) + 1), values, std), style)


def draw(*drawn, **more):
    return charts.lines(drawn, **{"alt": "A", "xlabel": "round", **more})


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("text")]


def test_a_chart_is_of_the_page():
    svg = draw(line([0.1, 0.5, 0.9], 3), line([0.2, 0.3, 0.4], 9), percent=True, alt='a < "b" & c')
    root = ElementTree.fromstring(svg)
    assert root.attrib["aria-label"] == 'a < "b" & c'
    assert root.attrib["role"] == "img"
    assert {"round", "20 %", "80 %", "1", "2", "3"} <= set(texts(svg))
    assert "var(--s3)" in svg
    assert "var(--s1)" in svg  # the ninth style is the second colour again, dashed
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


def test_rounding_errors_are_not_made_large():
    assert {"0.100"} <= set(texts(draw(line([0.1, 0.1 + 1e-8, 0.1 - 1e-8]))))
    assert not any("e" in t for t in texts(draw(line([0.1, 0.1 + 1e-8]), xlabel="x")))


def test_a_single_point_is_a_dot():
    assert "<use" in draw(line([0.5])).split("clip-path", 1)[1]


@pytest.mark.parametrize("length", [1, 300, 301, 5000])
def test_thinned_keeps_extremes_and_ends(length):
    values = np.sin(np.arange(length))
    values[length // 3], values[length // 2] = 9, -9
    kept = charts.thinned(values)
    assert len(kept) <= charts.MOST_POINTS
    assert {0, length - 1, int(np.argmax(values)), int(np.argmin(values))} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()


def test_a_long_run_makes_a_small_drawing():
    noise = np.random.default_rng(0).normal(size=20_000)
    assert len(draw(line(noise, 0, np.ones(20_000)))) < 40_000


def test_histogram():
    svg = charts.histogram(np.asarray([0.25, 0.75]), 2, alt="H", mark=0.3)
    assert texts(svg) == ["0", "25", "50", "75", "100 %"]
    assert "var(--s2)" in svg
    assert charts.histogram(np.zeros(20), 0, alt="none")  # nor is a word of the alt text special


def test_heat_map():
    svg = charts.heat_map(np.eye(5), alt="M", xlabel="client", ylabel="class", shares=True)
    assert {"client", "class", "20 %"} <= set(texts(svg))
    assert svg.count('href="data:image/png;base64,') == 2  # the matrix and its scale
    assert charts.heat_map(np.zeros((3, 4)), alt="M", xlabel="x", ylabel="y", square=True)


def test_styles():
    seen = {(charts.colour(s), charts.dashes(s)) for s in range(charts.NUM_STYLES)}
    assert len(seen) == charts.NUM_STYLES
    assert charts.dashes(0) == ""
