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


@pytest.mark.parametrize(
    ("name", "option", "value", "message"),
    [
        ("mlp", "init", "pytorch", "init of model mlp 'pytorch'. Did you mean 'torch'"),
        ("mlp", "init", None, "init of model mlp 'None'.*keras, torch"),
        ("mlp", "init", [], "init of model mlp.*keras, torch"),
        ("mlp", "hidden_units", 200, r"hidden_units=200. Expected a tuple.*\(200, 200\)"),
        ("mlp", "hidden_units", (200, 0), "Expected a tuple"),
        ("mlp", "hidden_units", (2.5,), "Expected a tuple"),
        ("mlp", "hidden_units", "200", "Expected a tuple"),
        ("cnn", "conv_dropout", 1.0, "conv_dropout=1.0. Expected a number from 0.*0.25"),
        ("cnn", "conv_dropout", -0.1, "Expected a number from 0"),
        ("cnn", "dense_dropout", float("nan"), "Expected a number from 0"),
        ("cnn", "dense_dropout", True, "Expected a number from 0"),
        ("cnn", "dense_dropout", "0.5", "Expected a number from 0"),
        ("vgg11", "hidden_units", -1, "at least 0"),
        ("vgg11", "norm", "layer", "norm of model vgg11 'layer'.*batch, group, none"),
        ("resnet18", "norm", "grup", "Did you mean 'group'"),
        ("resnet18", "norm", "none", "batch, group, mixed"),
        ("resnet18", "stem", "imagnet", "Did you mean 'imagenet'"),
        ("resnet18", "width", 0, "width=0. Expected a whole number of at least 1.*64"),
        ("resnet18", "width", 8.0, "Expected a whole number"),
        ("resnet18", "groups", True, "Expected a whole number"),
        ("vit_b16", "representation", 1, "Expected True or False"),
        ("vit_b16", "pretrained", None, "Expected a string"),
    ],
)
def test_bad_value(name, option, value, message):
    with pytest.raises(InputError, match=message):
        models.build(name, (32, 32, 3), 10, {option: value})


@pytest.mark.parametrize("shape", [(), (28, 0, 1), (28, None, 1), 784, "28", (28.0, 28)])
def test_bad_input_shape(shape):
    with pytest.raises(InputError, match=r"input shape.*such as \(28, 28, 1\)"):
        models.build("mlp", shape, 10)


@pytest.mark.parametrize("num_classes", [0, 1, -3, 2.0, None, True])
def test_bad_num_classes(num_classes):
    with pytest.raises(InputError, match=r"num_classes=.*at least 2"):
        models.build("mlp", SHAPE, num_classes)
