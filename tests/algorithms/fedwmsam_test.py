"""FedWMSAM (Huang et al. 2025).

D_i = D + alpha / (1 - alpha) (c - c_i), e = rho u(start + b D_i - w_i) at local step b,
w_i <- w_i - lr (alpha g(w_i + e) + (1 - alpha) D_i), alpha follows the clients' similarity
"""

import numpy as np
import pytest

from tests.algorithms.eager import (
    LN3,
    LR,
    NUM_CLIENTS,
    RHO,
    ZERO,
    A,
    V,
    Visit,
    assert_refused,
    server_step,
)
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedwmsam import FedWMSAM


def test_momentum_is_personal():
    server = {"momentum": V, "control": 2 * A, "alpha": 0.25}
    visit = Visit(FedWMSAM(rho=RHO), server=server, state={"control": A})
    # (1 - alpha) D_i = 0.75 V + 0.25 (2 A - A), and alpha g = -0.25 A/2 without perturbation
    assert_close(visit.step(), -LR * (0.75 * V + A / 4 - A / 8))
    assert_close(visit.shifts[0], ZERO)  # at the first step of every round
    visit = Visit(FedWMSAM(rho=RHO, correction=False), server=server, state={"control": A})
    assert_close(visit.step(), -LR * (0.75 * V - A / 8))


@pytest.mark.parametrize(
    ("direction", "momentum", "sign"),
    [
        # With alpha 1/2 and D = -A/2 the first step is LR (1/4 + 1/4) A and A w = ln 3. "ascent"
        # is along D - (w - start), a negative multiple of A.
        ("ascent", -A / 2, -1),
        ("descent", -A / 2, 1),
        # With D = -A it is LR (1/4 + 1/2) A; "deviation" is along w - start + LR D = -LR/4 A.
        ("deviation", -A, -1),
    ],
)
def test_perturbation(direction, momentum, sign):
    server = {"momentum": momentum, "alpha": 0.5}
    visit = Visit(FedWMSAM(rho=RHO, direction=direction), server=server)
    first = -LR * (-A / 4 + momentum / 2)
    assert_close(visit.step(), first)
    margin = A @ first + sign * LN3  # A e = +- 2 RHO
    expected = first - LR * (-0.5 * A / (1 + np.exp(margin)) + momentum / 2)
    assert_close(visit.step(), expected)
    assert_close(visit.shifts, [ZERO, sign * RHO * A / 2])


def test_perturbation_grows_with_the_step_before_it_is_normalised():
    visit = Visit(FedWMSAM(rho=0.3), server={"momentum": V, "alpha": 0.5})
    visit.step()
    before = visit.step()
    visit.step()
    towards = 2 * V - before  # b = 2
    assert_close(visit.shifts[2], 0.3 * towards / np.linalg.norm(towards))


def test_alpha_may_be_given_as_the_integer_1():
    assert_close(Visit(FedWMSAM(alpha=1)).step(), LR / 2 * A)


def test_alpha_1_is_the_limit():
    """As alpha -> 1 the drift c - c_i outgrows all else in D_i, so that e -> rho u(c - c_i)."""
    shifts = []
    for alpha in (1 - 1e-6, 1.0):
        server = {"momentum": A, "control": V, "alpha": alpha}
        visit = Visit(FedWMSAM(rho=0.3), server=server, state={"control": ZERO})
        assert_close(visit.step(), -LR * (V - A / 2), 1e-5)  # SCAFFOLD's first step
        visit.step()
        shifts.append(visit.shifts[1])
    assert_close(shifts[0], 0.3 * V / 2, 1e-4)
    assert_close(shifts[1], 0.3 * V / 2, 1e-4)


@pytest.mark.parametrize(
    ("momentum", "similarity"), [(ZERO, 0), (-A, 0), (A, 2), (V, 1), (A + V, 1 + np.sqrt(0.5))]
)
def test_similarity_of_update_and_momentum(momentum, similarity):
    """1 + cos(delta, D): the uphill D = -A is what a downhill delta along A agrees with."""
    visit = Visit(FedWMSAM(), server={"momentum": momentum, "alpha": 1.0})
    visit.step()  # delta = LR/2 A: at alpha = 1 the momentum has no part in it
    np.testing.assert_allclose(visit.report()[2]["similarity"], similarity, atol=1e-6)


def test_similarity_of_the_two_momenta():
    server = {"momentum": V, "control": A, "alpha": 0.5}
    visit = Visit(FedWMSAM(alpha_rule="momentum"), server=server)
    visit.step()
    # cos(D, D_i) with (1 - alpha) D_i = (V + A) / 2
    assert_close(visit.report()[2]["similarity"], np.sqrt(0.5))


def test_report():
    server = {"momentum": V, "control": 2 * A, "alpha": 0.25}
    visit = Visit(FedWMSAM(), server=server, state={"control": A})
    visit.step()
    upload, state, summands = visit.report()
    step = 0.75 * V + A / 8
    assert_close(upload["delta"], -LR * step)
    assert_close(summands["gradient"], step)
    assert_close(summands["control_change"], step - 2 * A)
    assert_close(state["control"], A - 2 * A + step)


def test_server():
    algorithm = FedWMSAM(alpha_step=0.25, server_lr=0.5)
    sums = {
        "mean": {"delta": A, "gradient": -3 * A},
        "total": {"control_change": 2 * A},
    }
    before = {"momentum": V, "control": V, "alpha": 0.5}
    after = server_step(algorithm, before, **sums, scalar={"similarity": 0.7})
    assert_close(after["weights"], A / 2)
    assert_close(after["momentum"], -3 * A)
    assert_close(after["control"], V + 2 / NUM_CLIENTS * A)
    assert_close(after["alpha"], 0.75 * 0.5 + 0.25 * 0.7)
    for similarity, kept in ((2.0, 0.9), (-1.0, 0.1)):  # held in [0.1, 0.9]
        after = server_step(algorithm, before, **sums, scalar={"similarity": similarity})
        assert_close(after["alpha"], 0.75 * 0.5 + 0.25 * kept)


@pytest.mark.parametrize(
    "hparams",
    [
        *({"rho": -0.1}, {"alpha": 0}, {"alpha": 1.1}, {"alpha_step": -0.1}),
        *({"direction": "up"}, {"alpha_rule": "cosine"}, {"correction": "no"}),
    ],
)
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedWMSAM, **hparams)
