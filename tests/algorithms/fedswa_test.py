"""FedSWA (Liu et al. 2025, arXiv:2507.20016).

Step k = 0 .. K - 1 of a round uses lr (1 - (1 - lr_end) k / K); w <- w + server_lr mean delta_i
"""

import numpy as np
import pytest

from tests.algorithms.eager import LR, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import LR as TOY_LR
from tests.algorithms.harness import Toy, assert_close, flat, plugged
from tf_fedsam.algorithms.fedswa import FedSWA
from tf_fedsam.client import LocalStep


def test_the_rate_falls():
    visit = Visit(FedSWA(lr_end=0.1))
    assert_close(visit.step(), LR / 2 * A)
    # Half of the way to 0.1 LR, and g = -A/4 at A w = ln 3.
    assert_close(visit.step(), LR / 2 * A + 0.55 * LR / 4 * A)


def test_the_decay_falls_with_it():
    visit = Visit(FedSWA(lr_end=0), weights=V, local_step=LocalStep(weight_decay=0.1))
    first = V - LR * (-A / 2 + 0.1 * V)
    assert_close(visit.step(), first)
    assert_close(visit.step(), first - LR / 2 * (-A / 4 + 0.1 * first))


def test_lr_end_1_is_plain():
    visit = Visit(FedSWA(lr_end=1))
    visit.step()
    assert_close(visit.step(), LR * (1 / 2 + 1 / 4) * A)


def test_the_sum_of_the_rates():
    """50 ((1 + 0.1) / 2 + (1 - 0.1) / 100) = 27.95, of one step 1."""
    for num_steps, expected in ((50, 27.95), (1, 1.0)):
        client = Visit(FedSWA(lr_end=0.1), num_steps=num_steps).client
        assert float(client.lr_sum()) == pytest.approx(expected * LR, rel=1e-6)


def test_rates_fall_over_each_clients_own_steps():
    """Clients with 2, 8 and 6 steps, the last of which does half of them."""
    toy = Toy()
    process = toy.process(plugged("fedswa", lr_end=0.1))
    state = process.initialize(toy.initial())
    state, metrics = process.next(state, [1, 2, 5], np.array([1.0, 1.0, 0.5]))
    assert metrics["num_steps"] == [2, 8, 3]
    deltas = []
    for client, num_steps in ((1, 2), (2, 8), (5, 3)):
        w = toy.problem.initial
        for k, batch in enumerate(toy.problem.batches(0, client)[:num_steps]):
            w = w - TOY_LR * (1 - 0.9 * k / num_steps) * toy.problem.gradient(w, batch)
        deltas.append(w - toy.problem.initial)
    expected = toy.problem.initial + 1.5 * np.mean(deltas, axis=0)
    assert_close(flat(state.server["weights"]), expected)


@pytest.mark.parametrize(("server_lr", "factor"), [(None, 1.5), (0.5, 0.5)])
def test_the_server_goes_beyond_the_mean(server_lr, factor):
    after = server_step(FedSWA(server_lr=server_lr), weights=V, mean={"delta": A})
    assert_close(after["weights"], V + factor * A)


@pytest.mark.parametrize("hparams", [{"lr_end": -0.1}, {"lr_end": 1.1}, {"server_lr": 0}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedSWA, **hparams)
