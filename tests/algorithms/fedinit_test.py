"""FedInit (Sun et al. 2023, arXiv:2306.05706).

start = w + beta (w - last_i), plain steps, last_i <- w_i, w <- mean w_i
"""

import pytest

from tests.algorithms.eager import LR, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedinit import FedInit


def test_starts_away_from_the_last_local_model():
    visit = Visit(FedInit(beta=0.5), weights=V, state={"last_model": A})
    start = V + 0.5 * (V - A)
    assert_close(visit.weights, start)
    visit = Visit(FedInit(beta=0.5), weights=V, state={"last_model": 3 * V})
    assert_close(visit.step(), 0 * V + LR / 2 * A)  # V + 0.5 (V - 3 V) = 0


def test_beta_0_is_plain():
    assert_close(Visit(FedInit(beta=0), weights=V, state={"last_model": A}).weights, V)


def test_first_visit_starts_away_from_the_initial_model():
    visit = Visit(FedInit(beta=0.5), weights=V, server={"initial": 3 * V})
    assert_close(visit.step(), 0 * V + LR / 2 * A)
    assert_close(Visit(FedInit(beta=0.5), weights=V).weights, V)  # round 0


def test_report():
    end = 1.5 * V + LR / 2 * A
    visit = Visit(FedInit(beta=0.5), weights=V, state={"last_model": 0 * V})
    visit.step()
    upload, state, summands = visit.report()
    assert_close(upload["model"], end)
    assert_close(summands["model"], end)
    assert_close(state["last_model"], end)
    visit = Visit(FedInit(beta=0.5, aggregate="delta"), weights=V, state={"last_model": 0 * V})
    visit.step()
    upload, state, _ = visit.report()
    assert_close(upload["delta"], LR / 2 * A)  # from the relaxed start
    assert_close(state["last_model"], end)


def test_the_two_servers():
    assert_close(server_step(FedInit(), weights=V, mean={"model": A})["weights"], A)
    delta = FedInit(aggregate="delta", server_lr=0.5)
    after = server_step(delta, weights=V, mean={"delta": A})
    assert_close(after["weights"], V + A / 2)
    assert_close(after["initial"], V)


@pytest.mark.parametrize(
    "hparams", [{"beta": -0.1}, {"beta": float("inf")}, {"aggregate": "mean"}, {"server_lr": 0.5}]
)
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedInit, **hparams)
