"""A user's own model: `path/to/file.py:function`, a function of (input_shape, num_classes).

Its further arguments, if they have defaults, become the model's options.
"""

import importlib.util
import inspect
import sys
import traceback
import zlib
from pathlib import Path
from typing import Any

import keras

from tf_fedsam.errors import InputError, unknown
from tf_fedsam.models.checks import Builder


def is_own(name: str) -> bool:
    """Whether the model name points into a file instead of naming a model of this package."""
    return name.endswith(".py") or ".py:" in name


def load(name: str) -> Builder:
    """Runs the file and returns its function; raises InputError when there is none."""
    file, _, function = name.rpartition(":") if ".py:" in name else (name, "", "")
    path = Path(file).expanduser()
    if not path.is_file():
        raise InputError(
            f"Model {name!r}: there is no file {str(path.absolute())!r}. "
            "Expected path/to/file.py:function; check the path."
        )
    module = _run(name, path)
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
            f"num_classes={num_classes} and failed: {_describe(error)}"
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
            f"Model {name!r} cannot take inputs of shape {input_shape}: {_describe(error)}. "
            f"{expected} Let its input follow input_shape."
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


def _run(name: str, path: Path) -> Any:
    # A name of its own, so that files of the same name do not replace each other.
    module_name = f"{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:  # for types only: never so for a .py file
        raise InputError(f"Model {name!r}: Python cannot run {path.name}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and Keras' registry look it up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        raise InputError(f"Model {name!r}: running the file failed: {_describe(error)}") from error
    return module


def _describe(error: Exception) -> str:
    """Type and message of an error, and the line where it arose."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _shapes(output: Any) -> str:
    return str(keras.tree.map_structure(lambda item: tuple(item.shape), output))
