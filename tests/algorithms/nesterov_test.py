"""Nesterov's extrapolation around any method (Liu et al. 2025).

Clients are sent z = w + momentum m; m <- momentum m + the method's move from z; w <- w + m.
"""

import numpy as np
import pytest

from tests.algorithms.eager import LR, NUM_CLIENTS, RHO, ZERO, A, V, Visit, server_step
from tests.algorithms.harness import PARTIAL, Toy, assert_close
from tf_fedsam.algorithms.fedacg import FedACG
from tf_fedsam.algorithms.fedadam import FedAdam
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.fedavgm import FedAvgM
from tf_fedsam.algorithms.feddyn import FedDyn
from tf_fedsam.algorithms.fedlesam import FedLESAM
from tf_fedsam.algorithms.fednsam import FedNSAM
from tf_fedsam.algorithms.fedsam import FedSAM
from tf_fedsam.algorithms.nesterov import MOMENTUM, Nesterov
from tf_fedsam.algorithms.registry import all_algorithms, find
from tf_fedsam.algorithms.relaxed_init import RelaxedInit
from tf_fedsam.errors import InputError


def test_starts_ahead_along_the_momentum():
    visit = Visit(Nesterov(FedSAM(rho=RHO), 0.5), weights=A, server={MOMENTUM: V - 2 * A})
    assert_close(visit.weights, V / 2)  # A + 0.5 (V - 2 A)
    assert_close(visit.step(), V / 2 + LR * 3 / 4 * A)  # a FedSAM step from there
    assert_close(visit.report()[0]["delta"], LR * 3 / 4 * A)


@pytest.mark.parametrize("method", [n for n, a in all_algorithms().items() if not a.own_momentum])
def test_momentum_0_is_the_method(method):
    ahead = Visit(Nesterov(find(method)(), 0), weights=V, server={MOMENTUM: A})
    plain = Visit(find(method)(), weights=V)
    for _ in range(2):
        np.testing.assert_array_equal(ahead.step(), plain.step())


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedlesam", {"rho": 0.5}),
        ("fedspeed", {"rho": 0.5}),
        ("fedcm", {"alpha": 0.3, "relaxed_init": 0.3}),
    ],
)
def test_equals_its_reference(method, settings):
    toy, training = Toy(), {"weight_decay": 0.05, "clip_norm": 0.8}
    settings = {"training": training, "nesterov": 0.6, **settings}
    expected = toy.reference(method, PARTIAL, **settings).weights
    assert_close(toy.train(method, PARTIAL, **settings), expected)


def test_server_momentum_takes_the_methods_move_from_z():
    algorithm = Nesterov(FedAvg(server_lr=0.1), 0.5)
    after = server_step(algorithm, {MOMENTUM: V}, weights=4 * V, mean={"delta": A})
    assert_close(after[MOMENTUM], 0.5 * V + 0.1 * A)
    assert_close(after["weights"], 4.5 * V + 0.1 * A)


def test_a_model_form_move_is_measured_from_z():
    after = server_step(
        Nesterov(FedDyn(), 0.5),
        {"dual_mean": V, MOMENTUM: 2 * V},
        weights=4 * V,
        mean={"model": A},
        total={"delta": 2 * A},
    )
    new = A + V + 2 / NUM_CLIENTS * A  # FedDyn's model; its move from z = 5 V is new - 5 V
    assert_close(after[MOMENTUM], V + new - 5 * V)
    assert_close(after["weights"], new)  # 4 V + m = z + the move


def test_a_first_visit_is_one_to_z():
    """FedLESAM's perturbation is 0 at the first visit, although w and z differ."""
    visit = Visit(Nesterov(FedLESAM(rho=RHO), 0.5), weights=V, server={MOMENTUM: 2 * V})
    assert_close(visit.step(), 2 * V + LR / 2 * A)
    assert_close(visit.shifts, [ZERO])


def test_goes_with_relaxed_initialisation():
    algorithm = Nesterov(RelaxedInit(FedAvg(), 0.5), 0.5)
    visit = Visit(algorithm, weights=V, server={MOMENTUM: 2 * V}, state={"last_model": A})
    assert_close(visit.weights, 2 * V + 0.5 * (2 * V - A))  # relaxed from z = 2 V
    assert algorithm.describe() == {"relaxed_init": 0.5, "nesterov": 0.5}


@pytest.mark.parametrize("method", [FedAvgM, FedACG, FedAdam, FedNSAM])
def test_refuses_a_method_with_a_momentum_of_its_own(method):
    with pytest.raises(InputError, match=method.name):
        Nesterov(method())


@pytest.mark.parametrize("momentum", [1.0, -0.1, float("nan")])
def test_momentum_is_checked(momentum):
    with pytest.raises(InputError, match=rf"nesterov.*{momentum}"):
        Nesterov(FedAvg(), momentum)
