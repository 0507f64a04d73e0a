"""FedCM (Xu et al. 2021, arXiv:2106.10874).

w_i <- w_i - lr (alpha g(w_i) + (1 - alpha) D), D <- mean of -delta_i / (num_steps_i lr)
"""

import pytest

from tests.algorithms.eager import LR, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedcm import FedCM


def test_steps_mix_gradient_and_momentum():
    visit = Visit(FedCM(alpha=0.25), server={"momentum": V})
    # 0.25 * -A/2 + 0.75 V: D is uphill like a gradient and is subtracted
    assert_close(visit.step(), LR * (A / 8 - 0.75 * V))


def test_round_0_has_short_steps():
    assert_close(Visit(FedCM(alpha=0.25)).step(), 0.25 * LR / 2 * A)


def test_alpha_1_is_plain():
    assert_close(Visit(FedCM(alpha=1), server={"momentum": V}).step(), LR / 2 * A)


def test_reports_the_mean_effective_gradient():
    visit = Visit(FedCM(alpha=0.25), server={"momentum": V})
    visit.step()
    weights = visit.step()
    _, state, summands = visit.report()
    assert_close(summands["gradient"], -weights / (2 * LR))
    assert summands["gradient"] @ -A > 0  # uphill
    assert state == {}


def test_server_replaces_the_momentum():
    after = server_step(
        FedCM(server_lr=0.5), {"momentum": V}, mean={"delta": A, "gradient": -3 * A}
    )
    assert_close(after["weights"], A / 2)
    assert_close(after["momentum"], -3 * A)


@pytest.mark.parametrize("alpha", [0, -0.1, 1.1, float("nan"), "a"])
def test_alpha_is_checked(alpha):
    assert_refused(FedCM, alpha=alpha)
