"""How weights start: as in the authors' PyTorch codes, or by Keras' own rule.

torch   kernel and bias ~ U(-1/sqrt(fan_in), +1/sqrt(fan_in)): what torch.nn.Linear and
        torch.nn.Conv2d do when nothing is asked of them.
keras   kernel Glorot uniform, bias zero: what Keras and TensorFlow Federated do.

All of them draw from Keras' default seeds, so `keras.utils.set_random_seed` decides the weights.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from tf_fedsam.lazy import keras
from tf_fedsam.models.checks import INERT

Init = Annotated[Literal["torch", "keras"], INERT]

# Each layer gets its own initialiser object: one object draws the same numbers every time.


def kernel(init: Init) -> keras.initializers.Initializer:
    """The initialiser of one dense or convolution kernel."""
    if init == "keras":
        return keras.initializers.GlorotUniform()
    # Variance scale / fan_in of a uniform law on +-b is b^2 / 3, hence scale = 1/3.
    return keras.initializers.VarianceScaling(1 / 3, mode="fan_in", distribution="uniform")


def bias(init: Init, fan_in: int) -> keras.initializers.Initializer:
    """The initialiser of the bias of a layer whose units each read `fan_in` numbers."""
    if init == "keras":
        return keras.initializers.Zeros()
    bound = 1 / math.sqrt(fan_in)
    return keras.initializers.RandomUniform(-bound, bound)


def kaiming_normal() -> keras.initializers.Initializer:
    """N(0, 2 / fan_out), not truncated: the convolutions of torchvision's ResNets (He et al. 2015,
    arXiv:1502.01852)."""
    return keras.initializers.VarianceScaling(
        2.0, mode="fan_out", distribution="untruncated_normal"
    )
