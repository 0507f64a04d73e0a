"""FedNSAM-D (Liu et al. 2025): FedNSAM's shifted gradient, FedDyn's terms, momentum on its move."""

import numpy as np
import pytest

from tests.algorithms.eager import (
    LN3,
    LR,
    NUM_CLIENTS,
    ZERO,
    A,
    V,
    Visit,
    assert_refused,
    server_step,
)
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fednsam_d import FedNSAMD

M = LN3 / 4 * A  # A m = ln 3
NSAM_RHO = 3 / 4 * LN3  # with server_momentum 1/2: A shift = ln(3)/2 - 2 * 3/4 ln 3 = -ln 3


def test_two_steps():
    algorithm = FedNSAMD(rho=NSAM_RHO, server_momentum=0.5, lamb=0.5)
    visit = Visit(algorithm, server={"momentum": M}, state={"dual": V})
    first = LR * (3 / 4 * A - V / 2)  # g(w + shift) = -3A/4 and lamb h = V/2
    assert_close(visit.step(), first)
    # A (w + shift) = 1.5 ln 3 - ln 3
    assert_close(visit.step(), first - LR * (-A / (1 + np.sqrt(3)) + 0.5 * (V + first)))
    assert_close(visit.shifts, [M / 2 - NSAM_RHO * A / 2] * 2)


def test_neutral_settings_are_feddyn():
    algorithm = FedNSAMD(rho=0, server_momentum=0, lamb=0.5)
    visit = Visit(algorithm, server={"momentum": M}, state={"dual": V})
    assert_close(visit.step(), LR * (A - V) / 2)


def test_round_0_is_plain():
    visit = Visit(FedNSAMD(rho=NSAM_RHO))
    assert_close(visit.step(), LR / 2 * A)
    assert_close(visit.shifts, [ZERO])


def test_server_momentum_takes_feddyns_move():
    after = server_step(
        FedNSAMD(server_momentum=0.5),
        {"dual_mean": V, "momentum": 4 * V},
        weights=5 * V,
        mean={"model": A},
        total={"delta": 2 * A},
    )
    dual = V + 2 / NUM_CLIENTS * A
    move = A + dual - 5 * V
    assert_close(after["dual_mean"], dual)
    assert_close(after["momentum"], 0.5 * 4 * V + move)
    assert_close(after["weights"], 5 * V + 2 * V + move)


@pytest.mark.parametrize("hparams", [{"rho": -0.1}, {"server_momentum": 1.0}, {"lamb": -0.1}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedNSAMD, **hparams)
