"""Pictures of surfaces and lines."""

import io

import numpy as np
import pytest
from PIL import Image

from tf_fedsam.analysis.landscape import pictures, points
from tf_fedsam.analysis.landscape.pictures import Curve, Panel, Scale


def bowls(count, grid=11, steep=1.0):
    x = np.asarray(points.axis(grid, 1.0))
    r = x[None, :] ** 2 + x[:, None] ** 2
    return [Panel(f"run {i} lr=0.{i}", "note", 0.2 + steep * (i + 1) * r) for i in range(count)]


def as_array(content):
    picture = Image.open(io.BytesIO(content))
    assert picture.format == "PNG"
    return np.asarray(picture.convert("RGB"))


@pytest.mark.parametrize("count", [1, 12])
@pytest.mark.parametrize("draw", ["contours", "surfaces"])
def test_every_panel_is_drawn(draw, count):
    """Where a panel is, there are many of the map's colours; no two panels look the same."""
    panels = bowls(count)
    scale = Scale.of([p.loss for p in panels], 10)
    figure = getattr(pictures, draw)(panels, points.axis(11, 1.0), scale)
    pixels = as_array(pictures.png(figure))
    height, width = pixels.shape[:2]
    assert width < 2400
    parts = []
    for axes in figure.axes[:count]:
        box = axes.get_position()
        rows = slice(int((1 - box.y1) * height), int((1 - box.y0) * height))
        part = pixels[rows, int(box.x0 * width) : int(box.x1 * width)]
        colourful = part.reshape(-1, 3)[np.ptp(part.reshape(-1, 3), axis=1) > 20]
        assert len(colourful) > 0.1 * part.shape[0] * part.shape[1]
        assert len(np.unique(colourful, axis=0)) > 10
        parts.append(part.tobytes())
    assert len(set(parts)) == count
    assert [axes.get_title().split(" lr")[0] for axes in figure.axes[:count]] == [
        f"run {i}" for i in range(count)
    ]


def test_panels_share_levels_and_axes():
    panels = bowls(3)
    scale = Scale.of([p.loss for p in panels], 10)
    figure = pictures.contours(panels, points.axis(11, 1.0), scale)
    limits = {(axes.get_xlim(), axes.get_ylim()) for axes in figure.axes[:3]}
    assert limits == {((-1.0, 1.0), (-1.0, 1.0))}
    filled = [axes.collections[0] for axes in figure.axes[:3]]
    assert {(f.norm.vmin, f.norm.vmax) for f in filled} == {(scale.low, scale.high)}


def test_scale_ends_where_guessing_is_better():
    """3 log(10) = 6.9; corners of 1e30, inf and nan are drawn as that."""
    loss = np.asarray([0.1, 2.0, 1e30, np.inf, np.nan])
    scale = Scale.of([loss], 10)
    assert scale.clipped
    assert scale.high == pytest.approx(3 * np.log(10))
    np.testing.assert_allclose(scale.clip(loss), [0.1, 2.0, *[scale.high] * 3])
    assert not Scale.of([np.asarray([0.1, 2.0])], 10).clipped
    assert Scale.of([np.asarray([0.1, 2.0])], 10).high == 2
    for odd in ([3.0, 3.0], [0.0, 0.0], [0.0, 1e-12], [np.nan, np.inf], [1e-9, 5.0], [50.0, 90.0]):
        scale = Scale.of([np.asarray(odd)], 10)
        assert 0 < scale.low < scale.high
        assert scale.nice()
        assert all(scale.low <= v <= scale.high for v in scale.nice())
        panel = Panel("p", "", np.resize(np.asarray(odd), (3, 3)))
        assert pictures.rgb(pictures.contours([panel], points.axis(3, 1.0), scale)).any()


@pytest.mark.parametrize("count", [1, 13])
def test_lines(count):
    at = points.axis(9, 1.0)
    curves = [
        Curve(f"run {i}", at, 0.1 + (i + 1) * np.square(at), 1 - np.square(at))
        for i in range(count)
    ]
    scale = Scale.of([c.loss for c in curves], 10)
    figure = pictures.lines(curves, scale, "t", "x", marks=((0.0, "first"),))
    left, right = figure.axes
    assert len(left.lines) == len(right.lines) == count + 1  # and the mark
    looks = {
        (line.get_color(), str(line._unscaled_dash_pattern), line.get_marker())
        for line in left.lines[:count]
    }
    assert len(looks) == count
    np.testing.assert_allclose(right.lines[0].get_ydata(), 100 * (1 - np.square(at)))
    assert len(figure.legends[0].get_texts()) == count
    assert as_array(pictures.png(figure)).std() > 5
