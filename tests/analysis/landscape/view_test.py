"""What is looked at. What is refused is read by users: tests/analysis/landscape/study_test.py."""

import math

import pytest

from tf_fedsam.analysis.landscape.view import MAX_GRID, View
from tf_fedsam.errors import InputError


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("grid", (3, MAX_GRID), (1, 4, MAX_GRID + 2, "x", 5.5)),
        ("span", (1e-9, 100, 2), (0, -1, math.nan, math.inf, "x")),
        ("examples", (1,), (0, -1)),
        ("batch_size", (1,), (0,)),
        ("seed", (0,), (-1,)),
        ("dimensions", ((1,), (2,), (2, 1)), ((), (3,), (1, 3))),
        ("on", ("train", "test"), ("validation", "")),
        ("between", (True, False), ("maybe",)),
    ],
)
def test_values(name, good, bad):
    for value in good:
        assert getattr(View(**{name: value}), name) == value
    for value in bad:
        with pytest.raises(InputError, match=f"{name} must be") as caught:
            View(**{name: value})
        assert caught.value.with_flags().startswith(f"--{name} must be")


def test_points():
    """The middle, 16 of the ring at half the span, 2 * 5 - 1 of the line and 5 * 5 of the plane."""
    view = View(grid=5, span=2.0)
    points = view.points()
    assert len(points) == 1 + 16 + 9 + 25
    assert points[0] == (0.0, 0.0)
    assert view.ring_radius == 1.0
    for x, y in points[1:17]:
        assert math.hypot(x, y) == pytest.approx(1.0)
    assert {x for x, _ in points} >= {-2.0, -1.5, 2.0}
    assert len(View(grid=5, dimensions=(1,)).points()) == 1 + 16 + 9
    assert len(View(grid=5, dimensions=(2,)).points()) == 1 + 16 + 25


def test_whose():
    assert View().whose == "training"
    assert View(on="test").whose == "test"
