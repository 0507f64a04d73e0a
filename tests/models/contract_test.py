"""What every model fulfils, whatever its layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import tiny
from tf_fedsam import models
from tf_fedsam.errors import InputError

pytestmark = [tiny.keras_saves, tiny.swin_masks]


def test_every_model_has_a_tiny_version_here():
    assert tuple(tiny.TINY) == models.names()


@tiny.every_model
def test_returns_finite_logits(name):
    model = tiny.shared(name)
    logits = model(tiny.examples(name), training=False).numpy()
    assert model.output_shape == (None, tiny.NUM_CLASSES)
    assert logits.shape == (3, tiny.NUM_CLASSES)
    assert np.isfinite(logits).all()
    # Logits, not probabilities: a softmax would make every row sum to 1.
    assert (np.abs(logits.sum(axis=1) - 1) > 1e-4).any()
    assert model.name == name


@tiny.every_model
def test_every_weight_gets_a_gradient(name):
    model = tiny.shared(name)
    weights = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        logits = model(tiny.examples(name), training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits([0, 1, 2], logits)
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, weights)
    assert all(gradient is not None for gradient in gradients)
    assert all(np.isfinite(tf.convert_to_tensor(gradient)).all() for gradient in gradients)


@pytest.mark.parametrize("name", [name for name in tiny.TINY if name not in tiny.HUB])
def test_has_only_layers_of_keras(name):
    # So that a saved model loads anywhere, without this package.
    assert all(type(layer).__module__.startswith("keras.") for layer in tiny.shared(name).layers)


@tiny.one_of_each_family
def test_saved_file_loads_without_custom_objects(name, tmp_path):
    model = tiny.shared(name)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    x = tiny.examples(name)
    np.testing.assert_array_equal(model(x, training=False), loaded(x, training=False))


@tiny.one_of_each_family
def test_same_seed_same_weights_and_names(name):
    first, again = tiny.shared(name), tiny.build(name)
    assert [w.path for w in first.weights] == [w.path for w in again.weights]
    for a, b in zip(first.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_another_seed_other_weights(name):
    pairs = zip(tiny.shared(name).weights, tiny.build(name, seed=1).weights, strict=True)
    assert all(not np.array_equal(a, b) for a, b in pairs if a.name == "kernel")


@tiny.one_of_each_family
def test_layers_of_one_model_start_differently(name):
    drawn = [w for w in tiny.shared(name).get_weights() if w.ndim > 1 and np.any(w)]
    for i, a in enumerate(drawn):
        assert not any(a.shape == b.shape and np.array_equal(a, b) for b in drawn[:i])


@pytest.mark.parametrize("name", [name for name in tiny.TINY if name not in ("linear", "mlp")])
def test_image_models_refuse_flat_inputs(name):
    with pytest.raises(InputError, match=rf"{name} received the input shape \(784,\)"):
        models.build(name, (784,), 10)


@pytest.mark.parametrize(
    ("name", "least"), [("cnn", 6), ("lenet5", 16), ("vgg11", 32)], ids=lambda item: str(item)
)
def test_smallest_image(name, least):
    options = {"width": 1} if name == "vgg11" else {}
    assert models.build(name, (least, least, 1), 2, options).output_shape == (None, 2)
    with pytest.raises(InputError, match=rf"{least} x {least - 1}.*at least {least} x {least}"):
        models.build(name, (least, least - 1, 1), 2, options)
