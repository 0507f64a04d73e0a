"""FedMoSWA (Liu et al. 2025, arXiv:2507.20016).

w_i <- w_i - lr_k (g(w_i) + m - c_i), lr_k falling as in FedSWA; c_i <- c_i - m + G_i with
G_i = -delta_i / sum lr_k; m <- m + gamma mean(c_i - m), gamma = 1 the first time
"""

import numpy as np
import pytest

from tests.algorithms.eager import LR, A, V, Visit, as_flat, as_tree, assert_refused, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedmoswa import FedMoSWA
from tf_fedsam.algorithms.registry import accounting
from tf_fedsam.client import LocalStep
from tf_fedsam.errors import InputError


def visit_with_controls(**hparams):
    return Visit(FedMoSWA(**hparams), server={"control": V}, state={"control": A / 4})


def test_steps_are_corrected_at_falling_rates():
    visit = visit_with_controls(lr_end=0.1)
    first = LR * (3 / 4 * A - V)  # -A/2 + V - A/4
    assert_close(visit.step(), first)
    # A w = 1.5 ln 3, and the rate is half of the way to 0.1 LR.
    gradient = -A / (1 + 3 * np.sqrt(3))
    assert_close(visit.step(), first - 0.55 * LR * (gradient + V - A / 4))


def test_first_visit_of_round_0_is_fedswa():
    visit = Visit(FedMoSWA(lr_end=0.1))
    visit.step()
    assert_close(visit.step(), LR * (1 / 2 + 0.55 / 4) * A)


@pytest.mark.parametrize(("normaliser", "rates"), [("sum", 1.55), ("midpoint", 2 * 0.55)])
def test_new_control_is_a_mean_of_gradients(normaliser, rates):
    """-A/2 at the rate LR and -A/4 at 0.55 LR; m - c_i cancels where the divisor is the sum."""
    visit = Visit(FedMoSWA(lr_end=0.1, normaliser=normaliser))
    visit.step()
    visit.step()
    upload, state, summands = visit.report()
    expected = -(1 / 2 + 0.55 / 4) / rates * A
    for received in (upload, state, summands):
        assert_close(received["control"], expected)
    assert_close(upload["delta"], LR * (1 / 2 + 0.55 / 4) * A)


def test_the_midpoint_is_that_of_plain_steps():
    visit = Visit(FedMoSWA(normaliser="midpoint"), local_step=LocalStep(momentum=0.5))
    visit.step()
    with pytest.raises(InputError, match=r"local_momentum makes longer.*normaliser=sum"):
        visit.report()


def test_new_control_has_the_old_ones_in_it():
    """c_i - m + G_i with G_i = -A/2 + m - c_i is the gradient."""
    visit = Visit(FedMoSWA(), server={"control": V}, state={"control": A / 4}, num_steps=1)
    visit.step()
    assert_close(visit.report()[1]["control"], -A / 2)


def test_the_normalisers_agree_without_a_fall():
    controls = []
    for normaliser in ("sum", "midpoint"):
        visit = visit_with_controls(lr_end=1, normaliser=normaliser)
        visit.step()
        visit.step()
        controls.append(visit.report()[1]["control"])
    assert_close(controls[0], controls[1])


def test_the_servers_control_is_a_momentum():
    algorithm, mean = FedMoSWA(gamma=0.25), {"delta": A, "control": 2 * A}
    after = server_step(algorithm, {"control": V}, weights=V, mean=mean)
    assert_close(after["control"], V + 0.25 * (2 * A - V))
    assert_close(after["weights"], V + 1.5 * A)
    downhill = algorithm.downhill_momentum({"control": as_tree(V)})
    assert_close(as_flat(downhill), -V)


@pytest.mark.parametrize(("first_round", "factor"), [("full", 1.0), ("gamma", 0.25)])
def test_the_first_controls(first_round, factor):
    """Of the first round that anybody reports in, which need not be round 0."""
    algorithm = FedMoSWA(gamma=0.25, first_round=first_round)
    after = server_step(algorithm, mean={"delta": A, "control": 2 * A})
    assert_close(after["control"], factor * 2 * A)


def test_server_lr():
    after = server_step(FedMoSWA(server_lr=0.5), mean={"delta": A, "control": A})
    assert_close(after["weights"], A / 2)


def test_accounting():
    assert accounting(FedMoSWA()) == ("control", 2, 2, "1")


@pytest.mark.parametrize(
    "hparams",
    [
        {"lr_end": 2.0},
        {"gamma": 0.0},
        {"gamma": 1.5},
        {"normaliser": "mean"},
        {"first_round": "none"},
    ],
)
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedMoSWA, **hparams)
