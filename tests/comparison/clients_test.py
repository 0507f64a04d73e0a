"""Clients, confusion and class counts."""

import math

import numpy as np
import pytest

from tests.comparison.fake_runs import make_config, make_records
from tests.comparison.runs import run, with_last
from tf_fedsam.comparison import clients
from tf_fedsam.comparison.compared_run import checked


def test_clients():
    name = "client_train_accuracy"
    runs = [
        with_last(**{f"{name}_mean": m, f"{name}_std": 0.1, f"{name}_histogram": h})
        for m, h in ((0.4, [1, 3]), (0.6, [20, 20]))
    ]
    found = clients.clients(runs, "train")
    assert (found.mean, found.std, found.worst_decile) == (
        pytest.approx(0.5),
        pytest.approx(0.1),
        None,
    )
    assert found.histogram.tolist() == [0.375, 0.625]  # (1/4 + 1/2) / 2
    assert clients.clients(runs, "test") is None
    broken = with_last(**{f"{name}_mean": 0.4, f"{name}_histogram": [1, "x"]})
    assert clients.clients([broken], "train").histogram is None


def test_confusion():
    runs = [with_last(confusion=[[3, 1], [0, 4]]), with_last(confusion=[[4, 0], [2, 2]])]
    assert clients.confusion(runs).tolist() == [[7, 1], [2, 6]]
    assert clients.most_confused(clients.confusion(runs)) == [(1, 0, 0.25), (0, 1, 0.125)]
    assert clients.most_confused(np.eye(2)) == []
    for wrong in (
        [[1, 2]],
        [[1], [2, 3]],
        [[-1, 0], [0, 1]],
        "x",
        None,
        [[math.nan] * 2] * 2,
        {"a": 1},
    ):
        assert clients.confusion([with_last(confusion=wrong)]) is None


def test_class_counts():
    config = make_config("fedavg", 0, 2, "d", 30, {}, plain=False)
    records = make_records("fedavg", 0, 2, 2, 0, None, 30, plain=False)
    found = clients.class_counts(checked("x", config, records, True))
    assert found.shape == (30, 10)
    assert found.sum() == 30 * 200
    assert clients.class_counts(run()) is None
