"""Random changes of training images, on the device, from stateless random numbers.

An augmentation is a function ``(batch, seed) -> batch`` of normalised images [batch, height, width,
channels] and an int32 seed [2]. The same batch and seed give the same result on every device; the
images of a batch are changed independently of each other.

Papers differ in it on the same images, so a text stands for other ones than the data set's own:

own                 of the data set
none                images stay as they are
flip                mirrored left to right, every second image
crop:4              moved by up to 4 pixels: a border of 4, and a cut at a random place
crop:4:0.5          half of the images
crop:4:black        the border is black, not the mean colour: cropped before it is normalised
flip,crop:4         one after the other
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from tf_fedsam.errors import InputError
from tf_fedsam.lazy import tf

Augment = Callable[["tf.Tensor", "tf.Tensor"], "tf.Tensor"]
OWN, NONE, FLIP, CROP, BLACK = "own", "none", "flip", "crop", "black"
MAX_PADDING = 256


@dataclasses.dataclass(frozen=True)
class Piece:
    """One change of images, as a text names it; a flip has no padding."""

    padding: int = 0
    probability: float = 0.5
    black: bool = False


def chosen(
    text: str, own: Augment | None, shape: Sequence[int], black: Sequence[float]
) -> Augment | None:
    """The augmentation that a text stands for; ``None`` for none.

    Args:
        text: see above.
        own: of the data set.
        shape: of an input.
        black: what the normalisation makes of 0, in each channel.
    """
    pieces = read(text)
    if pieces is None:
        return own
    if pieces and len(shape) != 3:
        raise InputError(
            f"augment={text} is for images [height, width, channels]. Received inputs of shape "
            f"{tuple(shape)}. Use augment=none.",
            "augment",
        )
    made = [
        pad_and_crop(piece.padding, piece.probability, black if piece.black else None)
        if piece.padding
        else flip(piece.probability)
        for piece in pieces
    ]
    return compose(*made) if made else None


def read(text: str) -> tuple[Piece, ...] | None:
    """The changes that a text names, in their order; ``None`` for the data set's own."""
    if text == OWN:
        return None
    if text == NONE:
        return ()
    try:
        return tuple(_piece(part.strip()) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"augment must be own, none, or flip and crop:PADDING, crop:PADDING:PROBABILITY or "
            f"crop:PADDING:black with commas between, such as flip,crop:4. Received: {text!r}.",
            "augment",
        ) from None


def _piece(part: str) -> Piece:
    name, *rest = part.split(":")
    if name == FLIP and not rest:
        return Piece()
    black = rest[-1:] == [BLACK]
    padding, probability = [*rest[: len(rest) - black], "1"][:2]
    piece = Piece(int(padding), float(probability), black)
    whole = len(rest) <= 2 + black and name == CROP
    if not (whole and 0 < piece.padding <= MAX_PADDING and 0 < piece.probability <= 1):
        raise ValueError(part)
    return piece


def compose(*augments: Augment) -> Augment:
    """One after the other, each with random numbers of its own."""

    def augment(batch: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        for number, one in enumerate(augments):
            batch = one(batch, tf.random.experimental.stateless_fold_in(seed, number, "philox"))
        return batch

    return augment


def flip(probability: float = 0.5) -> Augment:
    """Mirrors an image left to right with this probability."""

    def augment(batch: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(batch)
        mirrored = flips(seed, shape[0], probability)[:, None]
        columns = tf.range(shape[2])
        columns = tf.where(mirrored, columns[::-1], columns)
        return tf.ensure_shape(_take(batch, tf.range(shape[1])[None], columns), batch.shape)

    return augment


def pad_and_crop(
    padding: int, probability: float = 1.0, border_values: Sequence[float] | None = None
) -> Augment:
    """Adds a border and cuts out an image of the old size, at a random place.

    Every one of the (2 padding + 1)^2 places is equally likely.

    Args:
        padding: width of the border.
        probability: that an image is cropped at all; otherwise it stays as it is.
        border_values: of the border, for all channels or each; by default zeros, which in a
            normalised image are the data set's mean colour.
    """

    def augment(batch: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(batch)
        at = offsets(seed, shape[0], padding, probability)
        border = [padding, padding]
        paddings = [[0, 0], border, border, [0, 0]]
        padded = tf.pad(batch, paddings)
        if border_values is not None:
            inside = tf.pad(tf.ones_like(batch[:1, :, :, :1], tf.bool), paddings)
            padded = tf.where(inside, padded, np.asarray(border_values, np.float32))
        rows = at[:, :1] + tf.range(shape[1])
        columns = at[:, 1:] + tf.range(shape[2])
        return tf.ensure_shape(_take(padded, rows, columns), batch.shape)

    return augment


def flips(seed: tf.Tensor, count: tf.Tensor | int, probability: float) -> tf.Tensor:
    """bool [count], which images `flip` mirrors."""
    return tf.random.stateless_uniform([count], seed, alg="philox") < probability


def offsets(seed: tf.Tensor, count: tf.Tensor | int, padding: int, probability: float) -> tf.Tensor:
    """int32 [count, 2], the row and column in the padded image where `pad_and_crop` cuts.

    ``padding`` in both is the image as it was.
    """
    seeds = tf.random.split(seed, 2, alg="philox")
    at = tf.random.stateless_uniform(
        [count, 2], seeds[0], 0, 2 * padding + 1, tf.int32, alg="philox"
    )
    chosen = tf.random.stateless_uniform([count, 1], seeds[1], alg="philox") < probability
    return tf.where(chosen, at, padding)


def _take(images: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """From each image the pixels where its rows [batch or 1, h] and columns [batch or 1, w] meet.

    A single gather of pixels; on CPUs several times faster than choosing between whole images.
    """
    shape = tf.shape(images)
    first_row = tf.range(shape[0])[:, None] * shape[1]
    pixels = ((first_row + rows) * shape[2])[:, :, None] + columns[:, None, :]
    return tf.gather(tf.reshape(images, [-1, shape[3]]), pixels)
