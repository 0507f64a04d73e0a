"""The result of a split: which client holds which examples."""

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tf_fedsam.data.partition import checks
from tf_fedsam.errors import InputError

ENTRIES = 1 << 21  # of a table of clients by classes that are worked on at a time


@dataclasses.dataclass(frozen=True, eq=False)
class Partition:
    """Which examples of a data set each client holds.

    Attributes:
      indices: int64 [total], the examples, client after client; random order within a client.
      offsets: int64 [num_clients + 1]; client i holds indices[offsets[i]:offsets[i + 1]].
      num_examples: size of the data set that was cut.
      scheme: description for people.
      with_replacement: whether an example may appear more than once.
      priors: float [num_clients, num_classes], the class distributions p_i that the clients drew
        their classes from, or None for a scheme that has none.
      client_ids: what the client at each position is called, or None if they are 0, 1, 2, ...
    """

    indices: np.ndarray
    offsets: np.ndarray
    num_examples: int
    scheme: str
    with_replacement: bool
    priors: np.ndarray | None = None
    client_ids: tuple[Any, ...] | None = None

    def __post_init__(self):
        for array in (self.indices, self.offsets, self.priors):
            if array is not None:
                array.setflags(write=False)

    @property
    def num_clients(self) -> int:
        return len(self.offsets) - 1

    def sizes(self) -> np.ndarray:
        """int64 [num_clients], examples per client, repetitions counted."""
        return np.diff(self.offsets)

    def client(self, i: int) -> np.ndarray:
        """The examples of client i."""
        if not 0 <= i < self.num_clients:
            raise IndexError(f"client {i} of {self.num_clients}")
        return self.indices[self.offsets[i] : self.offsets[i + 1]]

    def class_counts(
        self, labels: np.ndarray, num_classes: int, begin: int = 0, end: int | None = None
    ) -> np.ndarray:
        """int64 [num_clients, num_classes], examples of each class on each client.

        Args:
          labels: of the data set that was cut.
          num_classes: number of labels.
          begin, end: the clients that are counted; all unless told.
        """
        labels = checks.labels(labels)
        if len(labels) != self.num_examples or labels.max() >= num_classes:
            raise InputError(
                f"Received {len(labels)} labels up to {labels.max()}. Expected {self.num_examples} "
                f"labels below num_classes={num_classes}. Pass the labels that were partitioned."
            )
        offsets = self.offsets[begin : None if end is None else end + 1]
        num_clients = len(offsets) - 1
        checks.table(num_clients, num_classes)
        owner = np.repeat(np.arange(num_clients), np.diff(offsets))
        cell = owner * num_classes + labels[self.indices[offsets[0] : offsets[-1]]]
        counts = np.bincount(cell, minlength=num_clients * num_classes)
        return counts.reshape(num_clients, num_classes)

    def class_priors(self, labels: np.ndarray, num_classes: int) -> np.ndarray:
        """float [num_clients, num_classes], what `validation` needs.

        The priors, or for a scheme without priors the class mix that each client ended with.
        """
        if self.priors is None:
            return self.class_counts(labels, num_classes) / self.sizes()[:, None]
        missing = max(0, num_classes - self.priors.shape[1])
        return np.pad(self.priors, ((0, 0), (0, missing)))

    def num_repeated(self) -> int:
        """Entries of `indices` beyond the first occurrence of an example."""
        return len(self.indices) - self._num_used()

    def num_unused(self) -> int:
        """Examples of the data set that no client holds."""
        return self.num_examples - self._num_used()

    def fingerprint(self) -> str:
        """16 hexadecimal digits that tell two partitions apart."""
        digest = hashlib.sha256()
        for array in (self.indices, self.offsets):
            digest.update(np.ascontiguousarray(array, "<i8").tobytes())
        return digest.hexdigest()[:16]

    def _num_used(self) -> int:
        return int(np.count_nonzero(np.bincount(self.indices, minlength=self.num_examples)))


def assemble(
    owner: np.ndarray,
    examples: np.ndarray,
    num_clients: int,
    num_examples: int,
    scheme: str,
    generator: np.random.Generator,
    with_replacement: bool = False,
    priors: np.ndarray | None = None,
) -> Partition:
    """Groups `examples` by `owner`, in random order within a client."""
    shuffled = generator.permutation(len(owner))
    order = shuffled[stable_order(owner[shuffled])]
    sizes = np.bincount(owner, minlength=num_clients)
    return Partition(
        examples[order], offsets_of(sizes), num_examples, scheme, with_replacement, priors
    )


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def class_pools(labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """All examples, class after class, shuffled within a class."""
    shuffled = generator.permutation(len(labels))
    keys = labels.astype(class_type(int(labels.max()) + 1))
    return shuffled[np.argsort(keys[shuffled], kind="stable")]


def row_parts(num_rows: int, num_columns: int) -> Iterator[slice]:
    """The rows of a large table in parts, one after another."""
    step = max(1, ENTRIES // max(1, num_columns))
    for begin in range(0, num_rows, step):
        yield slice(begin, min(begin + step, num_rows))


def stable_order(numbers: np.ndarray) -> np.ndarray:
    """``argsort(kind="stable")`` of numbers from 0 to 2^32 - 1.

    NumPy sorts 16-bit integers by counting, about ten times faster than wider ones: so the numbers
    are sorted by their lower and then by their upper 16 bits.
    """
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    if not len(numbers) or numbers.max() <= np.iinfo(np.uint16).max:
        return order
    return order[np.argsort((numbers >> 16).astype(np.uint16)[order], kind="stable")]


def class_type(num_classes: int) -> type[np.signedinteger]:
    # NumPy sorts 16-bit integers by counting, about ten times faster than wider ones.
    return np.int16 if num_classes <= np.iinfo(np.int16).max else np.int32
