"""FedLESAM-D (Fan et al. 2024, arXiv:2405.18890).

w_i <- w_i - lr (g(w_i + rho u(old_i - w)) + lamb (h_i + w_i - start)), FedDyn's duals and server
"""

import numpy as np
import pytest

from tests.algorithms.eager import (
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
from tf_fedsam.algorithms.fedlesam_d import FedLESAMD


def test_two_steps():
    visit = Visit(FedLESAMD(rho=RHO, lamb=0.5), state={"dual": V, "old_model": -A})
    first = LR * (3 / 4 * A - V / 2)  # g(w + e) = -3A/4 and lamb h = V/2
    assert_close(visit.step(), first)
    # A (w + e) = 1.5 ln 3 - ln 3
    assert_close(visit.step(), first - LR * (-A / (1 + np.sqrt(3)) + 0.5 * (V + first)))
    assert_close(visit.shifts, [-RHO * A / 2, -RHO * A / 2])


def test_rho_0_is_feddyn():
    visit = Visit(FedLESAMD(rho=0, lamb=0.5), state={"dual": V, "old_model": -A})
    assert_close(visit.step(), LR * (A - V) / 2)


def test_lamb_0_is_fedlesam():
    visit = Visit(FedLESAMD(rho=RHO, lamb=0), state={"dual": V, "old_model": -A})
    assert_close(visit.step(), LR * 3 / 4 * A)


def test_first_visit_is_not_perturbed():
    visit = Visit(FedLESAMD(rho=RHO), weights=V)
    assert_close(visit.step(), V + LR / 2 * A)
    assert_close(visit.shifts, [ZERO])


def test_report():
    visit = Visit(FedLESAMD(rho=RHO, lamb=0.5), weights=V, state={"dual": A, "old_model": V - A})
    visit.step()  # -3A/4 + A/2
    upload, state, summands = visit.report()
    assert_close(upload["model"], V + LR / 4 * A)
    assert_close(state["dual"], A + LR / 4 * A)
    assert_close(state["old_model"], V)
    assert_close(summands["delta"], LR / 4 * A)


def test_the_servers_last_move_includes_the_duals():
    algorithm = FedLESAMD(direction="server_last")
    after = server_step(
        algorithm, {"dual_mean": V}, weights=5 * V, mean={"model": A}, total={"delta": 2 * A}
    )
    new = A + V + 2 / NUM_CLIENTS * A
    assert_close(after["weights"], new)
    assert_close(after["last_move"], new - 5 * V)


@pytest.mark.parametrize("hparams", [{"rho": -0.1}, {"direction": "up"}, {"lamb": -1.0}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedLESAMD, **hparams)
