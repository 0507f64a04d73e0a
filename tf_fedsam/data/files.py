"""Images that stay in their files until a round needs them.

``FileImages`` stands where the array of all inputs would: it has a shape and a dtype and is indexed
with example numbers. A ``tf.data`` pipeline decodes in parallel; ``prefetch`` starts it on the next
round's images, so that they are ready when this round has trained. What was decoded is kept up to
a number of bytes.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable, Iterator

import numpy as np

from tf_fedsam.devices import available_cores
from tf_fedsam.lazy import tf

DEFAULT_CACHE_BYTES = 2 * 1024**3
# Images that a worker decodes at a time: enough to make up for the call into Python, and few enough
# that all workers have something to do.
MIN_CHUNK, MAX_CHUNK = 16, 256
_MAX_WORKERS = 8

Decode = Callable[[int], np.ndarray]


class FileImages:
    """uint8 images that are decoded on demand.

    Args:
        decode: gives the image of an example's number. Called by several threads.
        num_images: how many there are.
        image_shape: of each.
        cache_bytes: how much of what was decoded is kept, the least recently used going first;
            ``DEFAULT_CACHE_BYTES`` unless told. At most as much again is prefetched.
    """

    dtype = np.dtype(np.uint8)

    def __init__(
        self,
        decode: Decode,
        num_images: int,
        image_shape: tuple[int, ...],
        cache_bytes: int | None = None,
    ):
        self.shape = (num_images, *image_shape)
        self.ndim = len(self.shape)
        cache_bytes = DEFAULT_CACHE_BYTES if cache_bytes is None else cache_bytes
        self._decode, self._cache_bytes = decode, cache_bytes
        self._capacity = cache_bytes // max(1, int(np.prod(image_shape)))
        self._kept: collections.OrderedDict[int, np.ndarray] = collections.OrderedDict()
        self._pipeline = _Pipeline(decode, image_shape, max(1, self._capacity // MAX_CHUNK))
        # Its workers must not call into Python when that ends.
        weakref.finalize(self, self._pipeline.stop)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index) -> np.ndarray:
        numbers = np.arange(len(self))[index]
        unique, inverse = np.unique(numbers, return_inverse=True)
        images = np.empty((len(unique), *self.shape[1:]), self.dtype)
        missing = self._recall(unique, images)
        if missing.any():
            self._receive(unique, images, missing)  # what was prefetched
        if missing.any():
            self._pipeline.start(unique[missing])
            self._receive(unique, images, missing)
        if missing.any():
            raise self._pipeline.errors[int(unique[missing][0])]
        if np.array_equal(numbers, unique):
            return images
        return images[inverse].reshape(*numbers.shape, *self.shape[1:])

    def take(self, numbers: np.ndarray) -> FileImages:
        """Some of the images, as an array of their own."""
        decode, chosen = self._decode, np.asarray(numbers, np.int64)
        return FileImages(
            lambda number: decode(int(chosen[number])),
            len(chosen),
            self.shape[1:],
            self._cache_bytes,
        )

    def prefetch(self, numbers: np.ndarray) -> None:
        """Starts to decode these images, in place of what was prefetched and not asked for."""
        unique = np.unique(np.asarray(numbers, np.int64))
        self._pipeline.start(unique[[number not in self._kept for number in unique.tolist()]])

    def in_memory(self) -> np.ndarray:
        """All images; none is kept besides.

        Raises:
            MemoryError: there is no room for them.
        """
        try:
            images = np.empty(self.shape, self.dtype)
        except ValueError:  # more than any machine can address
            raise MemoryError from None
        self._pipeline.start(np.arange(len(self)))
        for numbers, decoded in self._pipeline.results():
            images[numbers] = decoded
            for error in self._pipeline.errors.values():
                raise error
        return images

    def _recall(self, numbers: np.ndarray, images: np.ndarray) -> np.ndarray:
        """Fills in what is kept of the ``numbers``, and gives which are missing."""
        missing = np.ones(len(numbers), bool)
        for place, number in enumerate(numbers.tolist()):
            if number in self._kept:
                self._kept.move_to_end(number)
                images[place] = self._kept[number]
                missing[place] = False
        return missing

    def _receive(self, numbers: np.ndarray, images: np.ndarray, missing: np.ndarray) -> None:
        """Keeps what the pipeline was started on, and fills in what is among the ``numbers``."""
        for found, decoded in self._pipeline.results():
            places = np.minimum(np.searchsorted(numbers, found), len(numbers) - 1)
            wanted = numbers[places] == found
            if wanted.all():
                images[places] = decoded
            else:
                places = places[wanted]
                images[places] = decoded[wanted]
            missing[places] = False
            self._keep(found, decoded)

    def _keep(self, numbers: np.ndarray, images: np.ndarray) -> None:
        for number, image in zip(numbers.tolist(), images, strict=True):
            if len(self._kept) >= self._capacity:
                if not self._kept:
                    return
                self._kept.popitem(last=False)
            self._kept[number] = image.copy()  # a view would hold on to all of its chunk


class _Pipeline:
    """Decodes images in the background; traced once, it can be started on any numbers.

    Args:
        decode: as for ``FileImages``.
        image_shape: of each image.
        num_waiting: chunks that may be decoded before somebody receives them.

    Attributes:
        errors: what was wrong with images that ``results`` left out since the last start.
    """

    def __init__(self, decode: Decode, image_shape: tuple[int, ...], num_waiting: int):
        self.errors: dict[int, Exception] = {}
        self._numbers = np.zeros(0, np.int64)
        self._chunks: Iterator[tf.Tensor] = iter(())
        self._raised: dict[int, Exception] = {}
        self._workers = min(_MAX_WORKERS, available_cores())
        self._chunk = MIN_CHUNK
        self._decoded = _decoded(decode, image_shape, self._workers, num_waiting, self._raised)

    def start(self, numbers: np.ndarray) -> None:
        """Begins to decode these images, in this order, instead of others."""
        self.stop()
        self.errors.clear()
        self._raised.clear()
        if numbers.size:
            share = numbers.size // (2 * self._workers)
            self._chunk = min(max(share, MIN_CHUNK), MAX_CHUNK)
            with tf.device("CPU:0"):
                self._chunks = iter(self._decoded(numbers, self._chunk))
            self._numbers = numbers

    def results(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Numbers and images of each chunk that was not received yet; without broken ones."""
        while self._numbers.size:
            # A view: copying costs a good part of what it takes to decode a small image.
            images = np.asarray(memoryview(next(self._chunks)))
            numbers, self._numbers = np.split(self._numbers, [self._chunk])
            broken = [number for number in numbers.tolist() if number in self._raised]
            if broken:
                self.errors |= {number: self._raised[number] for number in broken}
                intact = ~np.isin(numbers, broken)
                numbers, images = numbers[intact], images[intact]
            yield numbers, images
        self.stop()

    def stop(self) -> None:
        """Waits for the chunks that are being decoded, and gives up the others."""
        self._numbers = self._numbers[:0]
        self._chunks = iter(())


