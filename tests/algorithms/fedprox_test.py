"""FedProx (Li et al. 2020, arXiv:1812.06127): w_i <- w_i - lr (g(w_i) + mu (w_i - start))."""

import numpy as np
import pytest

from tests.algorithms.eager import LR, A, V, Visit, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedprox import FedProx
from tf_fedsam.client import LocalStep


def test_pulls_back_to_the_start():
    visit = Visit(FedProx(mu=0.5), weights=V)
    assert_close(visit.step(), V + LR / 2 * A)  # at the start the pull is 0
    # w - start = LR/2 A and g = -A/4: the step is LR (1/4 - 0.5 LR/2) A, shorter than plain.
    assert_close(visit.step(), V + LR * (1 / 2 + 1 / 4 - LR / 4) * A)


def test_mu_0_is_plain():
    visit = Visit(FedProx(mu=0), weights=V)
    visit.step()
    assert_close(visit.step(), V + LR * (1 / 2 + 1 / 4) * A)


def test_server_is_fedavg():
    after = server_step(FedProx(server_lr=0.5), weights=V, mean={"delta": A})
    assert_close(after["weights"], V + A / 2)


def test_clips_the_pull_with_the_gradient():
    """|A/2| = 1, so that clipping to 1/sqrt(2) shortens the first step by just that."""
    clip = float(np.sqrt(0.5))
    visit = Visit(FedProx(mu=0.5), weights=V, local_step=LocalStep(clip_norm=clip))
    assert_close(visit.step(), V + LR / 2 * clip * A)


def test_official_scope_clips_without_mu_w():
    """-A/2 and -mu V are orthogonal and of length 1; their sum, sqrt(2), is halved, mu V is not."""
    local_step = LocalStep(clip_norm=float(np.sqrt(0.5)), clip_scope="official")
    visit = Visit(FedProx(mu=0.5), weights=V, local_step=local_step)
    assert_close(visit.step(), V - LR * ((-A / 2 - V / 2) / 2 + V / 2))
    unclipped = Visit(FedProx(mu=0.5), weights=V, local_step=LocalStep(clip_scope="official"))
    unclipped.step()
    assert_close(unclipped.step(), V + LR * (1 / 2 + 1 / 4 - LR / 4) * A)


@pytest.mark.parametrize("mu", [-0.1, float("inf"), float("nan"), "strong"])
def test_mu_is_checked(mu):
    assert_refused(FedProx, mu=mu)
