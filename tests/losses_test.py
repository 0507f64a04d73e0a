"""One loss for training, evaluation, sharpness and loss surfaces."""

import functools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.eager import LR, A, Visit
from tests.algorithms.harness import LR as TOY_LR
from tests.algorithms.harness import Toy, assert_close, flat, strategy
from tf_fedsam import losses
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.analysis.landscape.loss import LossFunction
from tf_fedsam.analysis.landscape.plane import Plane
from tf_fedsam.analysis.sharpness import Sharpness
from tf_fedsam.client import LocalStep
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

LABELS = np.array([2, 0, 1, 2])
LOGITS = np.array([[0.5, -1.0, 2.0], [3.0, 0.0, 0.1], [0.0, 0.0, 0.0], [40.0, -40.0, 0.0]])


def by_hand(labels, logits, smoothing):
    """-sum_c target_c log softmax_c in float64."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    target = np.full(logits.shape, smoothing / logits.shape[1])
    target[np.arange(len(labels)), labels] += 1 - smoothing
    return -(target * log_softmax).sum(axis=1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_cross_entropy(smoothing):
    loss = losses.cross_entropy(label_smoothing=smoothing)
    received = loss(tf.constant(LABELS, tf.int32), tf.constant(LOGITS, tf.float32))
    np.testing.assert_allclose(received, by_hand(LABELS, LOGITS, smoothing), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, float("nan")])
def test_label_smoothing_is_checked(smoothing):
    with pytest.raises(InputError, match=rf"label_smoothing must be .*Received: {smoothing}"):
        losses.cross_entropy(smoothing)


def test_a_step_towards_the_smoothed_target():
    """At w = 0 both classes have probability 1/2 and the target is 0.9 and 0.1: g = -0.4 A."""
    loss = losses.cross_entropy(0.2)
    assert_close(Visit(FedAvg(), local_step=LocalStep(loss=loss)).step(), LR * 0.4 * A)
    assert_close(Visit(FedAvg()).step(), LR * 0.5 * A)


@functools.cache
def toy():
    return Toy()


def process(loss):
    options = {"weight_decay": 0.0, "clip_norm": None, **toy().options}
    return LearningProcess(
        toy().network,
        FedAvg(),
        toy().dataset,
        options=TrainingOptions(lr=TOY_LR, **options),
        loss=loss,
        seed=toy().seed,
        strategy=strategy(1),
    )


def trained(loss):
    learning = process(loss)
    state, metrics = learning.next(learning.initialize(toy().initial()), [0, 2, 5])
    return flat(state.server["weights"]), metrics["train_loss"]


def test_what_is_trained_is_evaluated_and_probed():
    smoothing, train = 0.3, toy().dataset.train
    learning = process(losses.cross_entropy(smoothing))
    state = learning.initialize(toy().initial())
    kernel, bias = (a.astype(np.float64) for a in toy().initial())
    expected = by_hand(train.y, train.x @ kernel + bias, smoothing).mean()
    assert learning.evaluate(state, train)["loss"] == pytest.approx(expected, rel=1e-5)
    sharpness = Sharpness(learning.engine, train)
    assert sharpness.loss(state.server) == pytest.approx(expected, rel=1e-5)
    origin = [a.astype(np.float32) for a in toy().initial()]
    still = [np.zeros_like(a) for a in origin]
    plane = Plane(origin, still, still)
    surface = LossFunction(
        learning.network, train, learning.dataset.preprocess, loss=learning.engine.loss
    )
    assert surface(plane, [(0.0, 0.0)])[0, 0] == pytest.approx(expected, rel=1e-5)
    plain = by_hand(train.y, train.x @ kernel + bias, 0.0).mean()
    assert abs(expected - plain) > 0.01


def test_the_default_is_cross_entropy_bit_for_bit():
    default, named, smoothed = (
        trained(loss) for loss in (None, losses.cross_entropy(), losses.cross_entropy(0.3))
    )
    np.testing.assert_array_equal(default[0], named[0])
    assert default[1] == named[1]
    assert np.abs(default[0] - smoothed[0]).max() > 1e-3


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", None])
def test_a_keras_loss_counts_examples_whatever_its_reduction(reduction):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
    received, expected = trained(loss), trained(None)
    assert_close(received[0], expected[0])
    assert received[1] == pytest.approx(expected[1], rel=1e-5)


def squared(labels, logits):
    return tf.reduce_sum(tf.square(logits - tf.one_hot(labels, 3)), axis=1)


def test_any_function_of_single_examples_will_do():
    """Squared distance of the logits to the one-hot label."""
    weights, _ = trained(squared)
    learning, train = process(squared), toy().dataset.train
    kernel, bias = (a.astype(np.float64) for a in toy().initial())
    distance = train.x @ kernel + bias - np.eye(3)[train.y]
    found = learning.evaluate(learning.initialize(toy().initial()), train)
    assert found["loss"] == pytest.approx(np.square(distance).sum(axis=1).mean(), rel=1e-5)
    assert np.abs(weights - trained(None)[0]).max() > 1e-3


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda y, z: tf.reduce_mean(squared(y, z)), "one number for each example.*shape ()"),
        (keras.losses.SparseCategoricalCrossentropy(), "from_logits=True"),
        ("cross_entropy", "must be a function.*'cross_entropy'"),
    ],
)
def test_what_cannot_be_a_loss_is_refused(loss, message):
    with pytest.raises(InputError, match=re.escape(message).replace(r"\.\*", ".*")):
        losses.per_example(loss, 3)
