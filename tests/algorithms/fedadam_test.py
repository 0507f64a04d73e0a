"""FedAdam (Reddi et al. 2021, arXiv:2003.00295), without bias correction.

m <- b1 m + (1 - b1) D, v <- b2 v + (1 - b2) D D, w <- w + server_lr m / (sqrt(v) + epsilon)
"""

import numpy as np
import pytest

from tests.algorithms.eager import LR, ZERO, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedadam import FedAdam

DELTA = np.array([0.1, -0.2, 0.0, 0.0, 0.1, -0.2])


def test_local_step_is_plain():
    assert_close(Visit(FedAdam(), server={"momentum": V}).step(), LR / 2 * A)


def test_two_server_steps():
    algorithm = FedAdam(beta1=0.9, beta2=0.99, epsilon=0.01)
    first = server_step(algorithm, mean={"delta": DELTA})
    # 0.1:  m = 0.01, v = 0.01 * 0.01 = 1e-4, step = 0.1 * 0.01 / (0.01 + 0.01) = 0.05
    # -0.2: m = -0.02, v = 4e-4, step = -0.1 * 0.02 / (0.02 + 0.01) = -1/15;  0: nothing
    assert_close(first["momentum"], 0.1 * DELTA)
    assert_close(first["variance"], 0.01 * DELTA**2)
    step = np.array([0.05, -1 / 15, 0, 0, 0.05, -1 / 15])
    assert_close(first["weights"], step)
    # Without an update m = 0.9 * 0.01 = 9e-3 and v = 0.99e-4 decay, and the model moves on.
    second = server_step(algorithm, first, weights=first["weights"], mean={"delta": ZERO})
    assert_close(second["momentum"], 0.09 * DELTA)
    assert_close(second["variance"], 0.0099 * DELTA**2)
    assert_close((second["weights"] - step)[0], 0.1 * 9e-3 / (np.sqrt(0.99e-4) + 0.01), 1e-5)


def test_neutral_settings_are_fedavg():
    algorithm = FedAdam(beta1=0, beta2=1, epsilon=0.5, server_lr=0.5)  # v stays 0
    assert_close(server_step(algorithm, weights=V, mean={"delta": A})["weights"], V + A)


def test_server_lr_is_a_tenth_by_default():
    assert FedAdam().server_lr == 0.1
    assert FedAdam(server_lr=1.0).server_lr == 1.0


@pytest.mark.parametrize(
    "hparams",
    [
        *({"beta1": 1.0}, {"beta1": -0.1}, {"beta1": "high"}, {"beta2": 1.1}, {"beta2": -0.1}),
        *({"epsilon": 0}, {"epsilon": -1e-3}, {"epsilon": float("nan")}, {"epsilon": "small"}),
    ],
)
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedAdam, **hparams)
