"""Surveys of runs that never were, whose losses are known."""

import pathlib
import types

import numpy as np

from tf_fedsam.analysis.landscape.points import between_points
from tf_fedsam.analysis.landscape.store import PointStore
from tf_fedsam.analysis.landscape.survey import Survey, Work
from tf_fedsam.analysis.landscape.view import View

CURVATURES = {"flat": 1.0, "sharp": 3.0}


def survey(folder: pathlib.Path, **options) -> Survey:
    """Runs with loss 0.5 + c (x^2 + y^2) around them and an accuracy of 0.75.

    On the way between them the loss is 0.5 + 4 t (1 - t) with accuracy 0.5, a barrier of 1.
    """
    view = View(**{"grid": 5, **options})
    runs, around, between = [], [], []
    for label, curvature in CURVATURES.items():
        (folder / label).mkdir(parents=True)
        points = view.points()
        values = [(0.5 + curvature * (x * x + y * y), 0.75) for x, y in points]
        around.append(_known(label, points, values, folder))
        run = types.SimpleNamespace(algo="fedavg", records=[{}] * 3)
        runs.append(types.SimpleNamespace(label=label, folder=folder / label, run=run))
    if view.between:
        points = between_points(view.grid)
        values = [(0.5 + 4 * t * (1 - t), 0.5) for t, _ in points]
        between.append(_known("flat to sharp", points, values, folder))
    data = types.SimpleNamespace(num_classes=10, examples=range(40))
    return Survey(view, runs, data, None, around, between)


def _known(name, points, values, folder) -> Work:
    store = PointStore(folder / f"{name}.npz")
    store.add(points, np.asarray(values))
    return Work(name, lambda: None, points, store)
