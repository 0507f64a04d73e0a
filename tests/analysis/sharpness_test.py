"""Sharpness and Hessian against closed forms of softmax regression and a dense Hessian, in float64.

With inputs extended by 1 and P the predicted probabilities, the mean loss has the gradient
mean_i x_i (p_i - e_{y_i})'. At zero weights every p_i is 1/C, so that the Hessian is the Kronecker
product of mean_i x_i x_i' and I/C - 11'/C^2, whose largest eigenvalue is 1/C.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import Toy, flat, strategy
from tf_fedsam import rng
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.analysis.sharpness import Sharpness
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset, Preprocess
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

CLASSES = 3


def data(num_examples=23):
    generator = np.random.default_rng(3)
    x = generator.normal(size=(num_examples, 4)).astype(np.float32)
    return x, generator.integers(0, CLASSES, num_examples)


def linear():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(CLASSES)])


def process(model=linear, devices=2, **options):
    x, y = data()
    return LearningProcess(
        model,
        FedAvg(),
        FederatedDataset.from_arrays(x, y, np.zeros(len(y), int), num_classes=CLASSES, **options),
        options=TrainingOptions(batch_size=5),  # the last batch is smaller
        strategy=strategy(devices),
    )


def loss(weights, x, y):
    logits = x @ weights[:-1] + weights[-1]
    return np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y])


def gradient(weights, x, y):
    inputs = np.column_stack([x, np.ones(len(x))])
    exponentials = np.exp(inputs @ weights)
    p = exponentials / exponentials.sum(axis=1, keepdims=True)
    return inputs.T @ (p - np.eye(CLASSES)[y]) / len(x)


@pytest.mark.parametrize("devices", [1, 2])
def test_sharpness(devices):
    runs = process(devices=devices)
    x, y = data()
    w = np.random.default_rng(0).normal(size=(5, CLASSES)).astype(np.float32)
    state = runs.initialize([w[:-1], w[-1]])
    measured = Sharpness(runs.engine, Examples(x, y))
    x, w = x.astype(np.float64), w.astype(np.float64)
    uphill = gradient(w, x, y)
    uphill /= np.linalg.norm(uphill)
    for rho in (0.1, 0.5):
        expected = loss(w + rho * uphill, x, y) - loss(w, x, y)
        assert expected > 0
        assert measured.sharpness(state.server, rho) == pytest.approx(expected, rel=1e-4)
    assert measured.loss(state.server) == pytest.approx(loss(w, x, y), rel=1e-6)


@pytest.mark.parametrize("devices", [1, 2])
def test_hessian_eigenvalue(devices):
    runs = process(devices=devices)
    x, y = data()
    state = runs.initialize([np.zeros((4, CLASSES)), np.zeros(CLASSES)])
    inputs = np.column_stack([x, np.ones(len(x))]).astype(np.float64)
    expected = np.linalg.eigvalsh(inputs.T @ inputs / len(x)).max() / CLASSES
    measured = Sharpness(runs.engine, Examples(x, y))
    value = measured.hessian_eigenvalue(state.server, num_iterations=300, tolerance=1e-7)
    assert value == pytest.approx(expected, rel=1e-4)


def test_the_inputs_are_preprocessed():
    """Scaled inputs scale the Hessian of the kernel by the square."""
    _, y = data()
    images = np.full((8, 4), 255, np.uint8)
    examples = Examples(images, y[:8])
    runs = process(preprocess=Preprocess(scale=1 / 255))
    state = runs.initialize([np.zeros((4, CLASSES)), np.zeros(CLASSES)])
    value = Sharpness(runs.engine, examples).hessian_eigenvalue(state.server, num_iterations=50)
    assert value == pytest.approx(5 / CLASSES, rel=1e-3)  # |(1, 1, 1, 1, 1)|^2 / C


@pytest.mark.parametrize(
    ("spectrum", "expected"),
    [((5.0, 3.0, -1.0), 5.0), ((-5.0, 3.0, 1.0), 3.0), ((-5.0, -3.0, -1.0), -1.0)],
)
def test_the_largest_eigenvalue_not_the_longest(spectrum, expected):
    measured = Sharpness.__new__(Sharpness)
    measured.examples = [None] * 4  # products are sums over the examples
    measured._product = lambda server, examples, vector: [4 * np.array(spectrum) * vector[0]]
    server = {"weights": [tf.zeros([3])]}
    value = measured.hessian_eigenvalue(server, num_iterations=200, tolerance=0)
    assert value == pytest.approx(expected, rel=1e-5)


def test_products_with_a_nonlinear_network():
    """Against differences of gradients, for a network with BatchNorm, dropout and a convolution."""

    def model():
        layers = keras.layers
        return keras.Sequential(
            [
                keras.Input((4,)),
                layers.Reshape((2, 2, 1)),
                layers.Conv2D(3, 2, padding="same", activation="tanh"),
                layers.BatchNormalization(),
                layers.Flatten(),
                layers.Dropout(0.5),
                layers.Dense(CLASSES),
            ]
        )

    runs = process(model)
    state = runs.initialize()
    measured = Sharpness(runs.engine, Examples(*data()))
    weights = state.server["weights"]
    generator = np.random.default_rng(0)
    vector = [tf.constant(generator.normal(size=w.shape), tf.float32) for w in weights]
    product = measured._product(state.server, measured.examples, vector)

    def gradient_at(step):
        moved = [w + step * v for w, v in zip(weights, vector, strict=True)]
        server = {**state.server, "weights": moved}
        return measured._gradient(server, measured.examples)[1:]

    for exact, up, down in zip(product, gradient_at(1e-2), gradient_at(-1e-2), strict=True):
        difference = (up - down).numpy() / 2e-2
        np.testing.assert_allclose(exact, difference, rtol=0.02, atol=0.02 * np.abs(exact).max())


@functools.cache
def toy(devices):
    """A tanh network of 27 weights, its state, and its measure on 44 examples, 4 at a time."""
    problem = Toy(hidden=3)
    runs = problem.process(FedAvg(), devices=devices)
    measured = Sharpness(runs.engine, problem.dataset.train)
    return problem.problem, runs.initialize(problem.initial()), measured


@functools.cache
def dense_hessian():
    """Central differences of the float64 gradient: off by about 1e-10."""
    problem, state, _ = toy(1)
    w, everyone, step = flat(state.server["weights"]).astype(float), np.arange(44), 1e-5
    columns = [
        (problem.gradient(w + e, everyone) - problem.gradient(w - e, everyone)) / (2 * step)
        for e in step * np.eye(len(w))
    ]
    dense = np.asarray(columns)
    return (dense + dense.T) / 2


@pytest.mark.parametrize("devices", [1, 3])
def test_eigenvalues_of_a_dense_hessian(devices):
    """Some are negative; to 1e-5 of the norm, for float32 sums over 44 examples and 27 weights."""
    _, state, measured = toy(devices)
    expected = np.linalg.eigvalsh(dense_hessian())[::-1]
    assert expected[-1] < -0.01 * expected[0]
    for count in (1, 5, 27):
        found = measured.hessian_eigenvalues(state.server, count, tolerance=1e-5)
        assert found.converged
        np.testing.assert_allclose(found.values, expected[:count], rtol=0, atol=1e-5 * expected[0])
    assert measured.hessian_eigenvalue(state.server) == pytest.approx(expected[0], rel=1e-3)


@pytest.mark.parametrize("devices", [1, 3])
def test_trace_of_a_dense_hessian(devices):
    """The same signs times the dense matrix; the trace is within four standard errors."""
    _, state, measured = toy(devices)
    dense, draw = dense_hessian(), rng.generator(0, "analysis.trace")
    signs = np.asarray([draw.integers(0, 2, 27) * 2 - 1 for _ in range(20)], float)
    each = np.einsum("ni,ij,nj->n", signs, dense, signs)
    found = measured.hessian_trace(state.server, 20)
    assert found.value == pytest.approx(each.mean(), rel=1e-4)
    assert found.standard_error == pytest.approx(each.std(ddof=1) / np.sqrt(20), rel=1e-4)
    assert abs(found.value - np.trace(dense)) < 4 * found.standard_error


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("m", [1, 3, 11, 44, 100])
def test_m_sharpness(m, devices):
    """Each batch climbs its own gradient; 44 = 14 * 3 + 2, and the last two are left out.

    Batches of 11 and 44 are added up in parts of 4. A rise is a difference of losses of size 1 in
    float32, so that it is known to some 1e-6 of these, a hundred thousandth of itself.
    """
    problem, state, measured = toy(devices)
    w, rho = flat(state.server["weights"]).astype(float), 0.3
    rises = []
    for begin in range(0, 44 - min(m, 44) + 1, m):
        batch = np.arange(44)[begin : begin + m]
        uphill = problem.gradient(w, batch)
        moved = w + rho * uphill / np.linalg.norm(uphill)
        rises.append(problem.loss(moved, batch) - problem.loss(w, batch))
    assert len(rises) == max(1, 44 // m)
    assert min(rises) > 0.01
    assert measured.m_sharpness(state.server, m, rho) == pytest.approx(np.mean(rises), rel=1e-4)


def test_of_all_examples_m_sharpness_is_sharpness():
    _, state, measured = toy(1)
    rises = [measured.m_sharpness(state.server, m) for m in (44, 11, 1)]
    assert rises[0] == pytest.approx(measured.sharpness(state.server), rel=1e-4)
    assert rises[0] < rises[1] < rises[2]  # smaller batches have steeper gradients of their own


def test_other_examples_without_compiling_again():
    _, state, measured = toy(1)
    few = Examples(measured.examples.x[:7], measured.examples.y[:7])
    other = measured.on(few)
    fresh = Sharpness(Toy(hidden=3).process(FedAvg()).engine, few)
    assert other.sharpness(state.server) == pytest.approx(fresh.sharpness(state.server), rel=1e-6)
    assert other._gradient is measured._gradient
    assert measured.loss(state.server) != other.loss(state.server)


def test_measuring_leaves_the_weights_alone():
    """What moves the network inside puts it back for the next batch and call."""
    _, state, measured = toy(3)
    before, loss = flat(state.server["weights"]), measured.loss(state.server)
    measured.m_sharpness(state.server, 3, rho=5.0)
    np.testing.assert_array_equal(flat(state.server["weights"]), before)
    assert measured.loss(state.server) == loss
