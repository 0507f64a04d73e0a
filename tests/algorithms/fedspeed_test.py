"""FedSpeed (Sun et al. 2023, arXiv:2302.10429).

q = (1 - alpha) g(w_i) + alpha g(w_i + rho g / |g|), w_i <- w_i - lr (q + lamb (h_i + w_i - start)),
w <- mean over the participants of w_i + h_i
"""

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
from tf_fedsam.algorithms.fedspeed import FedSpeed


@pytest.mark.parametrize(
    ("alpha", "slope"),
    [(1.0, 3 / 4), (0.5, 5 / 8), (0.25, 9 / 16), (0.0, 1 / 2)],  # between -A/2 and -3A/4
)
def test_steps_mix_both_gradients(alpha, slope):
    visit = Visit(FedSpeed(rho=RHO, lamb=0.5, alpha=alpha), state={"dual": V})
    assert_close(visit.step(), LR * (slope * A - V / 2))  # lamb h = V/2
    assert_close(visit.shifts[1], -RHO * A / 2)


def test_proximal_term_pulls_back_to_the_start():
    visit = Visit(FedSpeed(rho=0, lamb=0.5), weights=V)
    visit.step()
    # g = -A/4 at LR/2 A from the start, where the pull is 0.5 LR/2 A
    assert_close(visit.step(), V + LR * (1 / 2 + 1 / 4 - LR / 4) * A)


def test_zero_gradient_is_not_perturbed():
    visit = Visit(FedSpeed(rho=RHO), weights=FLAT)
    assert_close(visit.step(), FLAT)
    assert_close(visit.shifts[1], ZERO)


def test_participants_upload_model_plus_new_dual():
    end = LR * (3 / 4 * A - V / 2)
    visit = Visit(FedSpeed(rho=RHO, lamb=0.5), state={"dual": V})
    visit.step()
    upload, state, summands = visit.report()
    assert upload.keys() == summands.keys() == {"corrected_model"}  # one vector
    assert_close(state["dual"], V + end)
    assert_close(upload["corrected_model"], end + V + end)
    visit = Visit(FedSpeed(rho=RHO, lamb=0.5, server="all"), state={"dual": V})
    visit.step()
    upload, state, summands = visit.report()
    assert_close(upload["model"], end)
    assert_close(state["dual"], V + end)
    assert_close(summands["delta"], end)


def test_the_two_servers():
    after = server_step(FedSpeed(), weights=9 * V, mean={"corrected_model": A})
    assert_close(after["weights"], A)  # the duals are in the mean already
    sums = {"mean": {"model": A}, "total": {"delta": 2 * A}}
    after = server_step(FedSpeed(server="all"), {"dual_mean": V}, weights=9 * V, **sums)
    assert_close(after["weights"], A + V + 2 / NUM_CLIENTS * A)


@pytest.mark.parametrize(
    "hparams", [{"rho": -0.1}, {"lamb": -1.0}, {"alpha": 1.1}, {"server": "some"}]
)
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedSpeed, **hparams)
