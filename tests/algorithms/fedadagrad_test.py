"""FedAdagrad (Reddi et al. 2021, arXiv:2003.00295): FedAdam with v <- v + D D."""

import numpy as np
import pytest

from tests.algorithms.eager import LR, ZERO, A, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedadagrad import FedAdagrad
from tf_fedsam.errors import InputError

DELTA = np.array([0.3, -0.4, 0.0, 0.0, 0.3, -0.4])


def test_local_step_is_plain():
    assert_close(Visit(FedAdagrad()).step(), LR / 2 * A)


def test_variance_adds_up():
    algorithm = FedAdagrad(beta1=0.5, epsilon=0.1)
    first = server_step(algorithm, mean={"delta": DELTA})
    assert_close(first["variance"], DELTA**2)
    # 0.3: 0.1 * 0.15 / (0.3 + 0.1) = 0.0375;  -0.4: -0.1 * 0.2 / (0.4 + 0.1) = -0.04
    assert_close(first["weights"], [0.0375, -0.04, 0, 0, 0.0375, -0.04])
    second = server_step(algorithm, first, weights=first["weights"], mean={"delta": DELTA})
    assert_close(second["variance"], 2 * DELTA**2)
    third = server_step(algorithm, second, mean={"delta": ZERO})
    assert_close(third["variance"], 2 * DELTA**2)  # never forgets


@pytest.mark.parametrize("hparams", [{"beta1": 1.0}, {"beta1": -0.1}, {"epsilon": 0}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedAdagrad, **hparams)


def test_has_no_beta2():
    with pytest.raises(InputError, match=r"'beta2'.*beta1, epsilon"):
        FedAdagrad(beta2=0.99)
