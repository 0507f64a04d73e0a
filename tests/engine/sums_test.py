"""What a client adds to the sums of a round."""

import numpy as np
import tensorflow as tf

from tf_fedsam.algorithms.fedwmsam import FedWMSAM
from tf_fedsam.engine import sums
from tf_fedsam.engine.client_training import Trained


def weights():
    return [tf.constant([1.0, 2.0])]


def trained(value, similarity=0.5, loss=3.0):
    """A client whose vectors are all ``value``; it ends at (1, 2) + value."""
    vector = lambda factor=1.0: [tf.constant(factor * np.asarray(value, np.float32))]  # noqa: E731
    return Trained(
        summands={
            "delta": vector(),
            "gradient": vector(10),
            "control_change": vector(100),
            "similarity": tf.constant(similarity),
        },
        kept={},
        weights=[weights()[0] + vector()[0]],
        delta=vector(),
        statistics=vector(1000),
        loss=tf.constant(loss),
        perturbation_norm=tf.constant(0.25),
    )


def added(*clients, size=3):
    """The sums over (number, trained, weight, reported)."""
    totals = sums.zeros(FedWMSAM(), weights(), [tf.zeros([2])], size, diagnose=True)
    for number, one, weight, reported in clients:
        totals = sums.add(
            totals,
            one,
            number=number,
            weight=tf.constant(weight),
            reported=tf.constant(reported),
            weights=weights(),
        )
    return totals


def test_means_are_weighted_and_totals_are_not():
    totals = added((0, trained([3.0, 4.0]), 1.0, True), (2, trained([0.0, 8.0], 0.9), 3.0, True))
    aggregate = totals.aggregate()
    np.testing.assert_allclose(aggregate.mean["delta"][0], [3 / 4, (4 + 24) / 4])
    np.testing.assert_allclose(aggregate.mean["gradient"][0], [30 / 4, 280 / 4])
    np.testing.assert_allclose(aggregate.total["control_change"][0], [300, 1200])
    np.testing.assert_allclose(aggregate.scalar["similarity"], (0.5 + 3 * 0.9) / 4, rtol=1e-6)
    assert float(aggregate.num_reporting) == 2
    np.testing.assert_allclose(totals.mean_statistics()[0], [1500, 6000])  # plain
    np.testing.assert_allclose(totals.moves["move"][0], [3, 12])
    np.testing.assert_allclose(totals.moves["unit"][0], [0.6, 0.8 + 1])


def test_a_row_of_the_table_for_each_client():
    table = added((2, trained([3.0, 4.0]), 1.0, True)).columns()
    for name, value in {
        "reported": 1,
        "loss": 3,
        "delta_norm": 5,
        "move_square": 25,
        "moved": 1,
        "perturbation_norm": 0.25,
    }.items():
        np.testing.assert_allclose(getattr(table, name), [0, 0, value], err_msg=name)


def test_who_does_not_report_adds_nothing_not_even_nan():
    one = (0, trained([3.0, 4.0]), 1.0, True)
    failed = (1, trained([np.nan, 1.0], np.nan, np.nan), 1.0, False)
    left, right = (tf.nest.flatten(added(*clients)) for clients in ((one, failed), (one,)))
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_mean_over_nobody_is_zero():
    aggregate = added().aggregate()
    np.testing.assert_array_equal(aggregate.mean["delta"][0], [0, 0])
    assert float(aggregate.scalar["similarity"]) == 0
