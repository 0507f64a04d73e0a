"""Another normalisation than the data set's own, since papers differ in it on the same images."""

import dataclasses
import math

from tf_fedsam.data.federated_dataset import Preprocess
from tf_fedsam.errors import InputError

OWN, UNIT = "own", "unit"


def normalised(preprocess: Preprocess, text: str, channels: int) -> Preprocess:
    """The preprocessing with the mean and the deviation that a text stands for.

    Args:
        preprocess: the data set's own; how it scales raw pixels stays.
        text: ``own``, ``unit`` or ``MEAN/STD``; see :func:`read`.
        channels: of the inputs.
    """
    found = read(text)
    if found is None:
        return preprocess
    mean, std = found
    if len(mean) not in (1, channels):
        raise InputError(
            f"normalise={text} has {len(mean)} channels, but the inputs have {channels}. Give one "
            f"number for all of them, or {channels} with commas between.",
            "normalise",
        )
    return dataclasses.replace(preprocess, mean=mean, std=std)


def read(text: str) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Mean and deviation of each channel; ``None`` for the data set's own.

    ``unit`` leaves pixels in [0, 1]; others are ``MEAN/STD``, of one or all channels, such as
    ``0.5/0.5`` or ``0.49,0.48,0.45/0.20,0.20,0.20``.
    """
    if text == OWN:
        return None
    if text == UNIT:
        return (0.0,), (1.0,)
    try:
        mean, std = (tuple(float(v) for v in part.split(",")) for part in text.split("/"))
        right = len(mean) == len(std) and all(map(math.isfinite, mean + std)) and min(std) > 0
    except ValueError:
        right = False
    if not right:
        raise InputError(
            f"normalise must be own, unit, or MEAN/STD such as 0.5/0.5 or "
            f"0.49,0.48,0.45/0.20,0.20,0.20, with deviations above 0. Received: {text!r}.",
            "normalise",
        )
    return mean, std
