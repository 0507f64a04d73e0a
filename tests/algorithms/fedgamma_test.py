"""FedGAMMA (Dai et al. 2023, IEEE TNNLS): SCAFFOLD with w_i <- w_i - lr (g(w_i + e) + c - c_i)."""

import pytest

from tests.algorithms.eager import (
    FLAT,
    LR,
    NUM_CLIENTS,
    RHO,
    ZERO,
    A,
    V,
    Visit,
    assert_refused,
    server_step,
)
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedgamma import FedGAMMA


def visit_with_controls(rho):
    return Visit(FedGAMMA(rho=rho), server={"control": V}, state={"control": A / 4})


def test_one_corrected_sharpness_aware_step():
    visit = visit_with_controls(RHO)
    assert_close(visit.step(), LR * (A - V))  # -3A/4 + V - A/4
    assert_close(visit.shifts[1], -RHO * A / 2)  # the ascent is not corrected


def test_rho_0_is_scaffold():
    assert_close(visit_with_controls(0).step(), LR * (3 / 4 * A - V))  # -A/2 + V - A/4


def test_without_controls_it_is_fedsam():
    assert_close(Visit(FedGAMMA(rho=RHO)).step(), LR * 3 / 4 * A)


def test_zero_gradient_is_not_perturbed():
    visit = Visit(FedGAMMA(rho=RHO), weights=FLAT)
    assert_close(visit.step(), FLAT)
    assert_close(visit.shifts[1], ZERO)


def test_controls_estimate_perturbed_gradients():
    visit = visit_with_controls(RHO)
    visit.step()
    upload, state, _ = visit.report()
    assert_close(state["control"], -3 / 4 * A)  # c_i - c + G_i, G_i = -3A/4 + c - c_i
    assert_close(upload["control_change"], -3 / 4 * A - A / 4)
    after = server_step(
        FedGAMMA(), {"control": V}, mean={"delta": A}, total={"control_change": 2 * A}
    )
    assert_close(after["weights"], A)
    assert_close(after["control"], V + 2 / NUM_CLIENTS * A)


@pytest.mark.parametrize("rho", [-0.1, float("inf"), "wide"])
def test_rho_is_checked(rho):
    assert_refused(FedGAMMA, rho=rho)
