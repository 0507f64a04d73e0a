"""FedRobust (Reisizadeh et al. 2020, arXiv:2006.08907).

On inputs M x + b: w_i <- w_i - lr g_w, M <- M + p (g_M - 2 penalty (M - I)), b likewise; ascent.

The weights WEIGHTS have kernel rows (1/2, -1/2) and (0, 0) and bias (-0.3, 0.3). At x = (0.6, 0.8)
the logits' difference is 0.6 - 0.6 = 0, so class 0 has probability 1/2 and the gradient with
respect to the input is -1/2 * (1/2 + 1/2, 0) = (-1/2, 0).
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.eager import LR, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.base import ModelSpec
from tf_fedsam.algorithms.fedrobust import FedRobust, identity, transform
from tf_fedsam.errors import InputError

WEIGHTS = np.array([0.5, -0.5, 0.0, 0.0, -0.3, 0.3])
IDENTITY = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])  # M row by row, then b


def test_one_descent_in_w_and_one_ascent_in_the_transform():
    visit = Visit(FedRobust(perturbation_lr=0.5, penalty=0.2), weights=WEIGHTS)
    assert_close(visit.step(), WEIGHTS + LR / 2 * A)  # all three gradients at the old values
    # g_M = (-1/2, 0)^T (0.6, 0.8) and g_b = (-1/2, 0), times 0.5 and added; the penalty is 0 here
    expected = IDENTITY + 0.5 * np.array([-0.3, -0.4, 0.0, 0.0, -0.5, 0.0])
    upload, state, _ = visit.report()
    assert_close(state["affine_shift"], expected)
    assert set(upload) == {"delta"}  # the transform never leaves the client


def test_penalty_pulls_the_transform_back():
    """M[1, 1] = 2 and b[1] = 1/2 change only the second input, which the logits ignore here."""
    kept = np.array([1.0, 0.0, 0.0, 2.0, 0.0, 0.5])
    algorithm = FedRobust(perturbation_lr=0.5, penalty=0.2)
    visit = Visit(algorithm, weights=WEIGHTS, state={"affine_shift": kept})
    # The second input is 2 * 0.8 + 0.5 = 2.1 for the gradient of w.
    seen = np.array([0.6, -0.6, 2.1, -2.1, 1.0, -1.0])
    assert_close(visit.step(), WEIGHTS + LR / 2 * seen)
    # Pulls of 0.5 * 2 * 0.2 = 0.2 times (2 - 1) and 1/2, besides the ascent of the test above.
    ascent = 0.5 * np.array([-0.3, -0.4, 0.0, 0.0, -0.5, 0.0])
    pull = np.array([0.0, 0.0, 0.0, -0.2, 0.0, -0.1])
    assert_close(visit.report()[1]["affine_shift"], kept + ascent + pull)


def test_perturbation_lr_0_is_plain():
    visit = Visit(FedRobust(perturbation_lr=0), weights=WEIGHTS)
    visit.step()
    plain = WEIGHTS + LR / 2 * A
    assert_close(visit.step(), plain + LR / (1 + np.exp(A @ plain)) * A)
    assert_close(visit.report()[1]["affine_shift"], IDENTITY)


def test_transforms_act_on_the_whole_input_or_on_channels():
    assert [v.shape for v in identity((2, 2, 3), "auto")] == [(12, 12), (2, 2, 3)]
    assert [v.shape for v in identity((32, 32, 3), "auto")] == [(3, 3), (32, 32, 3)]
    matrix = np.array([[0.0, 2.0], [1.0, 0.0]], np.float32)  # (r, s) -> (2 s, r)
    x = tf.constant([[[1.0, 2.0], [3.0, 4.0]]])
    offset = tf.constant([[0.0, 0.0], [10.0, 20.0]])
    assert_close(transform(x, tf.constant(matrix), offset), [[[4, 1], [18, 23]]])


def test_server_is_fedavg():
    after = server_step(FedRobust(server_lr=0.5), weights=V, mean={"delta": A})
    assert_close(after["weights"], V + A / 2)


@pytest.mark.parametrize(
    "hparams", [{"perturbation_lr": -0.1}, {"penalty": -1.0}, {"transform": "pixel"}]
)
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedRobust, **hparams)


def test_a_full_matrix_must_fit():
    spec = ModelSpec(shapes=(), names=(), input_shape=(32, 32, 3))
    FedRobust(transform="channel").setup(spec)
    with pytest.raises(InputError, match=r"3072 x 3072.*\(32, 32, 3\).*channel"):
        FedRobust(transform="full").setup(spec)
