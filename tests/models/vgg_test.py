import keras
import numpy as np
import pytest

from tests.models import tiny
from tf_fedsam import models
from tf_fedsam.errors import InputError

CIFAR = (32, 32, 3)


@pytest.mark.parametrize(
    # Convolutions: 27*64+64 + 9*64*128+128 + 9*128*256+256 + 9*256*256+256 + 9*256*512+512
    # + 3 * (9*512*512+512) = 9,220,480; then 512*H+H + H*C+C with H = 100 or 256.
    ("num_classes", "expected"),
    [(10, 9_272_790), (100, 9_377_508)],
)
def test_num_parameters(num_classes, expected):
    assert models.build("vgg11", CIFAR, num_classes).count_params() == expected


def test_layers():
    model = tiny.build("vgg11")
    convs = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    # width 2: 1, 2, 4, 4, 8, 8, 8, 8 times it
    assert [layer.filters for layer in convs] == [2, 4, 8, 8, 16, 16, 16, 16]
    assert all(layer.padding == "same" and layer.strides == (1, 1) for layer in convs)
    pools = [layer for layer in model.layers if isinstance(layer, keras.layers.MaxPooling2D)]
    assert [layer.output.shape[1] for layer in pools] == [16, 8, 4, 2, 1]
    assert model.get_layer("dense1").units == 8


def test_starts_as_in_torch():
    conv = models.build("vgg11", CIFAR, 10, {"width": 16}).get_layer("stage5_conv2")
    assert tiny.within_bound(conv.kernel, 1 / np.sqrt(9 * 128))
    assert tiny.within_bound(conv.bias, 1 / np.sqrt(9 * 128))


@pytest.mark.parametrize(
    ("norm", "kind", "per_filter"),
    [
        ("none", None, 0),
        ("group", keras.layers.GroupNormalization, 2),  # scale, offset
        ("batch", keras.layers.BatchNormalization, 4),  # and two moving statistics
        ("batch_torch", keras.layers.BatchNormalization, 4),
    ],
)
def test_norm(norm, kind, per_filter):
    model = tiny.build("vgg11", norm=norm)
    norms = [layer for layer in model.layers if kind and isinstance(layer, kind)]
    assert len(norms) == (8 if kind else 0)
    num_filters = 2 + 4 + 8 + 8 + 16 * 4
    assert model.count_params() - tiny.build("vgg11").count_params() == per_filter * num_filters


def test_groups_must_divide_the_width():
    with pytest.raises(InputError, match=r"groups=3 with width=2.*divides 2"):
        tiny.build("vgg11", norm="group", groups=3)
