"""A user's own model: `path/to/file.py:function`, a function of (input_shape, num_classes).

Its further arguments, if they have defaults, become the model's options.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from tf_fedsam import own_code
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.lazy import keras
from tf_fedsam.models.checks import Builder


def load(name: str) -> Builder:
    """Runs the file and returns its function; raises InputError when there is none."""
    module, function = own_code.load_module(name, "Model")
    path = Path(module.__file__ or "")
    functions = {
        key: value
        for key, value in vars(module).items()
        if inspect.isroutine(value) and getattr(value, "__module__", None) == module.__name__
    }
    if callable(found := getattr(module, function, None)):
        return found
    if not functions:
        raise InputError(
            f"Model {name!r}: {path.name} defines no function. Expected path/to/file.py:function "
            "with a function of (input_shape, num_classes) that returns a keras.Model."
        )
    raise unknown(f"function of {path.name}", function, functions)


def build(
    name: str,
    builder: Builder,
    input_shape: tuple[int, ...],
    num_classes: int,
    options: dict[str, Any],
) -> keras.Model:
    """Calls the user's function and checks that it made a classifier that returns logits."""
    try:
        model = builder(input_shape, num_classes, **options)
    except Exception as error:
        raise InputError(
            f"Model {name!r} was called with input_shape={input_shape}, "
            f"num_classes={num_classes} and failed: {own_code.describe(error)}"
        ) from error
    expected = f"Expected a built keras.Model with one output of shape (None, {num_classes})."
    if not isinstance(model, keras.Model):
        raise InputError(
            f"Model {name!r} returned {type(model).__name__}. {expected} Return the model."
        )
    if not model.built:
        raise InputError(
            f"Model {name!r} returned a model without weights. {expected} Begin it with "
            "keras.Input(input_shape), or call model.build((None, *input_shape)) before returning."
        )
    try:
        output = model.compute_output_spec(keras.KerasTensor((None, *input_shape)))
    except Exception as error:
        raise InputError(
            f"Model {name!r} cannot take inputs of shape {input_shape}: "
            f"{own_code.describe(error)}. {expected} Let its input follow input_shape."
        ) from error
    if not isinstance(output, keras.KerasTensor) or tuple(output.shape) != (None, num_classes):
        raise InputError(
            f"Model {name!r} returned a model with the output {_shapes(output)}. {expected} "
            "Let its last layer be keras.layers.Dense(num_classes)."
        )
    last = model.layers[-1] if model.layers else None
    if isinstance(last, keras.layers.Softmax) or (
        getattr(last, "activation", None) is keras.activations.softmax
    ):
        raise InputError(
            f"Model {name!r} ends in a softmax. Expected logits, because the loss applies the "
            "softmax itself. Remove the activation of the last layer."
        )
    return model


def _shapes(output: Any) -> str:
    return str(keras.tree.map_structure(lambda item: tuple(item.shape), output))