def _decoded(
    decode: Decode,
    image_shape: tuple[int, ...],
    workers: int,
    num_waiting: int,
    raised: dict[int, Exception],
) -> Callable[[np.ndarray, int], tf.data.Dataset]:
    """A function from numbers to their images in chunks so long; an image that raises is black."""

    def chunk(numbers: np.ndarray) -> np.ndarray:
        images = np.zeros((len(numbers), *image_shape), np.uint8)
        for number, image in zip(numbers.tolist(), images, strict=True):
            try:
                image[...] = decode(number)
            except Exception as error:  # raised where the image is asked for, as it is
                raised[number] = error
        return images

    def read(numbers: tf.Tensor) -> tf.Tensor:
        # Stateless, so that it stays parallel when ops have to be deterministic.
        images = tf.numpy_function(chunk, [numbers], tf.uint8, stateful=False)
        return tf.ensure_shape(images, [None, *image_shape])

    options = tf.data.Options()
    options.experimental_warm_start = True  # decoding does not wait for the first receiver
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = (
        False  # takes longer than it saves
    )
    # The round that trains meanwhile keeps TensorFlow's own threads.
    options.threading.private_threadpool_size = workers

    signature = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64)]

    @tf.function(input_signature=signature, autograph=False)
    def pipeline(numbers: tf.Tensor, length: tf.Tensor) -> tf.data.Dataset:
        chunks = tf.data.Dataset.from_tensor_slices(numbers).batch(length)
        images = chunks.map(read, num_parallel_calls=workers, deterministic=True)
        return images.prefetch(num_waiting)

    return lambda numbers, length: pipeline(numbers, length).with_options(options)
