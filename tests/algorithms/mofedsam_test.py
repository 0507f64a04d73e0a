"""MoFedSAM (Qu et al. 2022, arXiv:2206.02618).

w_i <- w_i - lr (beta g(w_i + rho g / |g|) + (1 - beta) D), D <- mean of -delta_i / (num_steps_i lr)
"""

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
from tf_fedsam.algorithms.mofedsam import MoFedSAM


def test_steps_mix_the_perturbed_gradient_and_the_momentum():
    visit = Visit(MoFedSAM(rho=RHO, beta=0.25), server={"momentum": V})
    # 0.25 * -3A/4 + 0.75 V; the momentum neither enters nor is the perturbation
    assert_close(visit.step(), LR * (3 / 16 * A - 0.75 * V))
    assert_close(visit.shifts[1], -RHO * A / 2)


def test_beta_1_is_fedsam():
    visit = Visit(MoFedSAM(rho=RHO, beta=1), server={"momentum": V})
    assert_close(visit.step(), LR * 3 / 4 * A)


def test_rho_0_is_fedcm():
    visit = Visit(MoFedSAM(rho=0, beta=0.25), server={"momentum": V})
    assert_close(visit.step(), LR * (A / 8 - 0.75 * V))


def test_zero_gradient_is_not_perturbed():
    visit = Visit(MoFedSAM(rho=RHO, beta=0.25), weights=FLAT)
    assert_close(visit.step(), FLAT)
    assert_close(visit.shifts[1], ZERO)


def test_momentum_is_uphill_and_in_units_of_a_gradient():
    visit = Visit(MoFedSAM(rho=RHO, beta=1))
    visit.step()
    weights = visit.step()
    assert_close(visit.report()[2]["gradient"], -weights / (2 * LR))
    assert visit.report()[2]["gradient"] @ A < 0
    after = server_step(
        MoFedSAM(server_lr=0.5), {"momentum": V}, mean={"delta": A, "gradient": -3 * A}
    )
    assert_close(after["weights"], A / 2)
    assert_close(after["momentum"], -3 * A)


@pytest.mark.parametrize("hparams", [{"rho": -0.1}, {"beta": 0}, {"beta": 1.1}, {"beta": "a"}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(MoFedSAM, **hparams)
