"""Sharpness and Hessian against closed forms of softmax regression, in float64.

With inputs extended by 1 and P the predicted probabilities, the mean loss has the gradient
mean_i x_i (p_i - e_{y_i})'. At zero weights every p_i is 1/C, so that the Hessian is the Kronecker
product of mean_i x_i x_i' and I/C - 11'/C^2, whose largest eigenvalue is 1/C.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import strategy
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
    measured._examples = [None] * 4  # products are sums over the examples
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
    product = measured._product(state.server, measured._examples, vector)

    def gradient_at(step):
        moved = [w + step * v for w, v in zip(weights, vector, strict=True)]
        server = {**state.server, "weights": moved}
        return measured._gradient(server, measured._examples)[1:]

    for exact, up, down in zip(product, gradient_at(1e-2), gradient_at(-1e-2), strict=True):
        difference = (up - down).numpy() / 2e-2
        np.testing.assert_allclose(exact, difference, rtol=0.02, atol=0.02 * np.abs(exact).max())
