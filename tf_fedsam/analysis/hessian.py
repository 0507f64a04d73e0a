"""Eigenvalues and trace of a symmetric matrix that is known by its products with vectors.

The largest eigenvalues come from Lanczos' method. Its basis is orthogonalised in full, twice, so
that no eigenvalue is told twice by rounding; when it has ``10 + 2 * count`` vectors it is restarted
with the best Ritz vectors (thick restart, Wu and Simon 2000), so that memory is bounded:

    H V = V T + beta * v e'           V orthonormal, T small, e the last unit vector
    T s = theta * s                   theta is told, |H V s - theta * V s| = beta * |s_last|

That residual bounds the distance of theta to an eigenvalue of H; where the next one is a gap away,
theta is off by about residual^2 / gap only. The iteration ends when the residual of all that are
told is at most ``tolerance * max(|theta|, |H| / 100)``, |H| being the largest magnitude of a theta:
what is small beside |H| drowns in the rounding of products. "Largest" goes by sign, not by
magnitude: -5 comes after 3. Of eigenvalues that are equal, or as close as the tolerance, one may be
passed over, as by every method that starts from one vector.

The trace is Hutchinson's estimate: the mean of z' H z over random signs z, with its standard error.
Its expectation is the trace, and its variance 2 * sum of the squared off-diagonal entries over the
number of vectors.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

Product = Callable[[np.ndarray], np.ndarray]

MORE_VECTORS = 10
SMALL = 0.01  # share of the largest magnitude, below which an eigenvalue need not be more exact


@dataclasses.dataclass(frozen=True)
class Spectrum:
    """The largest eigenvalues.

    Attributes:
        values: in falling order.
        residual: the largest distance of one of them to an eigenvalue, at most.
        num_products: products with the matrix that it took.
        converged: whether the residual is as small as was asked for.
    """

    values: np.ndarray
    residual: float
    num_products: int
    converged: bool


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over random vectors.

    Attributes:
        value: the mean.
        standard_error: of the mean; NaN for a single vector, which tells nothing about it.
    """

    value: float
    standard_error: float


def largest_eigenvalues(
    product: Product,
    size: int,
    count: int,
    generator: np.random.Generator,
    *,
    tolerance: float = 1e-3,
    max_products: int = 100,
) -> Spectrum:
    """The ``count`` largest eigenvalues, or all if there are fewer.

    Args:
        product: of the matrix with a vector.
        size: length of a vector.
        count: how many eigenvalues.
        generator: of the vector to begin with.
        tolerance: largest residual, as a share of the eigenvalue.
        max_products: at most so many products; what is found by then is told.
    """
    count = min(count, size)
    width = min(MORE_VECTORS + 2 * count, size)
    max_products = max(max_products, count)
    basis = np.zeros((width, size), np.float32)
    small = np.zeros((width, width))
    used, products = 0, 0
    following = _orthogonal(_draw(generator, size), basis[:0])[0]
    while True:
        basis[used] = following
        used, products = used + 1, products + 1
        image = np.asarray(product(following), np.float32)
        if not np.isfinite(image).all():
            return Spectrum(np.full(count, np.nan), np.nan, products, converged=False)
        following, column, beta = _orthogonal(image, basis[:used])
        small[:used, used - 1] = small[used - 1, :used] = column
        values, vectors = (found[..., ::-1] for found in np.linalg.eigh(small[:used, :used]))
        told, residuals = values[:count], abs(beta * vectors[-1, :count])
        scale = np.abs(values).max()
        good = residuals <= tolerance * np.maximum(np.abs(told), SMALL * scale)
        converged = used == size or (used >= count and bool(good.all()))
        if converged or products == max_products:
            return Spectrum(told, float(residuals.max()), products, converged)
        if beta <= np.finfo(np.float32).eps * scale:
            # The basis spans an invariant space; the rest of the matrix is looked at, too.
            following = _orthogonal(_draw(generator, size), basis[:used])[0]
        if used == width:
            kept = count + (width - count) // 2
            basis[:kept] = vectors[:, :kept].T.astype(np.float32) @ basis
            small[:] = 0.0
            np.fill_diagonal(small[:kept, :kept], values[:kept])
            used = kept


def trace(
    product: Product, size: int, num_vectors: int, generator: np.random.Generator
) -> Estimate:
    """The sum of the diagonal, estimated.

    Args:
        product: of the matrix with a vector.
        size: length of a vector.
        num_vectors: random vectors, a product each.
        generator: of the vectors.
    """
    found = []
    for _ in range(num_vectors):
        signs = generator.integers(0, 2, size).astype(np.float32) * 2 - 1
        found.append(np.dot(signs, np.asarray(product(signs), np.float64)))
    spread = np.std(found, ddof=1) / np.sqrt(num_vectors) if num_vectors > 1 else np.nan
    return Estimate(float(np.mean(found)), float(spread))


def _orthogonal(vector: np.ndarray, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """A vector without its part in a basis, as a unit vector; that part, and the rest's length."""
    part = np.zeros(len(basis))
    for _ in range(2):  # after a second time nothing is left but rounding
        along = basis @ vector
        vector = vector - along @ basis
        part += along
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector / np.float32(length or 1.0), part, length


def _draw(generator: np.random.Generator, size: int) -> np.ndarray:
    return generator.standard_normal(size).astype(np.float32)
