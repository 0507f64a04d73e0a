"""Which part of a model trains: all of it, its head, or the variables a pattern names."""

import re

import keras

from tf_fedsam.errors import InputError


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
        chosen = {id(v) for v in layers[-1]._trainable_variables}
    else:
        try:
            pattern = re.compile(which)
        except re.error as error:
            raise InputError(
                f"trainable must be all, head or a regular expression. Received: {which!r}, "
                f"which is none: {error}."
            ) from None
        chosen = {id(v) for v in model.trainable_variables if pattern.search(v.path)}
    if not chosen:
        paths = [v.path for v in model.trainable_variables]
        raise InputError(
            f"trainable={which!r} matches no variable of the model. "
            f"Expected: a part of a path such as {', '.join(paths[:2] + paths[-2:])}."
        )
    for layer in layers:
        own = list(layer._trainable_variables)
        if not any(id(v) in chosen for v in own):
            layer.trainable = False  # BatchNorm then keeps its statistics, too
        else:
            for variable in own:
                variable.trainable = id(variable) in chosen
    return model
