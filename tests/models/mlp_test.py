import numpy as np
import pytest

from tests.models import tiny
from tf_fedsam import models

MNIST = (28, 28, 1)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("linear", {}, 784 * 10 + 10),
        ("mlp", {}, 199_210),  # 784*200+200 + 200*200+200 + 200*10+10
        ("mlp", {"hidden_units": (100, 100)}, 89_610),  # 784*100+100 + 100*100+100 + 100*10+10
        ("mlp", {"hidden_units": [7]}, 784 * 7 + 7 + 7 * 10 + 10),  # a list, as read from JSON
        ("mlp", {"hidden_units": ()}, 784 * 10 + 10),
    ],
)
def test_num_parameters(name, options, expected):
    assert models.build(name, MNIST, 10, options).count_params() == expected


def test_hidden_layers_are_relu_and_the_last_is_linear():
    layers = models.build("mlp", MNIST, 10).layers
    assert [layer.name for layer in layers] == ["inputs", "flatten", "dense1", "dense2", "logits"]
    assert [layer.activation.__name__ for layer in layers[2:]] == ["relu", "relu", "linear"]


def test_takes_any_input_shape():
    for shape in [(3,), (2, 5), (2, 3, 4, 5)]:
        assert models.build("linear", shape, 2).count_params() == np.prod(shape) * 2 + 2


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_starts_as_in_torch(name):
    model = models.build(name, MNIST, 10)
    for layer in model.layers[2:]:
        bound = 1 / np.sqrt(layer.kernel.shape[0])  # fan_in
        assert tiny.within_bound(layer.kernel, bound)
        assert np.abs(layer.bias).max() <= bound
        assert np.abs(layer.bias).max() > bound / 2
        # The standard deviation of U(-b, b) is b / sqrt(3).
        assert np.std(layer.kernel) == pytest.approx(bound / np.sqrt(3), rel=0.05)


def test_starts_as_in_keras_when_asked():
    hidden = models.build("mlp", MNIST, 10, {"init": "keras"}).layers[2]
    assert tiny.within_bound(hidden.kernel, np.sqrt(6 / (784 + 200)))  # Glorot uniform
    assert not np.any(hidden.bias)
