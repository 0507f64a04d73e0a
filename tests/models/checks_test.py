"""What a model accepts: options by their declared kinds, shapes that its layers can take."""

from typing import Annotated, Literal

import pytest

from tf_fedsam import models
from tf_fedsam.errors import InputError
from tf_fedsam.models import checks

SHAPE = (28, 28, 1)


def builder(
    input_shape,
    num_classes,
    width: checks.Size = 3,
    rate: checks.DropRate = 0.5,
    kind: Annotated[Literal["a", "b"], checks.INERT] = "a",
    *args,
    needed,
    free=None,
    **more,
):
    raise AssertionError("only its signature is looked at")


def test_options_are_what_has_a_default():
    expected = {"width": 3, "rate": 0.5, "kind": "a", "free": None}
    assert checks.option_defaults(builder) == expected
    assert checks.inert_options(lambda input_shape, num_classes: None) == frozenset()


def test_checked_options():
    received = checks.checked_options("m", builder, {"width": 4, "kind": "b", "free": [1, 2]})
    assert received == {"width": 4, "kind": "b", "free": (1, 2)}  # JSON has no tuples
    assert checks.checked_options("m", builder, {}) == {}


def plain(input_shape, num_classes, units=3, scale=1.5, name="x", on=True, sizes=(1, 2), any=None):
    """A user's own builder: the defaults show what it takes."""


@pytest.mark.parametrize(
    ("option", "good", "bad"),
    [
        ("units", 5, (5.0, True, "5", None)),
        ("scale", 2, ("2", True, None)),  # a whole number is a number
        ("name", "y", (1, None)),
        ("on", False, (0, "no")),
        ("sizes", [3], (3, "12")),
        ("any", object, ()),
    ],
)
def test_options_of_a_users_builder_are_like_their_defaults(option, good, bad):
    checks.checked_options("m", plain, {option: good})
    for value in bad:
        with pytest.raises(InputError, match=f"received {option}=.*Expected a value of type"):
            checks.checked_options("m", plain, {option: value})


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
        ("vgg11", "norm", "layer", "norm of model vgg11 'layer'.*batch, batch_torch, group, none"),
        ("resnet18", "norm", "grup", "Did you mean 'group'"),
        ("resnet18", "norm", "none", "batch, batch_torch, group, mixed, mixed_torch"),
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


def test_images():
    checks.check_image("m", (8, 9, 3), least_side=8)
    with pytest.raises(InputError, match=r"received the input shape \(64,\). Expected an image"):
        checks.check_image("m", (64,))
    with pytest.raises(InputError, match=r"images of 7 x 9. Expected at least 8 x 8") as caught:
        checks.check_image("m", (7, 9, 3), least_side=8)
    assert "(image_size=8)" in str(caught.value)
    assert "(--image_size=8)" in caught.value.with_flags()


def test_multiples():
    """The smallest multiple of 16 that holds 20 x 33 is 48."""
    checks.check_multiple("m", (32, 48, 3), 16, "patches")
    for shape in ((20, 32, 3), (32, 20, 3)):
        with pytest.raises(InputError, match=r"multiples of 16 \(patches\)"):
            checks.check_multiple("m", shape, 16, "patches")
    with pytest.raises(InputError) as caught:
        checks.check_multiple("m", (20, 33, 3), 16, "patches")
    assert "(--image_size=48)" in caught.value.with_flags()


def test_groups():
    checks.check_groups("m", 4, 64)
    with pytest.raises(InputError, match=r"groups=3 with width=64.*divides 64"):
        checks.check_groups("m", 3, 64)
