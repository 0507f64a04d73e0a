"""Which points are looked at."""

import numpy as np
import pytest

from tf_fedsam.analysis.landscape import points


def test_points():
    assert points.axis(5, 2.0) == [-2, -1, 0, 1, 2]
    for grid, span in ((21, 1.0), (41, 1.0), (7, 0.3)):
        axis = points.axis(grid, span)
        assert len(axis) == grid
        assert axis[grid // 2] == 0
        assert axis == [-x for x in reversed(axis)]
    assert set(points.axis(11, 0.7)) < set(points.axis(21, 0.7))
    assert points.surface_points(3, 1.0)[:4] == [(-1, -1), (0, -1), (1, -1), (-1, 0)]
    assert [x for x, _ in points.line_points(3, 1.0)] == [-1, -0.5, 0, 0.5, 1]
    ring = np.asarray(points.ring_points(0.5))
    np.testing.assert_allclose(np.hypot(*ring.T), 0.5)
    np.testing.assert_allclose(ring.sum(0), 0, atol=1e-12)
    for grid in (3, 5, 21):
        t = [p[0] for p in points.between_points(grid)]
        assert len(t) == 2 * grid - 1
        assert (t[0], t[-1]) == (-0.5, 1.5)
        assert {0.0, 1.0} <= set(t)


def test_barrier():
    """t + 4 t (1 - t): the line between the ends is t, the bump is 1 high, at 1/2."""
    t = np.asarray([p[0] for p in points.between_points(21)])
    assert points.barrier(t, t + 4 * t * (1 - t)) == pytest.approx(1)
    assert points.barrier(t, 3 - 2 * t) == pytest.approx(0)
    assert points.barrier(t, t * t) == pytest.approx(0)
