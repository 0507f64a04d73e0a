"""FedNSAM-S (Liu et al. 2025): FedNSAM's shifted gradient and momentum, SCAFFOLD's controls."""

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
from tf_fedsam.algorithms.fednsam_s import FedNSAMS

M = LN3 / 4 * A  # A m = ln 3
NSAM_RHO = 3 / 4 * LN3  # with server_momentum 1/2: A shift = ln(3)/2 - 2 * 3/4 ln 3 = -ln 3


def visit_with_controls(**hparams):
    algorithm = FedNSAMS(**hparams)
    return Visit(algorithm, server={"control": V, "momentum": M}, state={"control": A / 4})


def test_one_shifted_and_corrected_step():
    visit = visit_with_controls(rho=NSAM_RHO, server_momentum=0.5)
    assert_close(visit.step(), LR * (A - V))  # -3A/4 + V - A/4
    assert_close(visit.shifts, [M / 2 - NSAM_RHO * A / 2])


def test_neutral_settings_are_scaffold():
    visit = visit_with_controls(rho=0, server_momentum=0)
    assert_close(visit.step(), LR * (3 / 4 * A - V))  # -A/2 + V - A/4


def test_round_0_is_plain():
    visit = Visit(FedNSAMS(rho=NSAM_RHO))
    assert_close(visit.step(), LR / 2 * A)
    assert_close(visit.shifts, [ZERO])


def test_controls_estimate_shifted_gradients():
    visit = visit_with_controls(rho=NSAM_RHO, server_momentum=0.5)
    visit.step()
    upload, state, _ = visit.report()
    assert_close(state["control"], -3 / 4 * A)
    assert_close(upload["control_change"], -A)


def test_server_has_momentum_and_controls():
    after = server_step(
        FedNSAMS(server_momentum=0.5, server_lr=0.5),
        {"control": V, "momentum": V},
        weights=3 * V,
        mean={"delta": A},
        total={"control_change": 2 * A},
    )
    assert_close(after["momentum"], (V + A) / 2)
    assert_close(after["weights"], 3 * V + (V + A) / 2)
    assert_close(after["control"], V + 2 / NUM_CLIENTS * A)


@pytest.mark.parametrize("hparams", [{"rho": -0.1}, {"server_momentum": 1.0}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedNSAMS, **hparams)
