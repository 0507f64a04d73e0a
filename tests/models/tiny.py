"""Every model at a size that a test can run, and the checks that several test files share."""

import functools

import keras
import numpy as np
import pytest

from tf_fedsam import models

NUM_CLASSES = 4

# name -> (input shape, options)
TINY = {
    "linear": ((5, 4, 2), {}),
    "mlp": ((5, 4, 2), {"hidden_units": (6, 3)}),
    "cnn": ((8, 8, 1), {}),
    "lenet5": ((16, 16, 3), {}),
    "vgg11": ((32, 32, 3), {"width": 2, "hidden_units": 8}),
    "resnet18": ((8, 8, 3), {"width": 4}),
    "resnet34": ((8, 8, 3), {"width": 2}),
    "resnet50": ((8, 8, 3), {"width": 2}),
    "vit_b16": ((8, 8, 3), {"patch": 4, "layers": 2, "dim": 8, "heads": 2, "mlp_dim": 16}),
    "swin_s": ((16, 16, 3), {"patch": 2, "dim": 4, "depths": (2, 1), "heads": (1, 2), "window": 4}),
    "swin_b": ((16, 16, 3), {"patch": 2, "dim": 8, "depths": (2, 1), "heads": (2, 4), "window": 4}),
}
HUB = ("vit_b16", "swin_s", "swin_b")

# Keras itself, when it writes a variable to HDF5 with NumPy 2.
keras_saves = pytest.mark.filterwarnings(
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"
)
# KerasHub's Swin hands its attention mask over as `mask`, which Keras takes for a padding mask.
# Building one silences this, but pytest forgets it between tests that share a model.
swin_masks = pytest.mark.filterwarnings(
    r"ignore:Layer 'attn' \(of type WindowAttention\):UserWarning"
)


def _parametrize(names):
    slow = {"swin_b": pytest.mark.slow}  # swin_s with other numbers
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=slow.get(name, ())) for name in names]
    )


every_model = _parametrize(TINY)
one_of_each_family = _parametrize(
    ["mlp", "cnn", "lenet5", "vgg11", "resnet18", "vit_b16", "swin_s"]
)


def build(name: str, seed: int = 0, **options: object) -> keras.Model:
    """The tiny model `name` with the weights of `seed`."""
    shape, tiny_options = TINY[name]
    keras.utils.set_random_seed(seed)
    return models.build(name, shape, NUM_CLASSES, {**tiny_options, **options})


@functools.cache
def shared(name: str) -> keras.Model:
    """The tiny model `name`, built once for all tests that only read it."""
    return build(name)


def examples(name: str, num: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(num, *TINY[name][0])).astype("float32")


def within_bound(values: object, bound: float) -> bool:
    """Whether the values fill U(-bound, bound): all inside, the extremes near the ends."""
    values = np.abs(np.asarray(values))
    return bool(values.max() <= bound and values.max() > 0.9 * bound)
