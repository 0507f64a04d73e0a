"""The shared layers against NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_fedsam.models import blocks

IMAGES = np.random.default_rng(0).normal(2, 3, size=(2, 4, 5, 6)).astype(np.float32)


def build(layer, shape=IMAGES.shape[1:]):
    inputs = keras.Input(shape)
    return keras.Model(inputs, layer(inputs))


def relu(x):
    return np.maximum(x, 0)


def test_dense():
    model = build(lambda x: blocks.dense(x, 3, "torch", "d", activation="relu"))
    kernel, bias = model.get_weights()
    assert kernel.shape == (6, 3)
    assert model.layers[-1].name == "d"
    assert bias.any()
    np.testing.assert_allclose(model(IMAGES), relu(IMAGES @ kernel + bias), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("padding", "border"), [("valid", 0), ("same", 1)])
def test_conv(padding, border):
    """Sums over 3 x 3 windows of the image, which "same" surrounds with zeros on all sides."""
    model = build(lambda x: blocks.conv(x, 2, 3, "keras", "c", padding))
    kernel, bias = model.get_weights()
    assert not bias.any()
    around = ((0, 0), (border, border), (border, border), (0, 0))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(IMAGES, around), (3, 3), axis=(1, 2))
    expected = np.einsum("bhwcij,ijco->bhwo", windows, kernel)
    np.testing.assert_allclose(model(IMAGES), expected, rtol=1e-4, atol=1e-4)


def test_bias_of_a_convolution_starts_by_its_windows():
    """As torch does, with fan_in = 5 * 5 * 6; of 512 numbers the largest is near the bound."""
    model = build(lambda x: blocks.conv(x, 512, 5, "torch", "c", "same"))
    kernel, bias = (np.abs(w).max() for w in model.get_weights())
    bound = 1 / np.sqrt(150)
    assert 0.95 * bound < bias <= bound
    assert 0.95 * bound < kernel <= bound


def test_group_normalisation():
    """Every example and group of channels by itself: two groups of three."""
    model = build(lambda x: blocks.normalise(x, "group", 2, "n"))
    x = IMAGES.reshape(2, 4, 5, 2, 3)
    mean = x.mean((1, 2, 4), keepdims=True)
    variance = x.var((1, 2, 4), keepdims=True)
    expected = ((x - mean) / np.sqrt(variance + 1e-5)).reshape(IMAGES.shape)
    np.testing.assert_allclose(model(IMAGES), expected, rtol=1e-4, atol=1e-4)


def test_batch_normalisation():
    """Torch's momentum 0.1: the statistics move a tenth of the way from 0 and 1 to the batch's."""
    model = build(lambda x: blocks.normalise(x, "batch", 2, "n"))
    mean, variance = IMAGES.mean((0, 1, 2)), IMAGES.var((0, 1, 2))
    expected = (IMAGES - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(model(IMAGES, training=True), expected, rtol=1e-4, atol=1e-4)
    moved = model.get_weights()[2:]
    np.testing.assert_allclose(moved[0], 0.1 * mean, rtol=1e-5)
    np.testing.assert_allclose(moved[1], 0.9 + 0.1 * variance, rtol=1e-5)


def test_no_normalisation_is_nothing():
    inputs = keras.Input((3,))
    assert blocks.normalise(inputs, "none", 2, "n") is inputs


def test_batch_normalisation_of_torch():
    """Trained with the same numbers; of 2 x 4 x 5 = 40 values, the moving variance gets 40 / 39."""
    model = build(lambda x: blocks.normalise(x, "batch_torch", 2, "n"))
    plain = build(lambda x: blocks.normalise(x, "batch", 2, "n"))
    outputs = model(IMAGES, training=True)
    np.testing.assert_array_equal(outputs, plain(IMAGES, training=True))
    variance = IMAGES.var((0, 1, 2))
    moved = model.get_weights()[2:]
    np.testing.assert_array_equal(moved[0], plain.get_weights()[2])
    np.testing.assert_allclose(moved[1], 0.9 + 0.1 * variance * 40 / 39, rtol=1e-5)
    # Once more, of half as many: 0.9 of what it was, and a tenth of 20 / 19.
    model(IMAGES[:1], training=True)
    expected = 0.9 * moved[1] + 0.1 * IMAGES[:1].var((0, 1, 2)) * 20 / 19
    np.testing.assert_allclose(model.get_weights()[3], expected, rtol=1e-5)
    # Tests and frozen layers leave it as it is.
    model(IMAGES)
    model.trainable = False
    model(IMAGES, training=True)
    np.testing.assert_allclose(model.get_weights()[3], expected, rtol=1e-5)


def test_batch_normalisation_of_torch_in_a_graph_and_a_file(tmp_path):
    """Its files need nothing but Keras, which reads them as plain BatchNorm."""
    model = build(lambda x: blocks.normalise(x, "batch_torch", 2, "n"))

    @tf.function(input_signature=[tf.TensorSpec([None, *IMAGES.shape[1:]])])
    def train(images):
        return model(images, training=True)

    train(IMAGES)
    expected = 0.9 + 0.1 * IMAGES.var((0, 1, 2)) * 40 / 39
    np.testing.assert_allclose(model.get_weights()[3], expected, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    read = keras.models.load_model(tmp_path / "model.keras")
    assert type(read.layers[-1]) is keras.layers.BatchNormalization
    np.testing.assert_array_equal(read(IMAGES), model(IMAGES))
