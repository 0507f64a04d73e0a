"""FedAvg (McMahan et al. 2017, arXiv:1602.05629): w_i <- w_i - lr g(w_i), mean of the updates."""

import pytest

from tests.algorithms.eager import LR, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.errors import InputError


def test_local_steps_are_plain_sgd():
    visit = Visit(FedAvg(), weights=V)
    assert_close(visit.step(), V + LR / 2 * A)  # A V = 0: g = -A/2, downhill is +A
    assert_close(visit.step(), V + LR * (1 / 2 + 1 / 4) * A)  # A w = 4 LR/2 = ln 3: g = -A/4
    assert visit.shifts == [None, None]


def test_the_update_is_measured_from_the_start():
    visit = Visit(FedAvg(), weights=V)
    visit.step()
    upload, state, summands = visit.report()
    assert_close(upload["delta"], LR / 2 * A)
    assert_close(summands["delta"], LR / 2 * A)
    assert state == {}


def test_server_adds_the_mean_update():
    assert_close(server_step(FedAvg(), weights=V, mean={"delta": A})["weights"], V + A)
    half = FedAvg(server_lr=0.5)
    assert_close(server_step(half, weights=V, mean={"delta": A})["weights"], V + A / 2)


@pytest.mark.parametrize("server_lr", [0, -1.0, float("nan")])
def test_server_lr_is_checked(server_lr):
    assert_refused(FedAvg, server_lr=server_lr)


def test_has_no_hyper_parameters():
    with pytest.raises(InputError, match=r"fedavg has no hyper-parameters.*rho"):
        FedAvg(rho=0.1)
