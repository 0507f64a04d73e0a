"""Which points of a plane are looked at."""

import math
from collections.abc import Sequence

import numpy as np

RING_POINTS = 16

Point = tuple[float, float]


def axis(grid: int, span: float) -> list[float]:
    """An odd number of coordinates from ``-span`` to ``span`` with 0 in the middle.

    A coordinate that two grids have in common is the same float in both.
    """
    half = grid // 2
    return [span * (i / half) for i in range(-half, half + 1)]


def surface_points(grid: int, span: float) -> list[Point]:
    """Row after row, from the lowest y; x runs faster."""
    return [(x, y) for y in axis(grid, span) for x in axis(grid, span)]


def line_points(grid: int, span: float) -> list[Point]:
    """Along the first direction, with half the step of the surface."""
    return [(x, 0.0) for x in axis(2 * grid - 1, span)]


def ring_points(radius: float) -> list[Point]:
    """``RING_POINTS`` points around the middle, evenly spaced, with exact zeros."""
    angles = [2 * math.pi * i / RING_POINTS for i in range(RING_POINTS)]
    at = lambda value: radius * round(value, 12)  # noqa: E731
    return [(at(math.cos(a)), at(math.sin(a))) for a in angles]


def between_points(grid: int) -> list[Point]:
    """From half the way before the first solution (0) to half the way behind the second (1)."""
    half = grid // 2
    return [(i / (2 * half), 0.0) for i in range(-half, 3 * half + 1)]


def barrier(at: Sequence[float], loss: np.ndarray) -> float:
    """How far the loss between two solutions rises above the straight line between theirs."""
    inside = [i for i, t in enumerate(at) if 0 <= t <= 1]
    t, height = np.asarray(at)[inside], np.asarray(loss)[inside]
    return float(np.max(height - ((1 - t) * height[0] + t * height[-1])))
