"""FedASAM (Caldarola et al. 2022, arXiv:2203.11834).

T = |w| + eta for kernels and 1 for biases, e = rho T^2 g / |T g|, w_i <- w_i - lr g(w_i + e)

At V the kernel's entries are 1 and -1. With eta = sqrt(7) - 1, T^2 = 7 for the kernel, and
|T A|^2 = 7 * 2 + 2 = 16, since both the kernel's and the bias's part of A have length sqrt(2). So
e = -rho / 4 * (7 A_kernel, A_bias) and A e = -rho / 4 * 16 = -4 rho.
"""

import numpy as np
import pytest

from tests.algorithms.eager import FLAT, LN3, LR, RHO, ZERO, A, V, Visit, assert_refused
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.fedasam import FedASAM, _is_offset

ETA = float(np.sqrt(7) - 1)
SQUARES = np.array([7.0, 7.0, 7.0, 7.0, 1.0, 1.0])


def test_one_adaptive_step():
    visit = Visit(FedASAM(rho=LN3 / 4, eta=ETA), weights=V)
    assert_close(visit.step(), V + LR * 3 / 4 * A)  # A e = -ln 3
    assert_close(visit.shifts[1], -LN3 / 16 * SQUARES * A)


def test_perturbation_has_length_rho_in_units_of_t():
    visit = Visit(FedASAM(rho=0.3, eta=0.2), weights=np.array([0.5, -2.0, 0.1, 0.0, 3.0, -1.0]))
    visit.step()
    t = np.array([0.7, 2.2, 0.3, 0.2, 1.0, 1.0])
    assert_close(np.linalg.norm(visit.shifts[1] / t), 0.3)
    assert visit.shifts[1] @ A < 0  # uphill


def test_equal_t_is_sam():
    visit = Visit(FedASAM(rho=RHO, eta=1.0))  # T = 0 + 1 everywhere
    assert_close(visit.step(), LR * 3 / 4 * A)
    assert_close(visit.shifts[1], -RHO * A / 2)


def test_rho_0_is_plain_and_a_zero_gradient_not_perturbed():
    assert_close(Visit(FedASAM(rho=0), weights=V).step(), V + LR / 2 * A)
    visit = Visit(FedASAM(rho=0.3), weights=FLAT)
    assert_close(visit.step(), FLAT)
    assert_close(visit.shifts[1], ZERO)


def test_offsets_are_biases_and_the_beta_of_a_norm():
    assert [n for n in ("kernel", "bias", "gamma", "beta", "embeddings") if _is_offset(n)] == [
        "bias",
        "beta",
    ]


@pytest.mark.parametrize("hparams", [{"rho": -0.1}, {"eta": -0.1}, {"eta": float("nan")}])
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedASAM, **hparams)
