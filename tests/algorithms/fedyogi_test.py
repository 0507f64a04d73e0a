"""FedYogi (Reddi et al. 2021, arXiv:2003.00295): FedAdam, v <- v - (1 - b2) D D sign(v - D D)."""

import numpy as np
import pytest

from tests.algorithms.eager import LR, A, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedyogi import FedYogi

DELTA = np.array([2.0, 2.0, 2.0, -2.0, 0.0, 2.0])  # squares 4, 0 and 4
OLD = np.array([0.0, 1.0, 9.0, 9.0, 5.0, 4.0])


def test_local_step_is_plain():
    assert_close(Visit(FedYogi()).step(), LR / 2 * A)


def test_variance_goes_towards_the_square_by_a_share_of_the_square():
    algorithm = FedYogi(beta1=0.5, beta2=0.75, epsilon=1.0)
    after = server_step(algorithm, {"variance": OLD}, mean={"delta": DELTA})
    # Steps of 0.25 * 4 = 1: up where v < 4, down where v > 4, none where v = 4 or D = 0. Adam's
    # would be 0.25 * (4 - v), 1 from 0 but 0.75 from 1 and -1.25 from 9.
    variance = np.array([1.0, 2.0, 8.0, 8.0, 5.0, 4.0])
    assert_close(after["variance"], variance)
    # m = DELTA / 2, so the model moves by 0.1 * DELTA / 2 / (sqrt(v) + 1).
    assert_close(after["weights"], 0.05 * DELTA / (np.sqrt(variance) + 1))


def test_variance_stays_at_beta2_1():
    after = server_step(FedYogi(beta2=1), {"variance": OLD}, mean={"delta": DELTA})
    assert_close(after["variance"], OLD)


@pytest.mark.parametrize("hparams", [{"beta1": 1.0}, {"beta2": 1.1}, {"epsilon": 0}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedYogi, **hparams)
