"""FedGloSS (Caldarola et al. 2025, arXiv:2412.03752).

The server sends z = w - rho u(p);
w_i <- w_i - lr (g(w_i + rho_local u(g)) + lamb (h_i + w_i - z)), h_i <- h_i + delta_i;
h <- h + sum delta_i / num_clients, w <- w + mean delta_i + h, p <- mean delta_i
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.eager import LR, NUM_CLIENTS, RHO, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import PARTIAL, Toy, assert_close, flat, plugged
from tf_fedsam.algorithms.base import Round
from tf_fedsam.algorithms.feddyn import FedDynClient
from tf_fedsam.algorithms.fedgloss import FedGloSS, FedGloSSClient
from tf_fedsam.algorithms.registry import accounting


def test_the_server_sends_a_point_uphill():
    """|A| = 2, and p = A points downhill."""
    visit = Visit(FedGloSS(rho=0.4), weights=V, server={"last_delta": A})
    assert_close(visit.weights, V - 0.2 * A)


def test_nothing_is_moved_before_the_first_move():
    assert_close(Visit(FedGloSS(rho=0.4), weights=V).weights, V)


def test_two_steps_with_local_perturbation():
    visit = Visit(FedGloSS(rho=0, rho_local=RHO, lamb=0.5), state={"dual": V})
    first = LR * (3 / 4 * A - V / 2)  # g(w + e) = -3A/4 and lamb h = V/2
    assert_close(visit.step(), first)
    # A (w + e) = 1.5 ln 3 - ln 3
    assert_close(visit.step(), first - LR * (-A / (1 + np.sqrt(3)) + 0.5 * (V + first)))
    assert_close([visit.shifts[1], visit.shifts[3]], [-RHO * A / 2] * 2)


def test_the_centre_is_the_point_received():
    """At z = V/2 the gradient is -A/2; then A w = ln 3 and w - z = LR/2 A."""
    visit = Visit(FedGloSS(rho=1, rho_local=0, lamb=0.5), weights=V, server={"last_delta": 7 * V})
    first = V / 2 + LR / 2 * A
    assert_close(visit.step(), first)
    assert_close(visit.step(), first - LR * (-A / 4 + 0.5 * LR / 2 * A))


def test_without_local_radius_clients_are_feddyns():
    visit = Visit(FedGloSS(rho_local=0, lamb=0.5), state={"dual": V})
    assert_close(visit.step(), LR * (A - V) / 2)
    assert visit.shifts == [None]


def test_gradients_are_those_really_taken():
    for rho_local, client, gradients in ((0, FedDynClient, "1"), (0.1, FedGloSSClient, "2")):
        algorithm = FedGloSS(rho_local=rho_local)
        assert algorithm.Client is client
        assert accounting(algorithm) == ("dual", 1, 1, gradients)
    process = Toy().process(FedGloSS(rho_local=0))
    metrics = process.next(process.initialize(), [1])[1]
    assert metrics["gradient_evaluations"] == 2  # 4 examples in batches of 4, two epochs
    assert "perturbation_norm" not in metrics


def test_report():
    """Measured from z = V/2: -A/2 + 0.5 A gives no move, -A/2 + 0.5 * 2 A one of -LR/2 A."""
    algorithm = FedGloSS(rho=1, rho_local=0, lamb=0.5)
    visit = Visit(algorithm, weights=V, server={"last_delta": V}, state={"dual": 2 * A})
    visit.step()
    upload, state, summands = visit.report()
    assert_close(upload["delta"], -LR / 2 * A)
    assert_close(state["dual"], 2 * A - LR / 2 * A)
    assert_close(summands["delta"], -LR / 2 * A)


@pytest.mark.parametrize(("server_dual", "divisor"), [("all", NUM_CLIENTS), ("official", 8)])
def test_the_server_moves_from_its_own_model(server_dual, divisor):
    """Two of four clients; the authors' code divides by both numbers."""
    after = server_step(
        FedGloSS(server_dual=server_dual),
        {"dual_mean": V, "last_delta": 5 * V},
        weights=9 * V,
        mean={"delta": A},
        total={"delta": 2 * A},
    )
    assert_close(after["dual_mean"], V + 2 / divisor * A)
    assert_close(after["weights"], 9 * V + A + V + 2 / divisor * A)
    assert_close(after["last_delta"], A)  # without the dual


@pytest.mark.parametrize(("number", "share"), [(0, 0.0), (1, 0.25), (3, 0.75), (4, 1.0), (9, 1.0)])
def test_radii_grow_linearly(number, share):
    """From 0.1 in round 0 to 0.5 on the server and 0.3 on the clients in round 4."""
    algorithm = FedGloSS(rho=0.5, rho_local=0.3, warmup_rounds=4, rho_start=0.1)
    visit = Visit(algorithm, weights=V, server={"last_delta": A}, number=number)
    assert_close(visit.weights, V - (0.1 + 0.4 * share) * A / 2)
    visit.step()
    assert np.linalg.norm(visit.shifts[1]) == pytest.approx(0.1 + 0.2 * share, rel=1e-6)


def test_a_radius_of_0_stays_0_in_the_warm_up():
    algorithm = FedGloSS(rho=0, rho_local=0, warmup_rounds=4, rho_start=0.1)
    visit = Visit(algorithm, weights=V, server={"last_delta": A}, number=1)
    assert_close(visit.weights, V)
    visit.step()
    assert visit.shifts == [None]


def test_rounds():
    """|z - w| = rho from round 1 on; the server's dual is the mean over all clients."""
    toy = Toy()
    process = toy.process(plugged("fedgloss", rho=0.5, rho_local=0.3, lamb=0.3))
    state = process.initialize(toy.initial())
    for number, cohort in enumerate(PARTIAL):
        before = {n: v for n, v in state.server.items() if n != "model_state"}
        round_ = Round(tf.constant(number), tf.constant(0.1), 6)
        sent = process.algorithm.download(before, {}, round_)["weights"]
        distance = np.linalg.norm(flat(sent) - flat(before["weights"]))
        assert distance == pytest.approx(0.5 if number else 0.0, rel=1e-5)
        state, _ = process.next(state, cohort)
    rows, _ = state.clients.gather(np.arange(6))
    assert_close(rows["dual"].sum(axis=0) / 6, flat(state.server["dual_mean"]), 5e-6)


@pytest.mark.parametrize(
    "hparams",
    [
        {"rho": -0.1},
        {"rho_local": -0.1},
        {"lamb": float("nan")},
        {"warmup_rounds": -1},
        {"warmup_rounds": 1},
        {"warmup_rounds": 2.5},
        {"rho_start": -1.0},
        {"server_dual": "mine"},
        {"server_lr": 0.5},
    ],
)
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedGloSS, **hparams)
