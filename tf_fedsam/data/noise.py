"""Image noise that differs between clients and between classes.

Sun, Shen, Tao. Understanding How Consistency Works in Federated Learning via Stage-wise Relaxed
Initialization (FedInit). NeurIPS 2023. https://arxiv.org/abs/2306.05706

The paper describes this noise in words only. The definition used here, on training images in
[0, 1] before they are normalised, drawn once and fixed for the run:

    a_{i,c} ~ N(0, sigma^2) for client i and channel c      x_c <- clip((1 + a_{i,c}) x_c, 0, 1)
    b_y     ~ N(0, sigma^2) for class y, all channels       x   <- clip(x + b_y, 0, 1)

The client's gain comes first, then the brightness of the class, then normalisation, then
augmentation. sigma = 0 switches either off. Test images stay clean: brightness by label would give
the label away.
"""

import math

import numpy as np

from tf_fedsam import rng
from tf_fedsam.errors import InputError


def client_gains(seed: int, num_clients: int, channels: int, sigma: float) -> np.ndarray:
    """float32 [num_clients, channels], the gains a_{i,c}."""
    return _normal(seed, "noise.client_gains", (num_clients, channels), sigma)


def category_offsets(seed: int, num_classes: int, sigma: float) -> np.ndarray:
    """float32 [num_classes], the offsets b_y."""
    return _normal(seed, "noise.category_offsets", (num_classes,), sigma)


def apply(x_float01: np.ndarray, gains_i: np.ndarray, offset_y: np.ndarray | float) -> np.ndarray:
    """The noisy images; the input is not changed.

    Args:
      x_float01: floats in [0, 1], one image [height, width, channels] or a batch of them.
      gains_i: [channels] for a single client, or [batch, channels].
      offset_y: a number for a single class, or [batch].
    """
    x = np.asarray(x_float01)
    if x.dtype.kind != "f":
        raise InputError(
            f"Received images of type {x.dtype}. Expected floats in [0, 1], not yet normalised. "
            "Divide by 255 first."
        )
    gains, offset = np.asarray(gains_i, x.dtype), np.asarray(offset_y, x.dtype)
    channels, batch = x.shape[-1:], x.shape[:-3]
    if (
        x.ndim not in (3, 4)
        or gains.shape not in (channels, batch + channels)
        or offset.shape not in ((), batch)
    ):
        raise InputError(
            f"Received images {x.shape}, gains {gains.shape} and offsets {offset.shape}. Expected "
            "[height, width, channels] or [batch, height, width, channels], gains [channels] or "
            "[batch, channels], offsets [] or [batch]. Reshape them."
        )
    if gains.ndim == 2:
        gains = gains[:, None, None, :]
    if offset.ndim == 1:
        offset = offset[:, None, None, None]
    return np.clip(np.clip((1 + gains) * x, 0, 1) + offset, 0, 1)


def _normal(seed: int, purpose: str, shape: tuple[int, ...], sigma: float) -> np.ndarray:
    if not (math.isfinite(sigma) and sigma >= 0):
        raise InputError(
            f"Received a noise of sigma={sigma}. Expected a finite number, 0 (off) or more. "
            "Use 0.1 for the usual strength."
        )
    return (sigma * rng.generator(seed, purpose).standard_normal(shape)).astype(np.float32)
