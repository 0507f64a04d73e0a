"""The look of the page: legible in the light and in the dark."""

import re

import pytest

from tf_fedsam.looks import COLOURS, DARK_COLOURS
from tf_fedsam.report.style import SCRIPT, STYLE


def luminance(colour: str) -> float:
    """Relative luminance by the Web Content Accessibility Guidelines 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("colours", "paper"), [(COLOURS, "#ffffff"), (DARK_COLOURS, "#14171d")])
def test_lines_are_seen(colours, paper):
    """At least 3 : 1, as the guidelines ask of graphics; two are never the same."""
    assert len(colours) == len(set(colours)) == len(COLOURS)
    assert {c: contrast(c, paper) for c in colours if contrast(c, paper) < 3} == {}


@pytest.mark.parametrize("paper", ["#ffffff", "#14171d"])
def test_texts_are_read(paper):
    """At least 4.5 : 1."""
    light = paper == "#ffffff"
    rules = STYLE.partition("@media")[0] if light else STYLE.partition("@media")[2]
    for name in ("ink", "soft", "accent"):
        assert contrast(re.search(rf"--{name}:(#\w+)", rules)[1], paper) >= 4.5


def test_every_colour_is_defined():
    used = set(re.findall(r"var\((--\w+)\)", STYLE))
    defined = set(re.findall(r"(--\w+):", STYLE))
    assert used <= defined
    assert {f"--s{i}" for i in range(len(COLOURS))} <= defined


def test_nothing_is_left_open_or_comes_from_elsewhere():
    assert STYLE.count("{") == STYLE.count("}")
    assert SCRIPT.count("{") == SCRIPT.count("}")
    for text in (STYLE, SCRIPT):
        assert "http" not in text
        assert "</" not in text
    assert "COLOURS" not in STYLE
    assert "DARK" not in STYLE
