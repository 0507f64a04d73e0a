"""Which part of a model trains: all of it, its head, or the variables a pattern names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tf_fedsam.errors import InputError
from tf_fedsam.layers import head
from tf_fedsam.lazy import keras


def select_trainable(model: keras.Model, which: str) -> keras.Model:
    """Freezes the rest of the model; frozen variables are neither perturbed nor communicated.

    Args:
        model: built.
        which: "all", "head" (the last layer with weights), or a regular expression that is searched
            for in the variables' paths, such as "block4|logits".
    """
    if which == "all":
        return model
    layers = [
        layer for layer in model._flatten_layers(include_self=False) if layer._trainable_variables
    ]
    if which == "head":
        chosen = _ids(head(model))
    else:
        try:
            pattern = re.compile(which)
        except re.error as error:
            raise InputError(
                f"trainable must be all, head or a regular expression. Received: {which!r}, "
                f"which is none: {error}.",
                "trainable",
            ) from None
        chosen = _ids(v for v in model.trainable_variables if pattern.search(v.path))
    if not chosen:
        paths = [v.path for v in model.trainable_variables]
        raise InputError(
            f"trainable={which!r} matches no variable of the model. "
            f"Expected: a part of a path such as {', '.join(paths[:2] + paths[-2:])}.",
            "trainable",
        )
    for layer in layers:
        if not _ids(layer.trainable_variables) & chosen:  # neither its own nor those inside it
            layer.trainable = False  # BatchNorm then keeps its statistics, too
        else:
            for variable in layer._trainable_variables:
                variable.trainable = id(variable) in chosen
    return model


def _ids(variables: Iterable[keras.Variable]) -> set[int]:
    return {id(variable) for variable in variables}
