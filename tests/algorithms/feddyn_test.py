"""FedDyn (Acar et al. 2021, arXiv:2111.04263).

w_i <- w_i - lr (g(w_i) + lamb (h_i + w_i - start)), h_i <- h_i + delta_i,
w <- mean w_i + h with h the mean of h_j over all clients
"""

import numpy as np
import pytest

from tests.algorithms.eager import LR, NUM_CLIENTS, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.feddyn import FedDyn
from tf_fedsam.client import LocalStep


def test_dual_and_proximal_terms():
    visit = Visit(FedDyn(lamb=0.5), state={"dual": V})
    first = LR * (A - V) / 2  # g = -A/2 and 0.5 (V + 0)
    assert_close(visit.step(), first)
    # A w = 2 LR = ln 3, so g = -A/4; the pull is 0.5 (V + w).
    assert_close(visit.step(), first - LR * (-A / 4 + 0.5 * (V + first)))


def test_lamb_0_is_plain():
    assert_close(Visit(FedDyn(lamb=0), state={"dual": V}).step(), LR / 2 * A)


def test_dual_accumulates_the_update():
    visit = Visit(FedDyn(lamb=0.5), weights=V, state={"dual": 2 * A})
    visit.step()  # g = -A/2 and 0.5 * 2 A: LR (1/2 - 1) A
    upload, state, summands = visit.report()
    assert_close(state["dual"], 2 * A - LR / 2 * A)
    assert_close(upload["model"], V - LR / 2 * A)
    assert_close(summands["model"], V - LR / 2 * A)
    assert_close(summands["delta"], -LR / 2 * A)


def test_server_adds_the_mean_dual_of_all_clients():
    after = server_step(
        FedDyn(), {"dual_mean": V}, weights=9 * V, mean={"model": A}, total={"delta": 2 * A}
    )
    assert_close(after["dual_mean"], V + 2 / NUM_CLIENTS * A)
    assert_close(after["weights"], A + V + 2 / NUM_CLIENTS * A)  # the old model has no say


def test_official_scope_clips_without_lamb_w():
    """-A/2 and lamb (h - start) = -V/2 have length 1: halved together, lamb start = V is not."""
    local_step = LocalStep(clip_norm=float(np.sqrt(0.5)), clip_scope="official")
    visit = Visit(FedDyn(lamb=0.5), weights=2 * V, state={"dual": V}, local_step=local_step)
    assert_close(visit.step(), 2 * V - LR * ((-A / 2 - V / 2) / 2 + V))


@pytest.mark.parametrize("hparams", [{"lamb": -0.1}, {"lamb": float("inf")}, {"server_lr": 0.5}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedDyn, **hparams)
