"""FedACG (Kim et al. 2024, arXiv:2201.03172).

start z = w + server_momentum m, w_i <- w_i - lr (g(w_i) + mu (w_i - z)),
m <- server_momentum m + server_lr mean delta_i, w <- w + m
"""

import pytest

from tests.algorithms.eager import LR, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedacg import FedACG


def test_starts_ahead_and_is_pulled_back_there():
    visit = Visit(FedACG(server_momentum=0.5, mu=0.5), weights=A, server={"momentum": V - 2 * A})
    z = V / 2  # A + 0.5 (V - 2 A)
    assert_close(visit.weights, z)
    assert list(visit.round.received) == ["weights"]
    assert_close(visit.step(), z + LR / 2 * A)  # no pull at z, where g = -A/2
    # g = -A/4 and the pull towards z is 0.5 LR/2 A
    assert_close(visit.step(), z + LR * (1 / 2 + 1 / 4 - LR / 4) * A)
    assert_close(visit.report()[0]["delta"], LR * (3 / 4 - LR / 4) * A)  # from z


def test_neutral_settings_are_plain():
    visit = Visit(FedACG(server_momentum=0, mu=0), server={"momentum": V})
    visit.step()
    assert_close(visit.step(), LR * 3 / 4 * A)


def test_server_momentum_accumulates():
    algorithm = FedACG(server_momentum=0.5, server_lr=0.1)
    after = server_step(algorithm, {"momentum": V}, weights=4 * V, mean={"delta": A})
    assert_close(after["momentum"], 0.5 * V + 0.1 * A)
    assert_close(after["weights"], 4.5 * V + 0.1 * A)  # = z + 0.1 A with z = 4 V + 0.5 V


@pytest.mark.parametrize("hparams", [{"server_momentum": 1.0}, {"server_momentum": -0.1}])
def test_momentum_is_checked(hparams):
    assert_refused(FedACG, **hparams)


@pytest.mark.parametrize("mu", [-0.1, float("inf"), "a"])
def test_mu_is_checked(mu):
    assert_refused(FedACG, mu=mu)
