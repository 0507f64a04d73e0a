"""What is looked at: how far around a solution, in how many points, on which examples."""

import dataclasses
import math

from tf_fedsam.analysis.landscape.points import Point, line_points, ring_points, surface_points
from tf_fedsam.errors import InputError
from tf_fedsam.runs.settings import typed

MAX_GRID = 501
LEAST = {"examples": 1, "batch_size": 1, "seed": 0}


@dataclasses.dataclass(frozen=True)
class View:
    """Wrong values are refused.

    Attributes:
        grid: points along each axis of the surface; odd, so that 0 is one.
        span: the axes go from ``-span`` to ``span``, in filter norms.
        dimensions: 1: the line, 2: the surface.
        between: the straight line from each run to the next one.
        on: whose loss, ``"train"`` or ``"test"``.
        examples: how many the loss is the mean of; fewer if there are not so many.
        seed: of the directions and the choice of examples.
        batch_size: examples that go through the network at a time.
    """

    grid: int = 21
    span: float = 1.0
    dimensions: tuple[int, ...] = (1, 2)
    between: bool = False
    on: str = "train"
    examples: int = 2000
    seed: int = 0
    batch_size: int = 250

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = typed(field.name, getattr(self, field.name), type(field.default))
            object.__setattr__(self, field.name, value)
        if not 3 <= self.grid <= MAX_GRID or self.grid % 2 == 0:
            raise InputError(
                f"grid must be an odd number, 3 to {MAX_GRID}, so that the solution is one of the "
                f"points. Received: {self.grid}. 21 is quick, 51 makes a figure for print.",
                "grid",
            )
        if not (math.isfinite(self.span) and self.span > 0):
            raise InputError(
                f"span must be a finite number above 0. Received: {self.span}.", "span"
            )
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise InputError(
                    f"{name} must be at least {least}. Received: {getattr(self, name)}.", name
                )
        if not self.dimensions or not all(d in (1, 2) for d in self.dimensions):
            raise InputError(
                f"dimensions must be (1,), (2,) or (1, 2). Received: {self.dimensions}.",
                "dimensions",
            )
        if self.on not in ("train", "test"):
            raise InputError(f"on must be train or test. Received: {self.on!r}.", "on")

    @property
    def line(self) -> bool:
        return 1 in self.dimensions

    @property
    def surface(self) -> bool:
        return 2 in self.dimensions

    @property
    def ring_radius(self) -> float:
        """Where the loss is compared with that of the solution."""
        return self.span / 2

    @property
    def whose(self) -> str:
        """The examples, for people."""
        return "training" if self.on == "train" else "test"

    def points(self) -> list[Point]:
        """All that is looked at around a solution."""
        points = [(0.0, 0.0), *ring_points(self.ring_radius)]
        if self.line:
            points += line_points(self.grid, self.span)
        if self.surface:
            points += surface_points(self.grid, self.span)
        return points
