"""FedLESAM-S (Fan et al. 2024, arXiv:2405.18890): g(w_i + rho u(old_i - w)) + scale (c - c_i)."""

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
from tf_fedsam.algorithms.fedlesam_s import FedLESAMS


def visit_with_controls(**hparams):
    kept = {"control": A / 4, "old_model": -A}  # e = -RHO A/2, g(w + e) = -3A/4
    return Visit(FedLESAMS(**hparams), server={"control": V}, state=kept)


def test_one_perturbed_and_corrected_step():
    visit = visit_with_controls(rho=RHO)
    assert_close(visit.step(), LR * (A - V))  # -3A/4 + V - A/4
    assert_close(visit.shifts, [-RHO * A / 2])


def test_scale_of_the_correction():
    visit = visit_with_controls(rho=RHO, scale=0.1)
    assert_close(visit.step(), LR * (3 / 4 * A - 0.1 * (V - A / 4)))
    assert_close(visit_with_controls(rho=RHO, scale=0).step(), LR * 3 / 4 * A)  # FedLESAM


def test_rho_0_is_scaffold():
    assert_close(visit_with_controls(rho=0).step(), LR * (3 / 4 * A - V))  # -A/2 + V - A/4


def test_first_visit_is_not_perturbed():
    visit = Visit(FedLESAMS(rho=RHO), weights=V)
    assert_close(visit.step(), V + LR / 2 * A)
    assert_close(visit.shifts, [ZERO])


def test_report():
    visit = visit_with_controls(rho=RHO)
    visit.step()
    upload, state, _ = visit.report()
    assert_close(state["control"], -3 / 4 * A)  # the mean perturbed gradient
    assert_close(upload["control_change"], -A)
    assert_close(state["old_model"], ZERO)  # the model received


def test_server_is_scaffold_and_remembers_its_move():
    after = server_step(
        FedLESAMS(direction="server_last", server_lr=0.5),
        {"control": V},
        weights=V,
        mean={"delta": A},
        total={"control_change": 2 * A},
    )
    assert_close(after["weights"], V + A / 2)
    assert_close(after["last_move"], A / 2)
    assert_close(after["control"], V + 2 / NUM_CLIENTS * A)


@pytest.mark.parametrize("hparams", [{"rho": -0.1}, {"direction": "up"}, {"scale": -1.0}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedLESAMS, **hparams)
