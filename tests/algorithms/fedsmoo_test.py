"""FedSMOO (Sun et al. 2023, arXiv:2305.11584).

e = rho u(g(w_i) - mu_i - s), mu_i <- mu_i + e - s, then FedDyn's step with g(w_i + e);
s <- rho u(mean mu_i)

With mu = V/8 and s = 3V/8 at w = 0: g - mu - s = -(A + V)/2, of length sqrt(2), so that
e = -rho (A + V) / (2 sqrt(2)) and A e = -sqrt(2) rho.
"""

import numpy as np
import pytest

from tests.algorithms.eager import (
    LN3,
    LR,
    NUM_CLIENTS,
    RHO,
    ZERO,
    A,
    V,
    Visit,
    assert_refused,
    gradient,
    server_step,
)
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedsmoo import FedSMOO

SMOO_RHO = float(LN3 / np.sqrt(2))  # A e = -ln 3
E = -SMOO_RHO * (A + V) / (2 * np.sqrt(2))


def first_visit(**hparams):
    return Visit(
        FedSMOO(rho=SMOO_RHO, lamb=0.5, **hparams),
        server={"perturbation": 3 / 8 * V},
        state={"dual": V, "mu": V / 8},
    )


def test_two_steps():
    visit = first_visit()
    first = LR * (3 / 4 * A - V / 2)  # g(w + e) = -3A/4 and lamb h = V/2
    assert_close(visit.step(), first)
    assert_close(visit.shifts[1], E)
    mu = V / 8 + E - 3 / 8 * V
    target = gradient(first) - mu - 3 / 8 * V
    second = SMOO_RHO * target / np.linalg.norm(target)
    visit.step()
    assert_close(visit.shifts[3], second)  # mu changes in every local step
    assert_close(visit.report()[1]["mu"], mu + second - 3 / 8 * V)


def test_perturbation_has_length_rho_and_starts_as_sam():
    visit = Visit(FedSMOO(rho=RHO, lamb=0.5))
    assert_close(visit.step(), LR * 3 / 4 * A)
    assert_close(visit.shifts[1], -RHO * A / 2)


def test_no_perturbation_of_length_0_or_without_direction():
    visit = Visit(FedSMOO(rho=0, lamb=0.5), state={"dual": V})
    assert_close(visit.step(), LR * (A - V) / 2)  # FedDyn's
    assert_close(visit.report()[1]["mu"], ZERO)
    cancelled = Visit(FedSMOO(rho=RHO), state={"mu": -A / 2})  # g - mu = 0
    assert_close(cancelled.step(), LR / 2 * A)
    assert_close(cancelled.shifts[1], ZERO)


def test_report():
    visit = first_visit()
    visit.step()
    upload, state, summands = visit.report()
    assert_close(upload["mu"], E - V / 4)
    assert_close(summands["mu"], E - V / 4)
    assert_close(state["dual"], V + LR * (3 / 4 * A - V / 2))  # h + delta
    visit = first_visit(server="mu_minus_e")
    visit.step()
    upload, state, _ = visit.report()
    assert_close(upload["mu"], -V / 4)  # without the last e
    assert_close(state["mu"], E - V / 4)


def test_server():
    after = server_step(
        FedSMOO(rho=0.3),
        {"dual_mean": V, "perturbation": V},
        mean={"model": A, "mu": 7 * A},
        total={"delta": 2 * A},
    )
    assert_close(after["perturbation"], 0.3 * A / 2)
    assert_close(after["weights"], A + V + 2 / NUM_CLIENTS * A)  # FedDyn's
    nothing = {"mean": {"model": A, "mu": ZERO}, "total": {"delta": ZERO}}
    assert_close(server_step(FedSMOO(rho=0.3), **nothing)["perturbation"], ZERO)


@pytest.mark.parametrize("hparams", [{"rho": -0.1}, {"lamb": -1.0}, {"server": "e"}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedSMOO, **hparams)
