"""Images that stay in their files until a round needs them.

A lazy array stands where the array of all inputs would: it has a shape and a dtype and is indexed
with example numbers. What was decoded is kept up to a number of bytes, and ``prefetch`` decodes in
the background, so that the next round's images are ready while this one trains.
"""

import collections
import concurrent.futures
import threading
from collections.abc import Callable

import numpy as np

DEFAULT_CACHE_BYTES = 2 * 1024**3


class LazyImages:
    """Images decoded on demand.

    Args:
        decode: gives the uint8 images of some example numbers, ``[len(numbers), *image_shape]``.
        num_images: how many there are.
        image_shape: of each.
        cache_bytes: how much of what was decoded is kept, the least recently used going first.
    """

    dtype = np.dtype(np.uint8)

    def __init__(
        self,
        decode: Callable[[np.ndarray], np.ndarray],
        num_images: int,
        image_shape: tuple[int, ...],
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ):
        self.shape = (num_images, *image_shape)
        self.ndim = len(self.shape)
        self._decode = decode
        self._capacity = max(1, cache_bytes // int(np.prod(image_shape)))
        self._cache: collections.OrderedDict[int, np.ndarray] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._worker = concurrent.futures.ThreadPoolExecutor(1, "prefetch")
        self._pending: concurrent.futures.Future | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers) -> np.ndarray:
        numbers = np.arange(len(self))[numbers]
        if self._pending is not None:
            self._pending.result()  # what it decodes is most likely what is asked for
            self._pending = None
        return self._read(np.atleast_1d(numbers)).reshape(*numbers.shape, *self.shape[1:])

    def prefetch(self, numbers: np.ndarray) -> None:
        """Starts to decode these images; the next access waits for it."""
        self._pending = self._worker.submit(self._read, np.asarray(numbers))

    def _read(self, numbers: np.ndarray) -> np.ndarray:
        if not numbers.size:
            return np.zeros((0, *self.shape[1:]), self.dtype)
        unique, inverse = np.unique(numbers, return_inverse=True)
        with self._lock:
            found = {int(n): self._cache[int(n)] for n in unique if int(n) in self._cache}
            for n in found:
                self._cache.move_to_end(n)
        missing = np.asarray([n for n in unique if int(n) not in found], np.int64)
        if missing.size:
            found |= zip(missing.tolist(), self._decode(missing), strict=True)
        with self._lock:
            for n in missing.tolist():
                self._cache[n] = found[n]
            while len(self._cache) > self._capacity:
                self._cache.popitem(last=False)
        return np.stack([found[int(n)] for n in unique])[inverse]
