"""How clients fare, by hand."""

import numpy as np
import pytest

from tf_fedsam.analysis import fairness
from tf_fedsam.data.partition import Partition


def partition(*clients):
    sizes = [len(c) for c in clients]
    return Partition(
        np.concatenate([np.asarray(c, np.int64) for c in clients]),
        np.cumsum([0, *sizes]),
        num_examples=6,
        scheme="by hand",
        with_replacement=True,
    )


def test_client_means():
    right = np.array([1.0, 0, 1, 1, 0, 0])
    # 1 of 2; an empty client; example 2 twice and example 5; all wrong
    split = partition([0, 1], [], [2, 5, 2], [4])
    np.testing.assert_allclose(fairness.client_means(right, split), [1 / 2, 2 / 3, 0])


def test_spread():
    accuracies = np.arange(20)[::-1] / 20
    told = fairness.spread(accuracies)
    assert told["mean"] == pytest.approx(0.475)
    assert told["std"] == pytest.approx(np.sqrt((20**2 - 1) / 12) / 20)  # of 20 equal steps
    assert told["worst"] == 0
    assert told["worst_decile"] == pytest.approx(0.025)  # the mean of 0 and 0.05
    assert told["p50"] == pytest.approx(0.475)
    assert told["p10"] == pytest.approx(0.095)  # 1.9 steps from the lowest
    assert told["p90"] == pytest.approx(0.855)


def test_few_clients_have_a_worst_one():
    assert fairness.spread(np.array([0.5, 0.2]))["worst_decile"] == 0.2


def test_histogram():
    counts = fairness.histogram(np.array([0, 0.01, 0.5, 0.99, 1]))
    assert len(counts) == 20
    assert (counts[0], counts[10], counts[19], sum(counts)) == (2, 1, 2, 5)


def test_report_has_the_names_of_the_log():
    found = fairness.report("client_train_accuracy", np.array([0.25, 0.75]))
    assert found["client_train_accuracy_mean"] == 0.5
    assert found["client_train_accuracy_std"] == 0.25
    assert sum(found["client_train_accuracy_histogram"]) == 2


def test_confusion():
    matrix = fairness.confusion(np.array([0, 1, 1, 2]), np.array([0, 2, 1, 0]), 3)
    assert matrix.tolist() == [[1, 0, 0], [0, 1, 1], [1, 0, 0]]
