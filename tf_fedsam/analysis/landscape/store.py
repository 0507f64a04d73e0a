"""Values of points that are known, kept on the disk."""

import functools
import hashlib
import io
import pathlib
import time
from collections.abc import Callable, Sequence

import numpy as np

from tf_fedsam.analysis.landscape.plane import Plane
from tf_fedsam.analysis.landscape.points import Point
from tf_fedsam.data.arrays import read_npz
from tf_fedsam.data.federated_dataset import Examples
from tf_fedsam.errors import InputError
from tf_fedsam.state.files import write_atomically

_FORMAT = "landscape points 1"
_CHUNK_SECONDS = 2.0


class PointStore:
    """The values of a plane's points that are known, in a file that a kill leaves whole.

    Points are told apart by their coordinates, so a finer grid takes over those of a coarser one.

    Args:
        path: the file, which is read when it is first needed; an unreadable one counts as empty.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path

    @functools.cached_property
    def known(self) -> dict[Point, tuple[float, float]]:
        """Loss and accuracy of points."""
        try:
            found = read_npz(self.path) if self.path.exists() else {}
        except InputError:
            return {}
        points, values = (found.get(name, np.zeros(0)) for name in ("points", "values"))
        if points.ndim != 2 or points.shape[1] != 2 or points.shape != values.shape:
            return {}
        return {
            (x, y): (loss, accuracy)
            for (x, y), (loss, accuracy) in zip(points.tolist(), values.tolist(), strict=True)
        }

    def missing(self, points: Sequence[Point]) -> list[Point]:
        """Those that are not known, each once."""
        return [point for point in dict.fromkeys(points) if point not in self.known]

    def add(self, points: Sequence[Point], values: np.ndarray) -> None:
        """Keeps values of points and writes them to the disk."""
        self.known.update(
            {p: (float(v[0]), float(v[1])) for p, v in zip(points, values, strict=True)}
        )
        content = io.BytesIO()
        np.savez(
            content,
            points=np.asarray(list(self.known), np.float64),
            values=np.asarray(list(self.known.values()), np.float64),
        )
        write_atomically(self.path, content.getvalue())

    def read(self, points: Sequence[Point]) -> np.ndarray:
        """float64 [points, 2]: loss and accuracy."""
        return np.asarray([self.known[point] for point in points], np.float64).reshape(-1, 2)


def fill(
    store: PointStore,
    points: Sequence[Point],
    evaluate: Callable[[Sequence[Point]], np.ndarray],
    progress: Callable[[int], None] = lambda count: None,
) -> None:
    """Evaluates the points that are missing, some seconds' worth a call, each call saved at once.

    Args:
        store: where they go.
        points: all that are wanted.
        evaluate: gives [points, 2].
        progress: told how many points were done.
    """
    missing, count = store.missing(points), 1
    while missing:
        now, missing = missing[:count], missing[count:]
        began = time.perf_counter()
        store.add(now, evaluate(now))
        seconds = max(time.perf_counter() - began, 1e-6)
        progress(len(now))
        count = max(1, min(2 * count, int(count * _CHUNK_SECONDS / seconds)))


def fingerprint(plane: Plane, examples: Examples, about: str) -> str:
    """Sixteen digits of all that decides the values of a plane's points.

    Args:
        plane: weights and directions.
        examples: what the loss is the mean of.
        about: the architecture and the preprocessing, in words.
    """
    digest = hashlib.sha256(f"{_FORMAT}\0{about}\0".encode())
    parts = [*plane.origin, *plane.first, *plane.second, np.asarray(examples.x), examples.y]
    for array in parts:
        digest.update(f"{array.dtype.str} {array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:16]
