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

import dataclasses
import math

import numpy as np

from tf_fedsam import rng
from tf_fedsam.data.federated_dataset import Examples
from tf_fedsam.data.partition import Partition
from tf_fedsam.errors import InputError

_CHUNK = 1024  # images whose float copies are in memory at a time


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


def noisy(
    train: Examples,
    partition: Partition,
    num_classes: int,
    client_sigma: float,
    category_sigma: float,
    seed: int,
) -> tuple[Examples, Partition]:
    """The training examples with the noise of their client and class, and their partition.

    An image that is on several clients has another noise on each of them: every occurrence after
    the first becomes an example of its own, behind the others, and the partition names that one
    instead. A partition without replacement comes back unchanged, as does an image that nobody has.

    Args:
      train: images, uint8 or floats in [0, 1]. The type is kept; noisy uint8 images are rounded to
        the nearest of their 256 levels, an error of at most 1/510.
      partition: of these examples.
      num_classes: number of labels.
      client_sigma: standard deviation of the clients' gains; 0 is off.
      category_sigma: standard deviation of the classes' offsets; 0 is off.
      seed: the run's seed.
    """
    if client_sigma == 0 and category_sigma == 0:
        return train, partition
    if not isinstance(train.x, np.ndarray):
        raise InputError(
            f"Noise is added to images in memory. Received: {len(train)} images in files, "
            f"client_sigma={client_sigma}, category_sigma={category_sigma}. Load them into memory, "
            f"or set both to 0."
        )
    _check_images(train.x)
    gains = client_gains(seed, partition.num_clients, train.x.shape[-1], client_sigma)
    category = category_offsets(seed, num_classes, category_sigma)
    if client_sigma > 0:
        train, partition = _one_owner_each(train, partition)
    x = np.asarray(train.x)
    owner = np.zeros(len(x), np.int64)
    owner[partition.indices] = np.repeat(np.arange(partition.num_clients), partition.sizes())
    held = np.unique(partition.indices)
    result = x.copy()
    for start in range(0, len(held), _CHUNK):
        these = held[start : start + _CHUNK]
        images = x[these] / np.float32(255) if x.dtype == np.uint8 else x[these]
        images = apply(images, gains[owner[these]], category[train.y[these]])
        result[these] = np.rint(images * 255) if x.dtype == np.uint8 else images
    return Examples(result, train.y), partition


def _one_owner_each(train: Examples, partition: Partition) -> tuple[Examples, Partition]:
    """Copies of the examples that occur more than once, so that each entry has its own."""
    _, first = np.unique(partition.indices, return_index=True)
    again = np.ones(len(partition.indices), bool)
    again[first] = False
    if not again.any():
        return train, partition
    copied = partition.indices[again]
    indices = partition.indices.copy()
    indices[again] = len(train) + np.arange(len(copied))
    return (
        Examples(*(np.concatenate([part, part[copied]]) for part in (train.x, train.y))),
        dataclasses.replace(partition, indices=indices, num_examples=len(train) + len(copied)),
    )


def _check_images(x: np.ndarray) -> None:
    if x.ndim != 4 or not (x.dtype == np.uint8 or x.dtype.kind == "f"):
        raise InputError(
            f"Received noise for examples of shape {x.shape[1:]} and type {x.dtype}. Expected "
            "images [height, width, channels], uint8 or floats in [0, 1]. Switch the noise off."
        )
    if x.dtype.kind == "f" and (x.min() < 0 or x.max() > 1):
        raise InputError(
            f"Received noise for images with values from {x.min():g} to {x.max():g}. Expected "
            "values in [0, 1], before normalisation. Rescale the images or switch the noise off."
        )


def _normal(seed: int, purpose: str, shape: tuple[int, ...], sigma: float) -> np.ndarray:
    if not (math.isfinite(sigma) and sigma >= 0):
        raise InputError(
            f"Received a noise of sigma={sigma}. Expected a finite number, 0 (off) or more. "
            "Use 0.1 for the usual strength."
        )
    return (sigma * rng.generator(seed, purpose).standard_normal(shape)).astype(np.float32)
