"""FedLESAM (Fan et al. 2024, arXiv:2405.18890): w_i <- w_i - lr g(w_i + rho u(old_i - w))."""

import numpy as np
import pytest

from tests.algorithms.eager import LN3, LR, RHO, ZERO, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedlesam import FedLESAM


def test_perturbed_towards_the_model_received_last_time():
    visit = Visit(FedLESAM(rho=RHO), weights=V, state={"old_model": V - 5 * A})
    # The model has moved along A since, downhill: e = -RHO A/2 is uphill and A e = -ln 3.
    assert_close(visit.step(), V + LR * 3 / 4 * A)
    # e stays. A w = 3 LR = 1.5 ln 3, so g = -A / (1 + sqrt(3)).
    assert_close(visit.step(), V + LR * (3 / 4 + 1 / (1 + np.sqrt(3))) * A)
    assert_close(visit.shifts, [-RHO * A / 2, -RHO * A / 2])


def test_perturbation_has_length_rho_over_all_variables():
    visit = Visit(FedLESAM(rho=0.3), weights=V, state={"old_model": 4 * A})
    visit.step()
    # old - w = 4 A - V, of length sqrt(4 * 16 + 4) = sqrt(68)
    assert_close(visit.shifts[0], 0.3 * (4 * A - V) / np.sqrt(68))


def test_first_visit_is_plain():
    visit = Visit(FedLESAM(rho=RHO), weights=V)
    assert_close(visit.step(), V + LR / 2 * A)
    assert_close(visit.shifts[0], ZERO)


def test_rho_0_is_plain():
    assert_close(Visit(FedLESAM(rho=0), state={"old_model": A}).step(), LR / 2 * A)


def test_keeps_the_model_received():
    visit = Visit(FedLESAM(rho=RHO), weights=V, state={"old_model": A})
    visit.step()
    upload, state, _ = visit.report()
    assert_close(state["old_model"], V)
    assert set(upload) == {"delta"}


def test_direction_of_the_servers_last_move():
    algorithm = FedLESAM(rho=RHO, direction="server_last")
    visit = Visit(algorithm, server={"last_move": 3 * A})
    assert_close(visit.step(), LR * 3 / 4 * A)  # against the move
    assert visit.report()[1] == {}
    assert_close(Visit(algorithm).step(), LR / 2 * A)  # round 0
    after = server_step(
        FedLESAM(direction="server_last", server_lr=0.5),
        {"last_move": V},
        weights=V,
        mean={"delta": A},
    )
    assert_close(after["weights"], V + A / 2)
    assert_close(after["last_move"], A / 2)


def test_server_is_fedavg():
    assert_close(server_step(FedLESAM(), weights=V, mean={"delta": A})["weights"], V + A)


@pytest.mark.parametrize("hparams", [{"rho": -LN3}, {"rho": "wide"}, {"direction": "up"}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedLESAM, **hparams)
