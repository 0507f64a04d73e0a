"""FedSAM (Qu et al. 2022, arXiv:2206.02618): w_i <- w_i - lr g(w_i + rho g / |g|)."""

import numpy as np
import pytest

from tests.algorithms.eager import (
    FLAT,
    LR,
    RHO,
    ZERO,
    A,
    V,
    Visit,
    assert_refused,
    server_step,
)
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedsam import FedSAM


def test_two_sharpness_aware_steps():
    visit = Visit(FedSAM(rho=RHO))
    # g = -A/2, e = -RHO A/2 and A e = -ln 3, so the gradient there is -3A/4.
    assert_close(visit.step(), LR * 3 / 4 * A)
    # A w = 3 LR = 1.5 ln 3 and A e = -ln 3 again: -A / (1 + sqrt(3)).
    assert_close(visit.step(), LR * (3 / 4 + 1 / (1 + np.sqrt(3))) * A)


def test_perturbation_is_uphill_and_of_length_rho():
    visit = Visit(FedSAM(rho=0.3), weights=V + 0.1 * A)
    visit.step()
    clean, shift = visit.shifts
    assert clean is None
    assert_close(shift, -0.3 * A / 2)  # all variables together: |A| = 2


def test_zero_gradient_is_not_perturbed():
    visit = Visit(FedSAM(rho=0.3), weights=FLAT)
    assert_close(visit.step(), FLAT)
    assert_close(visit.shifts[1], ZERO)


def test_rho_0_is_plain():
    visit = Visit(FedSAM(rho=0))
    assert_close(visit.step(), LR / 2 * A)
    assert_close(visit.shifts[1], ZERO)


def test_server_is_fedavg():
    after = server_step(FedSAM(server_lr=0.5), weights=V, mean={"delta": A})
    assert_close(after["weights"], V + A / 2)


@pytest.mark.parametrize("rho", [-0.1, float("nan"), float("inf"), "wide"])
def test_rho_is_checked(rho):
    assert_refused(FedSAM, rho=rho)
