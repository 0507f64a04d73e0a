import numpy as np
import pytest

from tf_fedsam import models
from tf_fedsam.errors import InputError

SHAPE = (28, 28, 1)


def test_names_and_options():
    assert models.names()[:3] == ("linear", "mlp", "cnn")
    assert models.options("mlp") == {"hidden_units": (200, 200), "init": "torch"}
    assert models.options("cnn") == {"conv_dropout": 0.25, "dense_dropout": 0.5, "init": "keras"}
    assert models.options("resnet18") == {
        "stem": "imagenet",
        "norm": "group",
        "groups": 2,
        "width": 64,
        "init": "torch",
    }
    for name in models.names():
        assert all(value is not None for value in models.options(name).values())


def test_unknown_model():
    with pytest.raises(InputError, match=r"Unknown model 'resnet8'. Did you mean 'resnet18'.*py:"):
        models.build("resnet8", SHAPE, 10)
    with pytest.raises(InputError, match="Unknown model 'transformer'"):
        models.options("transformer")


def test_unknown_option():
    message = r"Unknown option of model mlp 'hiden_units'. Did you mean 'hidden_units'"
    with pytest.raises(InputError, match=message):
        models.build("mlp", SHAPE, 10, {"hiden_units": (3,)})
    with pytest.raises(InputError, match=r"option of model linear 'width'.*one of: init\."):
        models.build("linear", SHAPE, 10, {"width": 3})


def test_inert_options(tmp_path):
    """How weights begin and what only training does; sizes, norms and stems are none of them."""
    assert models.inert_options("mlp") == {"init"}
    assert models.inert_options("cnn") == {"conv_dropout", "dense_dropout", "init"}
    assert models.inert_options("resnet18") == {"init"}
    assert models.inert_options("vit_b16") == {"dropout", "pretrained"}
    assert models.inert_options("swin_b") == {"drop_path", "pretrained"}
    for name in models.names():
        assert models.inert_options(name) <= set(models.options(name))
    assert models.inert_options(f"{tmp_path / 'gone.py'}:net") == frozenset()


@pytest.mark.parametrize("name", ["cnn", "lenet5"])
def test_inert_options_make_the_same_function(name):
    """With the same weights the logits are the same, whatever the inert options."""
    shape, changed = (16, 16, 1), {"init": "keras", "conv_dropout": 0.9, "dense_dropout": 0.9}
    inert = models.inert_options(name)
    first = models.build(name, shape, 3)
    other = models.build(name, shape, 3, {k: v for k, v in changed.items() if k in inert})
    other.set_weights(first.get_weights())
    x = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    np.testing.assert_array_equal(first(x, training=False), other(x, training=False))
