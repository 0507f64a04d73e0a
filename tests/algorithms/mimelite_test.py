"""MimeLite (Karimireddy et al. 2020, arXiv:2008.03606).

w_i <- w_i - lr (alpha g(w_i) + (1 - alpha) m), m <- alpha mean F_i + (1 - alpha) m with F_i the
gradient of all of the client's data at the model received
"""

import pytest

from tests.algorithms.eager import LR, A, V, Visit, assert_refused, examples, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.mimelite import MimeLite
from tf_fedsam.algorithms.relaxed_init import RelaxedInit


def test_steps_mix_gradient_and_momentum():
    visit = Visit(MimeLite(alpha=0.25), server={"momentum": V})
    assert_close(visit.step(), LR * (A / 8 - 0.75 * V))  # 0.25 * -A/2 + 0.75 V
    # m stays what it was during the round. A w = 4 LR/8 = ln(3)/4, so g = -A / (1 + 3^(1/4)).
    assert_close(visit.step(), LR * (1 / 8 + 0.25 / (1 + 3**0.25)) * A - 1.5 * LR * V)


def test_alpha_1_is_plain():
    assert_close(Visit(MimeLite(alpha=1), server={"momentum": V}).step(), LR / 2 * A)


def test_full_gradient_is_a_mean_over_examples():
    """Classes (0, 0) and (1,) in two batches: (-A/2 - A/2 + A/2) / 3, not the batches' mean 0."""
    visit = Visit(MimeLite(), data=examples([0, 0], [1]))
    visit.step()
    upload, _, summands = visit.report()
    assert_close(upload["full_gradient"], -A / 6)
    assert_close(summands["full_gradient"], -A / 6)
    assert_close(upload["delta"], 0.1 * LR / 2 * A)  # default alpha


def test_full_gradient_is_taken_at_the_model_received():
    """Not where a relaxed start begins: 0.5 (0 + A/2), where A w would be 1."""
    visit = Visit(RelaxedInit(MimeLite(alpha=1), 0.5), state={"last_model": -A / 2})
    assert_close(visit.weights, A / 4)
    visit.step()
    assert_close(visit.report()[0]["full_gradient"], -A / 2)


def test_server_averages_the_momentum():
    after = server_step(
        MimeLite(alpha=0.25, server_lr=0.5),
        {"momentum": V},
        mean={"delta": A, "full_gradient": -A},
    )
    assert_close(after["weights"], A / 2)
    assert_close(after["momentum"], -A / 4 + 0.75 * V)


@pytest.mark.parametrize("alpha", [0, 1.1, "a"])
def test_alpha_is_checked(alpha):
    assert_refused(MimeLite, alpha=alpha)
