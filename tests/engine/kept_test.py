"""Rows that are kept for clients between rounds."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import Toy, flat
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.feddyn import FedDyn
from tf_fedsam.algorithms.relaxed_init import RelaxedInit
from tf_fedsam.engine import kept
from tf_fedsam.options import TrainingOptions


def server():
    """A model of 2 x 3 + 3 numbers and a layer's two BatchNorm statistics of 4."""
    weights = [tf.zeros([2, 3]), tf.zeros([3])]
    return {"weights": weights, "dual_mean": weights, "initial": weights} | {
        kept.MODEL_STATE: [tf.zeros([4]), tf.ones([4])]
    }


class OnTheServer(Algorithm):
    server_rows = ("last",)


@pytest.mark.parametrize(
    ("algorithm", "options", "lengths"),
    [
        (FedAvg, {}, {}),
        (FedDyn, {}, {"dual": 9}),
        (OnTheServer, {}, {"last": 9}),
        (lambda: RelaxedInit(FedDyn()), {}, {"dual": 9, "last_model": 9}),
        (FedAvg, {"norm_state": "local"}, {"model_state": 8}),
        (FedDyn, {"keep_local_models": True}, {"dual": 9, "local_model": 9}),
    ],
)
def test_lengths(algorithm, options, lengths):
    assert kept.lengths(algorithm(), server(), TrainingOptions(**options)) == lengths


def test_no_statistics_no_rows():
    without = {**server(), kept.MODEL_STATE: []}
    assert kept.lengths(FedAvg(), without, TrainingOptions(norm_state="local")) == {}


def test_known_beforehand():
    """What never changes is not sent in a round."""
    vectors = server()
    assert kept.known_beforehand(FedAvg(), vectors) == {}
    known = kept.known_beforehand(RelaxedInit(FedAvg()), vectors)
    assert known == {"initial": vectors["initial"]}


def test_restore():
    """A client's own rows, in the shapes of the defaults; these for a client that was never there.

    The rows of such a client may hold anything.
    """
    defaults = {"dual": [tf.ones([2, 2]), tf.ones([1])]}
    row = tf.constant([1.0, 2, 3, 4, 5])
    own = kept.restore({"dual": row, "other": row}, tf.constant(True), defaults)
    assert list(own) == ["dual"]
    np.testing.assert_array_equal(own["dual"][0], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(own["dual"][1], [5])
    new = kept.restore({"dual": row * np.nan}, tf.constant(False), defaults)
    np.testing.assert_array_equal(flat(new["dual"]), np.ones(5))


def test_the_last_local_model_is_kept():
    """Of one client alone FedAvg's new model is that client's: 4 * 3 + 3 numbers."""
    process = Toy().process(FedAvg(), keep_local_models=True)
    assert process.initialize().clients.lengths == {"local_model": 15}
    state, _ = process.next(process.initialize(), [1])
    row = state.clients.row(1)["local_model"]
    np.testing.assert_allclose(row, flat(state.server["weights"]), rtol=1e-6, atol=1e-7)
