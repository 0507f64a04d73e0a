"""FedNSAM (Liu et al. 2025).

w_i <- w_i - lr g(w_i + server_momentum m - rho u(m)), weight decay at w_i,
m <- server_momentum m + server_lr mean delta_i, w <- w + m

With m = ln(3)/4 A, downhill, A m = ln 3: the extrapolation by m/2 adds ln(3)/2 to A w, and the
perturbation of length 3/4 ln 3 against m, uphill, takes 2 * 3/4 ln 3 away: -ln 3 in all.
"""

import numpy as np
import pytest

from tests.algorithms.eager import (
    LN3,
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
from tf_fedsam.algorithms.fednsam import FedNSAM
from tf_fedsam.client import LocalStep

M = LN3 / 4 * A
NSAM_RHO = 3 / 4 * LN3


def test_gradient_is_taken_ahead_and_uphill():
    visit = Visit(FedNSAM(rho=NSAM_RHO, server_momentum=0.5), server={"momentum": M})
    assert_close(visit.step(), LR * 3 / 4 * A)
    # The shift stays: A w = 3 LR = 1.5 ln 3 less ln 3.
    assert_close(visit.step(), LR * (3 / 4 + 1 / (1 + np.sqrt(3))) * A)
    assert_close(visit.shifts, [M / 2 - NSAM_RHO * A / 2] * 2)


def test_each_part_of_the_shift():
    ahead = Visit(FedNSAM(rho=0, server_momentum=0.5), server={"momentum": M})
    assert_close(ahead.step(), LR / (1 + np.sqrt(3)) * A)  # A w = ln(3)/2
    uphill = Visit(FedNSAM(rho=RHO, extrapolate=False), server={"momentum": M})
    assert_close(uphill.step(), LR * 3 / 4 * A)  # A w = -ln 3
    assert_close(uphill.shifts[0], -RHO * A / 2)  # of length RHO
    neither = Visit(FedNSAM(rho=0, server_momentum=0), server={"momentum": M})
    assert_close(neither.step(), LR / 2 * A)


def test_round_0_is_plain():
    visit = Visit(FedNSAM(rho=RHO), weights=V)
    assert_close(visit.step(), V + LR / 2 * A)
    assert_close(visit.shifts[0], ZERO)


def test_weight_decay_acts_on_the_unshifted_weights():
    visit = Visit(
        FedNSAM(rho=NSAM_RHO, server_momentum=0.5),
        weights=V,
        server={"momentum": M},
        local_step=LocalStep(weight_decay=0.1),
    )
    assert_close(visit.step(), V + LR * (3 / 4 * A - 0.1 * V))


def test_server_momentum_accumulates():
    algorithm = FedNSAM(server_momentum=0.5, server_lr=0.5)
    after = server_step(algorithm, {"momentum": V}, weights=3 * V, mean={"delta": A})
    assert_close(after["momentum"], (V + A) / 2)
    assert_close(after["weights"], 3 * V + (V + A) / 2)


def test_momentum_may_stay_out_of_the_model():
    algorithm = FedNSAM(server_momentum=0.5, extrapolate=False, apply_momentum=False)
    after = server_step(algorithm, {"momentum": V}, weights=3 * V, mean={"delta": A})
    assert_close(after["momentum"], 0.5 * V + A)
    assert_close(after["weights"], 3 * V + A)


@pytest.mark.parametrize(
    "hparams",
    [
        *({"rho": -0.1}, {"server_momentum": 1.0}, {"server_momentum": -0.1}),
        *({"extrapolate": "no"}, {"apply_momentum": "no"}),
    ],
)
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedNSAM, **hparams)
