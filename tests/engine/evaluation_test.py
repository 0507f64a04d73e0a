"""Predictions and sums over examples, whatever their number and that of the devices."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import Toy, flat
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.data.federated_dataset import Examples
from tf_fedsam.engine import examples as engine_examples
from tf_fedsam.engine.evaluation import PREDICTION_BATCH


@functools.cache
def process(devices):
    return Toy().process(FedAvg(), devices=devices)


def some_examples(count):
    generator = np.random.default_rng(count)
    x = generator.normal(size=(count, 4)).astype(np.float32)
    return Examples(x, generator.integers(3, size=count))


def expected(state, examples):
    """Losses and classes of softmax regression."""
    kernel, bias = (w.numpy().astype(np.float64) for w in state.server["weights"])
    logits = examples.x @ kernel + bias
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_total = np.log(np.exp(shifted).sum(axis=1))
    return log_total - shifted[np.arange(len(examples)), examples.y], logits.argmax(axis=1)


@pytest.mark.parametrize("devices", [1, 2, 3])
@pytest.mark.parametrize("count", [1, PREDICTION_BATCH, PREDICTION_BATCH + 1, 1111])
def test_every_example_gets_its_own_prediction(devices, count):
    """Fewer batches than devices, whole ones, a last one of a single example, several each."""
    learning, examples = process(devices), some_examples(count)
    state = learning.initialize()
    losses, classes = learning.engine.predict(state.server, examples)
    right = expected(state, examples)
    np.testing.assert_allclose(losses, right[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(classes, right[1])
    found = learning.evaluate(state, examples)
    assert found["loss"] == losses.mean()
    assert found["accuracy"] == (classes == examples.y).mean()


def test_devices_predict_alike():
    examples = some_examples(700)
    weights = [w.numpy() for w in process(1).initialize().server["weights"]]
    found = [
        process(n).engine.predict(process(n).initialize(weights).server, examples)
        for n in (1, 2, 3)
    ]
    for losses, classes in found[1:]:
        np.testing.assert_array_equal(losses, found[0][0])
        np.testing.assert_array_equal(classes, found[0][1])


class InFiles:
    """Stands for images that lie in files: indexed, not an array."""

    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype

    def __getitem__(self, numbers):
        return self.x[numbers]


def test_examples_in_files_are_predicted_piece_by_piece(monkeypatch):
    monkeypatch.setattr(engine_examples, "PIECE", 300)
    learning, examples = process(2), some_examples(1000)
    state = learning.initialize()
    whole = learning.engine.predict(state.server, examples)
    pieces = learning.engine.predict(state.server, Examples(InFiles(examples.x), examples.y))
    np.testing.assert_allclose(pieces[0], whole[0], rtol=1e-6)
    np.testing.assert_array_equal(pieces[1], whole[1])


@pytest.mark.parametrize("devices", [1, 3])
def test_sums_over_examples(devices):
    """Of the inputs, a tree is passed through; batches of 4 of the 30 examples."""
    learning, examples = process(devices), some_examples(30)

    def add(network, inputs, labels, factor):
        return [factor[0] * tf.reduce_sum(inputs, axis=0), tf.cast(tf.shape(labels)[0], tf.float32)]

    summed = learning.engine.summed(add, lambda weights: [tf.zeros([4]), tf.zeros([])])
    state = learning.initialize()
    total, count = summed(state.server, examples, [tf.constant(2.0)])
    np.testing.assert_allclose(total, 2 * examples.x.sum(axis=0), rtol=1e-4)
    assert float(count) == 30


def test_prediction_leaves_the_state_alone():
    learning = process(2)
    state = learning.initialize()
    before = flat(state.server["weights"])
    learning.evaluate(state, some_examples(10))
    np.testing.assert_array_equal(flat(state.server["weights"]), before)
