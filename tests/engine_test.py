"""The engine at sizes at which TensorFlow treats graphs differently."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import plugged, strategy
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

WIDTH = 8000


def plain():
    layers = keras.layers
    inputs = keras.Input((WIDTH,))
    return keras.Model(inputs, layers.Dense(10)(layers.Dense(200, activation="relu")(inputs)))


def residual():
    """Its gradients are sums of three large tensors."""
    inputs = keras.Input((WIDTH,))
    x = keras.layers.Dense(200)(inputs)
    x = keras.layers.Add()([x, keras.layers.Activation("relu")(x), keras.layers.Dense(200)(x)])
    return keras.Model(inputs, keras.layers.Dense(10)(x))


@pytest.mark.parametrize(
    ("method", "model"), [("fedlesam_d", plain), ("fedsmoo", plain), ("fedsam", residual)]
)
def test_large_tensors(method, model):
    """Two loops deep, sums of large tensors must not share a resource, as once in the first two."""
    x = np.zeros((2000, WIDTH), np.float32)
    x[:, 0] = 1
    dataset = FederatedDataset.from_arrays(x, np.arange(2000) % 10, np.arange(2000) % 8)
    process = LearningProcess(
        model,
        plugged(method),
        dataset,
        options=TrainingOptions(local_steps=4, lr=0.5, weight_decay=0.0, clip_norm=None),
        strategy=strategy(2),
    )
    state = process.initialize()
    before = process.evaluate(state, dataset.train)["loss"]
    for _ in range(2):
        state, metrics = process.next(state, range(8))
        assert metrics["num_reported"] == 8
    # Without information the best is to give every class the same probability: log(10).
    after = process.evaluate(state, dataset.train)["loss"]
    assert np.log(10) - 1e-4 < after < max(before, np.log(10) + 0.2)
    options = tf.config.optimizer.get_experimental_options()
    assert not options.get("disable_meta_optimizer", False)
