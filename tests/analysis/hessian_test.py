"""Eigenvalues and trace by products, against dense float64 matrices.

A vector of the basis is float32, so that the matrix acts with a relative error of 2^-24 = 6e-8 of
its norm; sums over a few dozen vectors make it some times as much. 1e-6 of the norm is allowed.
"""

import numpy as np
import pytest

from tf_fedsam.analysis.hessian import MORE_VECTORS, largest_eigenvalues, trace

ROUNDING = 1e-6


def generator(seed=0):
    return np.random.default_rng(seed)


def matrix(eigenvalues, seed=0):
    """A dense symmetric matrix with these eigenvalues."""
    size = len(eigenvalues)
    basis, _ = np.linalg.qr(generator(seed).normal(size=(size, size)))
    return (basis * np.asarray(eigenvalues)) @ basis.T


def counted(dense):
    calls = []

    def product(vector):
        assert vector.dtype == np.float32
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
        calls.append(1)
        return dense @ vector

    return product, calls


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("size", [8, 40, 200])
def test_the_largest(count, size):
    """By sign: -30 is the longest and never among them. 200 unknowns take restarts."""
    spectrum = np.concatenate([[-30, 9, 7, 6.5, 4, 2], generator(1).uniform(-1, 1, size - 6)])
    dense = matrix(spectrum)
    product, calls = counted(dense)
    found = largest_eigenvalues(
        product, size, count, generator(), tolerance=1e-5, max_products=3 * size + 100
    )
    expected = np.sort(np.linalg.eigvalsh(dense))[::-1][:count]
    assert found.converged
    assert found.num_products == len(calls)
    # Of an exact residual r the value is off by r^2 / gap at most, here far below the rounding.
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=30 * ROUNDING)


def test_it_restarts():
    """The basis never has more than 10 + 2 * count vectors, and yet it converges."""
    size, count = 120, 3
    spectrum = np.linspace(0, 1, size)
    found = largest_eigenvalues(
        lambda v: matrix(spectrum) @ v, size, count, generator(), tolerance=1e-4, max_products=500
    )
    assert MORE_VECTORS + 2 * count < found.num_products < 500
    np.testing.assert_allclose(found.values, spectrum[::-1][:3], rtol=0, atol=1e-5)


def test_all_negative():
    spectrum = -np.arange(1.0, 21.0)
    found = largest_eigenvalues(lambda v: matrix(spectrum) @ v, 20, 4, generator(), tolerance=1e-5)
    np.testing.assert_allclose(found.values, [-1, -2, -3, -4], rtol=0, atol=20 * ROUNDING)


def test_fewer_than_asked_for():
    found = largest_eigenvalues(lambda v: matrix([3.0, -1.0]) @ v, 2, 5, generator())
    np.testing.assert_allclose(found.values, [3, -1], rtol=0, atol=3 * ROUNDING)
    assert found.converged


def test_the_residual_bounds_the_error():
    """Also when it is cut short, which is said."""
    dense = matrix(generator(2).normal(size=100))
    eigenvalues = np.linalg.eigvalsh(dense)
    for most in (5, 10, 20):
        found = largest_eigenvalues(
            lambda v: dense @ v, 100, 2, generator(), tolerance=1e-6, max_products=most
        )
        assert (found.num_products, found.converged) == (most, False)
        for value in found.values:
            assert np.abs(eigenvalues - value).min() <= found.residual + ROUNDING
        assert found.residual > 1e-6  # or it would have been said to be done


def test_a_looser_tolerance_takes_fewer_products():
    dense = matrix(np.concatenate([[10, 8, 6], generator(1).normal(size=97)]))
    loose, tight = (
        largest_eigenvalues(lambda v: dense @ v, 100, 3, generator(), tolerance=tolerance)
        for tolerance in (1e-1, 1e-6)
    )
    assert loose.num_products < tight.num_products
    assert loose.residual <= 1e-1 * 10
    assert tight.residual <= 1e-6 * 10


@pytest.mark.parametrize("factor", [0.0, 2.5])
def test_a_multiple_of_the_identity(factor):
    """Every vector is an eigenvector: a new one is drawn when the space is used up."""
    found = largest_eigenvalues(lambda v: factor * v, 30, 4, generator())
    np.testing.assert_allclose(found.values, [factor] * 4, rtol=1e-6)
    assert found.num_products == 4


def test_a_matrix_that_is_not_finite():
    found = largest_eigenvalues(lambda v: v * np.nan, 10, 2, generator())
    assert np.isnan(found.values).all()
    assert len(found.values) == 2
    assert np.isnan(found.residual)
    assert not found.converged


def test_the_same_vectors_give_the_same_bits():
    dense = matrix(generator(1).normal(size=50))
    one, two = (largest_eigenvalues(lambda v: dense @ v, 50, 3, generator(7)) for _ in range(2))
    np.testing.assert_array_equal(one.values, two.values)


def test_trace_is_the_mean_over_the_signs():
    dense = matrix(np.arange(-3.0, 9.0))
    draw = generator(5)
    signs = np.asarray([draw.integers(0, 2, 12) * 2 - 1 for _ in range(6)], float)
    each = np.einsum("ni,ij,nj->n", signs, dense, signs)
    found = trace(lambda v: dense @ v, 12, 6, generator(5))
    assert found.value == pytest.approx(each.mean(), rel=1e-6)
    assert found.standard_error == pytest.approx(each.std(ddof=1) / np.sqrt(6), rel=1e-6)


def test_trace_and_its_error():
    """Var(z'Hz) = 2 * sum over i != j of H_ij^2 for random signs.

    Of 2000 vectors the standard error is known to 1 / sqrt(4000) = 1.6 % or, the tails of z'Hz
    being heavier than a normal's, some per cent: 10 % are allowed.
    """
    dense = matrix(np.arange(-3.0, 9.0))  # the trace is 30
    off_diagonal = np.square(dense).sum() - np.square(np.diag(dense)).sum()
    found = trace(lambda v: dense @ v, 12, 2000, generator(3))
    assert found.standard_error == pytest.approx(np.sqrt(2 * off_diagonal / 2000), rel=0.1)
    assert abs(found.value - 30) < 4 * found.standard_error
    assert found.standard_error < 0.5  # so that the sign and the size are tested


def test_trace_of_a_diagonal_matrix_is_exact():
    """z_i^2 = 1."""
    found = trace(lambda v: np.arange(10) * v, 10, 3, generator())
    assert (found.value, found.standard_error) == (45, 0)


def test_trace_with_one_vector():
    found = trace(lambda v: 2 * v, 4, 1, generator())
    assert found.value == 8
    assert np.isnan(found.standard_error)
