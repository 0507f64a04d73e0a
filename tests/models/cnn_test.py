import numpy as np
import pytest

from tests.models import tiny
from tf_fedsam import models

EMNIST = (28, 28, 1)


def test_num_parameters():
    # 9*32+32 + 9*32*64+64 + 9216*128+128 + 128*62+62
    assert models.build("cnn", EMNIST, 62).count_params() == 1_206_590


def test_layers():
    model = models.build("cnn", EMNIST, 62)
    shapes = {layer.name: layer.output.shape[1:] for layer in model.layers}
    assert shapes["conv1"] == (26, 26, 32)
    assert shapes["conv2"] == (24, 24, 64)
    assert shapes["pool"] == (12, 12, 64)
    assert shapes["flatten"] == (9216,)
    assert model.get_layer("conv_dropout").rate == 0.25
    assert model.get_layer("dense_dropout").rate == 0.5
    names = [layer.name for layer in model.layers]
    assert names.index("dense_dropout") > names.index("dense1") > names.index("conv_dropout")


def test_starts_with_glorot():
    model = models.build("cnn", EMNIST, 62)
    # Glorot uniform: sqrt(6 / (fan_in + fan_out)), fans 9*32 and 9*64, then 9216 and 128.
    assert tiny.within_bound(model.get_layer("conv2").kernel, np.sqrt(6 / (9 * 32 + 9 * 64)))
    assert tiny.within_bound(model.get_layer("dense1").kernel, np.sqrt(6 / (9216 + 128)))
    assert not np.any(model.get_layer("conv2").bias)


def test_starts_as_in_torch_when_asked():
    conv2 = models.build("cnn", EMNIST, 62, {"init": "torch"}).get_layer("conv2")
    assert tiny.within_bound(conv2.kernel, 1 / np.sqrt(9 * 32))
    assert tiny.within_bound(conv2.bias, 1 / np.sqrt(9 * 32))


@pytest.mark.parametrize(("rate", "same"), [(0.0, True), (0.5, False)])
def test_dropout_is_off_at_zero(rate, same):
    model = tiny.build("cnn", conv_dropout=rate, dense_dropout=rate)
    x = tiny.examples("cnn")
    assert np.array_equal(model(x, training=True), model(x, training=False)) == same
