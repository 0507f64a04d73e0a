"""FedAvgM (Hsu et al. 2019, arXiv:1909.06335): m <- mu m + mean delta, w <- w + server_lr m."""

import pytest

from tests.algorithms.eager import LR, ZERO, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedavgm import FedAvgM


def test_local_step_is_plain():
    visit = Visit(FedAvgM(), server={"momentum": V})
    assert_close(visit.step(), LR / 2 * A)  # the momentum stays on the server
    assert list(visit.round.received) == ["weights"]


def test_momentum_accumulates_and_moves_the_model():
    algorithm = FedAvgM(server_momentum=0.5, server_lr=0.1)
    first = server_step(algorithm, mean={"delta": V})
    assert_close(first["momentum"], V)  # 0.5 * 0 + V
    assert_close(first["weights"], 0.1 * V)
    second = server_step(algorithm, {"momentum": V}, weights=first["weights"], mean={"delta": A})
    assert_close(second["momentum"], 0.5 * V + A)
    assert_close(second["weights"], 0.1 * V + 0.1 * (0.5 * V + A))


def test_the_model_coasts_without_updates():
    after = server_step(FedAvgM(server_momentum=0.5), {"momentum": V}, mean={"delta": ZERO})
    assert_close(after["weights"], 0.5 * V)


def test_without_momentum_it_is_fedavg():
    after = server_step(FedAvgM(server_momentum=0), {"momentum": V}, mean={"delta": A})
    assert_close(after["weights"], A)


@pytest.mark.parametrize("value", [1, 1.0, -0.1, float("nan"), "high"])
def test_momentum_is_checked(value):
    assert_refused(FedAvgM, server_momentum=value)
