"""All models by name.

Every builder is a pure function of (input_shape, num_classes) and its options, and returns an
ordinary Keras model that ends in logits. `keras.utils.set_random_seed` decides its weights.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping

from tf_fedsam import own_code
from tf_fedsam.errors import unknown
from tf_fedsam.lazy import keras
from tf_fedsam.models import checks, cnn, lenet, mlp, own, resnet, transformers, vgg
from tf_fedsam.models.checks import Builder, check_call, checked_options, option_defaults

_BUILDERS: dict[str, Builder] = {
    "linear": mlp.linear,
    "mlp": mlp.mlp,
    "cnn": cnn.cnn,
    "lenet5": lenet.lenet5,
    "vgg11": vgg.vgg11,
    "resnet18": resnet.resnet18,
    "resnet34": resnet.resnet34,
    "resnet50": resnet.resnet50,
    "vit_b16": transformers.vit_b16,
    "swin_s": transformers.swin_s,
    "swin_b": transformers.swin_b,
}


def names() -> tuple[str, ...]:
    """The models of this package, from the smallest family to the largest."""
    return tuple(_BUILDERS)


def options(name: str) -> dict[str, object]:
    """Option name -> default value of the model `name` (or of the user's `file.py:function`)."""
    return option_defaults(_builder(name))


def describe(name: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """What a model is, and option name -> what that is and which values it takes."""
    builder = _builder(name)
    head = inspect.cleandoc(sys.modules[builder.__module__].__doc__ or "")
    meanings = checks.option_meanings(builder)
    values = {n: checks.expected_value(builder, n) for n in options(name)}
    return head, {n: (meanings.get(n, ""), expected) for n, expected in values.items()}


def check_options(name: str, values: Mapping[str, object]) -> None:
    """Refuses options that the model `name` does not have, or not with these values."""
    checked_options(name, _builder(name), values)


def inert_options(name: str) -> frozenset[str]:
    """The options of `name` that make no other function of the same weights, such as dropout.

    Of a user's own model nothing is known, so there are none.
    """
    if own_code.is_reference(name):
        return frozenset()
    return checks.inert_options(_builder(name))


def build(
    name: str,
    input_shape: tuple[int, ...],
    num_classes: int,
    options: Mapping[str, object] | None = None,
) -> keras.Model:
    """Builds the model `name`.

    Args:
        name: one of `names()`, or `path/to/file.py:function` for the user's own function of
            (input_shape, num_classes).
        input_shape: shape of one example, without the batch axis; channels last.
        num_classes: number of logits.
        options: values for some of `options(name)`; the rest keep their defaults.

    Raises:
        InputError: for an unknown name or option, a bad value, a shape the model cannot take, or a
            function of the user that does not make such a model.
    """
    builder = _builder(name)
    shape = check_call(name, input_shape, num_classes)
    chosen = checked_options(name, builder, options or {})
    if own_code.is_reference(name):
        return own.build(name, builder, shape, num_classes, chosen)
    return builder(shape, num_classes, **chosen)


def _builder(name: str) -> Builder:
    if own_code.is_reference(name):
        return own.load(name)
    if name not in _BUILDERS:
        raise unknown(
            "model", name, _BUILDERS, hint="Or give your own as path/to/file.py:function."
        )
    return _BUILDERS[name]
