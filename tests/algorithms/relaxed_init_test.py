"""Relaxed initialisation of any method (Sun et al. 2023, arXiv:2306.05706).

start = w + beta (w - last_i); what a method measures from the start, it measures from this one.
"""

import numpy as np
import pytest

from tests.algorithms.eager import LR, ZERO, A, V, Visit, server_step
from tests.algorithms.harness import PARTIAL, Toy, assert_close
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.feddyn import FedDyn
from tf_fedsam.algorithms.fedinit import FedInit
from tf_fedsam.algorithms.fedprox import FedProx
from tf_fedsam.algorithms.registry import all_algorithms, find
from tf_fedsam.algorithms.relaxed_init import RelaxedInit
from tf_fedsam.algorithms.scaffold import Scaffold
from tf_fedsam.errors import InputError


def test_starts_away_from_the_last_local_model():
    visit = Visit(RelaxedInit(FedAvg(), 0.5), weights=V, state={"last_model": A})
    assert_close(visit.weights, V + 0.5 * (V - A))
    first = Visit(RelaxedInit(FedAvg(), 0.5), weights=V, server={"initial": 3 * V})
    assert_close(first.weights, ZERO)  # V + 0.5 (V - 3 V): the first visit
    neutral = Visit(RelaxedInit(FedAvg(), 0), weights=V, state={"last_model": A})
    assert_close(neutral.weights, V)


def test_proximal_centre_is_the_start():
    visit = Visit(RelaxedInit(FedProx(mu=0.5), 0.5), weights=V, state={"last_model": ZERO})
    assert_close(visit.step(), 1.5 * V + LR / 2 * A)  # no pull towards w = V
    # g = -A/4 at LR/2 A from the start, where the pull is 0.5 LR/2 A
    assert_close(visit.step(), 1.5 * V + LR * (1 / 2 + 1 / 4 - LR / 4) * A)


def test_update_dual_and_last_model():
    algorithm = RelaxedInit(FedDyn(lamb=0.5), 0.5)
    visit = Visit(algorithm, weights=V, state={"dual": 2 * A, "last_model": ZERO})
    visit.step()  # from 1.5 V: -A/2 + 0.5 * 2 A
    upload, state, summands = visit.report()
    assert_close(summands["delta"], -LR / 2 * A)  # from the start, which the server does not know
    assert_close(upload["delta"], -LR / 2 * A)
    assert_close(state["dual"], 2 * A - LR / 2 * A)
    assert_close(upload["model"], 1.5 * V - LR / 2 * A)
    assert_close(state["last_model"], 1.5 * V - LR / 2 * A)


def test_server_is_the_methods():
    after = server_step(
        RelaxedInit(Scaffold(server_lr=0.5), 0.5),
        {"control": V},
        weights=V,
        mean={"delta": A},
        total={"control_change": ZERO},
    )
    assert_close(after["weights"], V + A / 2)
    assert_close(after["control"], V)
    assert_close(after["initial"], V)


@pytest.mark.parametrize("method", [n for n, a in all_algorithms().items() if not a.own_start])
def test_beta_0_is_the_method(method):
    relaxed = Visit(RelaxedInit(find(method)(), 0), weights=V, state={"last_model": A})
    plain = Visit(find(method)(), weights=V)
    for _ in range(2):
        np.testing.assert_array_equal(relaxed.step(), plain.step())
    for mine, its in zip(relaxed.report(), plain.report(), strict=True):
        for name in its:
            np.testing.assert_array_equal(mine[name], its[name])


@pytest.mark.parametrize(
    ("method", "hparams"),
    [("scaffold", {}), ("mimelite", {}), ("fedsmoo", {"rho": 0.5}), ("fedwmsam", {"rho": 0.3})],
)
def test_equals_its_reference(method, hparams):
    toy, training = Toy(), {"weight_decay": 0.05, "clip_norm": 0.8}
    settings = {"training": training, "relaxed_init": 0.3, **hparams}
    expected = toy.reference(method, PARTIAL, **settings).weights
    assert_close(toy.train(method, PARTIAL, **settings), expected)


def test_is_the_method_in_all_else():
    algorithm = RelaxedInit(Scaffold(), 0.5)
    assert algorithm.name == "scaffold"
    assert algorithm.client_state == ("control", "last_model")
    assert algorithm.downloads == Scaffold.downloads
    assert algorithm.uploads == Scaffold.uploads
    assert algorithm.describe() == {"relaxed_init": 0.5}


def test_refuses_a_method_with_a_start_of_its_own():
    with pytest.raises(InputError, match="fedinit"):
        RelaxedInit(FedInit())


@pytest.mark.parametrize("beta", [-0.1, float("inf"), float("nan")])
def test_beta_is_checked(beta):
    with pytest.raises(InputError, match=rf"relaxed_init.*{beta}"):
        RelaxedInit(FedAvg(), beta)
