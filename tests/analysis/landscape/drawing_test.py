"""Figures, tables and numbers of surfaces that are known: c (x^2 + y^2) with c = 1 and 3."""

import csv
import dataclasses
import io
import math

import pytest

from tests.analysis.landscape.paraboloids import survey
from tf_fedsam.analysis.landscape.drawing import Numbers, describe, draw


def rows(table):
    return list(csv.DictReader(io.StringIO(table.decode())))


def test_numbers(tmp_path):
    """At distance 1/2 the loss is 0.5 + c / 4."""
    flat, sharp = draw(survey(tmp_path, dimensions=(1,))).numbers
    assert dataclasses.astuple(flat) == pytest.approx((0.5, 0.75, 0.75, 0.25))
    assert dataclasses.astuple(sharp) == pytest.approx((0.5, 0.75, 1.25, 0.75))


def test_surface(tmp_path):
    """Five by five points from -1 to 1; the corner is 0.5 + 2 c, 6.5 for the sharp one."""
    drawing = draw(survey(tmp_path, dimensions=(2,)))
    assert list(drawing.figures) == list(drawing.alts) == ["contour", "surface"]
    table = rows(drawing.tables["surface_2d"])
    assert list(table[0]) == ["run", "x", "y", "loss", "accuracy"]
    assert len(table) == 2 * 25
    assert list(table[25].values()) == [str(tmp_path / "sharp"), "-1", "-1", "6.5", "0.75"]
    sharp = drawing.surfaces.panels[1]
    assert sharp.loss.shape == (5, 5)
    assert sharp.loss[2, 2] == 0.5
    assert sharp.loss[0, 4] == 6.5
    assert drawing.surfaces.axis == [-1, -0.5, 0, 0.5, 1]


def test_line(tmp_path):
    """Nine points along x."""
    drawing = draw(survey(tmp_path, dimensions=(1,), on="test"))
    assert list(drawing.figures) == ["line"]
    assert drawing.surfaces is None
    table = rows(drawing.tables["line_1d"])
    assert [row["x"] for row in table[:9]] == [
        *("-1", "-0.75", "-0.5", "-0.25", "0", "0.25", "0.5", "0.75", "1")
    ]
    assert [row["loss"] for row in table[9:12]] == ["3.5", "2.1875", "1.25"]
    assert drawing.alts["line"].startswith("Test loss and accuracy along a random direction")
    assert "sharp: loss 3.5 at -1, 0.5 in the middle, 3.5 at 1" in drawing.alts["line"]


def test_between(tmp_path):
    """4 t (1 - t) above the line from 0.5 to 0.5 is highest at one half, where it is 1."""
    drawing = draw(survey(tmp_path, dimensions=(1,), between=True))
    assert drawing.barriers == [
        {"from": str(tmp_path / "flat"), "to": str(tmp_path / "sharp"), "barrier": 1.0}
    ]
    table = rows(drawing.tables["between"])
    assert (table[0]["from"], table[0]["t"]) == (str(tmp_path / "flat"), "-0.5")
    assert table[-1]["t"] == "1.5"
    assert "flat to sharp: 1." in drawing.alts["between"]


def test_words(tmp_path):
    found = survey(tmp_path, dimensions=(1,))
    numbers = draw(found).numbers
    assert describe(found, numbers) == (
        "flat: 0.5 in the middle, 0.75 on average at distance 0.5; sharp: 0.5 in the middle, 1.25 "
        "on average at distance 0.5. Up to there the loss rises least around flat (+0.25) and most "
        "around sharp (+0.75)."
    )
    lost = [numbers[0], Numbers(0.5, 0.75, math.inf, math.inf)]
    assert "rises least" not in describe(found, lost)
