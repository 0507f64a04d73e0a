"""What a model accepts: the kinds of its options and the shapes of its inputs."""

import inspect
import math
import re
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from tf_fedsam.checks import either
from tf_fedsam.errors import InputError, unknown


class Rule(NamedTuple):
    """Which values an option takes, in words and as a test."""

    expected: str
    holds: Callable[[Any], bool]


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# Marks an option that makes no other function of the same weights: it is about how they begin or
# about what happens while training only.
INERT = "inert"

Size = Annotated[int, Rule("a whole number of at least 1", lambda value: _whole(value, 1))]
SizeOrAuto = Annotated[int, Rule("a whole number of at least 0", lambda value: _whole(value, 0))]
Sizes = Annotated[
    tuple[int, ...],
    Rule(
        "a tuple of whole numbers of at least 1, such as (200, 200)",
        lambda value: isinstance(value, tuple) and all(_whole(item, 1) for item in value),
    ),
]
DropRate = Annotated[
    float,
    Rule(
        "a number from 0 up to, but not including, 1",
        lambda value: _number(value) and 0 <= value < 1,
    ),
    INERT,
]
Flag = Annotated[bool, Rule("True or False", lambda value: isinstance(value, bool))]
Pretrained = Annotated[str, Rule("a string", lambda value: isinstance(value, str)), INERT]

Builder = Callable[..., Any]


def option_defaults(builder: Builder) -> dict[str, Any]:
    """Name -> default of what `builder(input_shape, num_classes, ...)` takes besides these two."""
    parameters = list(inspect.signature(builder).parameters.values())[2:]
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and parameter.default is not parameter.empty
    }


def inert_options(builder: Builder) -> frozenset[str]:
    """The options of a builder of this package that make no other function of the same weights."""
    hints = _hints(builder)
    return frozenset(n for n in option_defaults(builder) if INERT in get_args(hints[n])[1:])


def option_meanings(builder: Builder) -> dict[str, str]:
    """Name -> what it is, from the part "Args" of the builder's docstring."""
    found = re.search(r"\n *Args:\n(.*?)(?:\n\n|\Z)", inspect.getdoc(builder) or "", re.DOTALL)
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", found[1] if found else "", re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in entries}


def expected_value(builder: Builder, name: str) -> str:
    """Which values an option takes, in words; ``""`` if its function does not say."""
    hint = _hints(builder).get(name)
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(kind) is Literal:
        return either(get_args(kind))
    rule = next((item for item in get_args(hint) if isinstance(item, Rule)), None)
    return "" if rule is None else rule.expected


def _hints(builder: Builder) -> dict[str, Any]:
    """The types of a builder's arguments; that of its result would load Keras."""
    annotations = getattr(builder, "__annotations__", {})
    arguments = {name: hint for name, hint in annotations.items() if name != "return"}
    holder = types.SimpleNamespace(__annotations__=arguments)
    try:
        return get_type_hints(holder, getattr(builder, "__globals__", {}), include_extras=True)
    except NameError:  # a user's function may name types that exist only for a type checker
        return {}


def checked_options(
    model: str, builder: Builder, options: Mapping[str, object]
) -> dict[str, object]:
    """The options as keyword arguments of `builder`; raises InputError on a bad name or value."""
    defaults = option_defaults(builder)
    if options and not defaults:
        raise InputError(
            f"Model {model} received the options {', '.join(options)}, but it has none. "
            "Leave them out."
        )
    hints = _hints(builder)
    checked = {}
    for name, value in options.items():
        if name not in defaults:
            raise unknown(f"option of model {model}", name, defaults)
        if isinstance(value, list):  # JSON has no tuples
            value = tuple(value)
        _check_value(model, name, value, hints.get(name), defaults[name])
        checked[name] = value
    return checked


def _check_value(model: str, name: str, value: Any, hint: Any, default: Any) -> None:
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise unknown(f"value of option {name} of model {model}", value, get_args(kind))
        return
    rule = next((item for item in get_args(hint) if isinstance(item, Rule)), None)
    if rule is None:  # a user's own function: the default shows what the option takes
        if default is None:
            return
        like = type(default)
        rule = Rule(
            f"a value of type {like.__name__}",
            _number if like is float else lambda item: type(item) is like,
        )
    if not rule.holds(value):
        raise InputError(
            f"Model {model} received {name}={value!r}. Expected {rule.expected}; "
            f"the default is {default!r}."
        )


def check_call(model: str, input_shape: object, num_classes: object) -> tuple[int, ...]:
    """The input shape as a tuple; raises InputError unless both can describe a classifier."""
    if (
        not isinstance(input_shape, (tuple, list))
        or not input_shape
        or not all(_whole(side, 1) for side in input_shape)
    ):
        raise InputError(
            f"Model {model} received the input shape {input_shape!r}. Expected the shape of one "
            "example without the batch axis, whole numbers of at least 1, such as (28, 28, 1)."
        )
    if not _whole(num_classes, 2):
        raise InputError(
            f"Model {model} received num_classes={num_classes!r}. "
            "Expected a whole number of at least 2."
        )
    return tuple(input_shape)


def check_image(model: str, input_shape: tuple[int, ...], least_side: int = 1) -> None:
    """Raises InputError unless the shape is an image that survives the model's pooling."""
    if len(input_shape) != 3:
        raise InputError(
            f"Model {model} received the input shape {input_shape}. Expected an image, (height, "
            "width, channels). Reshape the examples, or use mlp or linear, which take any shape."
        )
    if min(input_shape[:2]) < least_side:
        raise InputError(
            f"Model {model} received images of {input_shape[0]} x {input_shape[1]}. Expected at "
            f"least {least_side} x {least_side}: its pooling leaves nothing of smaller ones. "
            f"Enlarge the images (image_size={least_side}), or use a model for smaller ones, "
            f"such as mlp or resnet18.",
            "image_size",
        )


def check_multiple(model: str, input_shape: tuple[int, ...], step: int, why: str) -> None:
    """Raises InputError unless height and width are multiples of `step`."""
    if input_shape[0] % step or input_shape[1] % step:
        larger = step * math.ceil(max(input_shape[:2]) / step)
        raise InputError(
            f"Model {model} received images of {input_shape[0]} x {input_shape[1]}. Expected "
            f"multiples of {step} ({why}). Resize the images (image_size={larger}), or change "
            f"these options.",
            "image_size",
        )


def check_groups(model: str, groups: int, width: int) -> None:
    """Raises InputError unless GroupNorm can split every layer (all multiples of `width`)."""
    if width % groups:
        raise InputError(
            f"Model {model} received groups={groups} with width={width}. Expected a number of "
            f"groups that divides {width}. Change groups, or use norm=batch."
        )
