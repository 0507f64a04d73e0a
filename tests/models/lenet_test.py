import numpy as np
import pytest

from tests.models import tiny
from tf_fedsam import models

CIFAR = (32, 32, 3)


@pytest.mark.parametrize(
    # 75*64+64 + 1600*64+64 + 1600*384+384 + 384*192+192 + 192*C+C
    ("num_classes", "expected"),
    [(10, 797_962), (100, 815_332)],
)
def test_num_parameters(num_classes, expected):
    assert models.build("lenet5", CIFAR, num_classes).count_params() == expected


def test_layers():
    model = models.build("lenet5", CIFAR, 10)
    shapes = {layer.name: layer.output.shape[1:] for layer in model.layers}
    assert [shapes[name] for name in ("conv1", "pool1", "conv2", "pool2", "flatten")] == [
        (28, 28, 64),
        (14, 14, 64),
        (10, 10, 64),
        (5, 5, 64),
        (1600,),
    ]


def test_starts_as_in_torch():
    model = models.build("lenet5", CIFAR, 10)
    fan_ins = {"conv1": 75, "conv2": 1600, "dense1": 1600, "dense2": 384, "logits": 192}
    for name, fan_in in fan_ins.items():
        assert tiny.within_bound(model.get_layer(name).kernel, 1 / np.sqrt(fan_in))
        assert np.abs(model.get_layer(name).bias).max() <= 1 / np.sqrt(fan_in)
        assert np.any(model.get_layer(name).bias)
