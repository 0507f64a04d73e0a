"""Random changes of training images, on the device, from stateless random numbers.

An augmentation is a function ``(batch, seed) -> batch`` of normalised images [batch, height, width,
channels] and an int32 seed [2]. The same batch and seed give the same result on every device; the
images of a batch are changed independently of each other.
"""

from __future__ import annotations

from collections.abc import Callable

from tf_fedsam.lazy import tf

Augment = Callable[["tf.Tensor", "tf.Tensor"], "tf.Tensor"]


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


def pad_and_crop(padding: int, probability: float = 1.0) -> Augment:
    """Adds a border of zeros and cuts out an image of the old size, at a random place.

    Zeros of the normalised image are the data set's mean colour. Every one of the
    (2 padding + 1)^2 places is equally likely.

    Args:
        padding: width of the border.
        probability: that an image is cropped at all; otherwise it stays as it is.
    """

    def augment(batch: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(batch)
        at = offsets(seed, shape[0], padding, probability)
        border = [padding, padding]
        padded = tf.pad(batch, [[0, 0], border, border, [0, 0]])
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
