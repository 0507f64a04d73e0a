"""Examples where the devices can read them: in memory for good, or from files for a round."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.data.files import FileImages
from tf_fedsam.engine.placement import Placement

PIECE = 2000  # examples of files that are evaluated at a time

Streamed = tuple[()] | tuple[np.ndarray, np.ndarray]


class DeviceExamples:
    """A data set's examples on the devices.

    Training examples in memory stay on the devices. Of those in files the cohort's are read for
    every round, and passed to it as ``Streamed``.

    Args:
        dataset: the data set.
        placement: the devices.
    """

    def __init__(self, dataset: FederatedDataset, placement: Placement):
        self._dataset = dataset
        self._placement = placement
        self._placed: dict[int, tuple[Examples, Any]] = {}
        train = dataset.train
        self._train = placement.put(train) if isinstance(train.x, np.ndarray) else None

    def of_cohort(self, order: np.ndarray) -> tuple[np.ndarray, Streamed]:
        """The order with numbers of the examples of a round, and these, if they are streamed."""
        if self._train is not None:
            return order, ()
        numbers, order = np.unique(order, return_inverse=True)
        train = self._dataset.train
        return order, (train.x[numbers], train.y[numbers].astype(np.int32))

    def prefetch(self, positions: np.ndarray) -> None:
        """Begins to read the files of some clients."""
        train, partition = self._dataset.train, self._dataset.partition
        if isinstance(train.x, FileImages) and positions.size:
            train.x.prefetch(np.concatenate([partition.client(p) for p in positions]))

    def of_round(self, streamed: Any) -> tuple[Any, Any]:
        """Inputs and labels that a round's order points at, in the compiled round."""
        return streamed if self._train is None else self._train

    def signature(self) -> tuple:
        """Of ``Streamed``."""
        if self._train is not None:
            return ()
        shape = [None, *self._dataset.input_shape]
        x, y = tf.TensorSpec(shape, self._dataset.train.x.dtype), tf.TensorSpec([None], tf.int32)
        return x, y

    def pieces(self, examples: Examples) -> Iterator[tuple[Any, Any]]:
        """Examples on the devices, all at once; those in files piece by piece."""
        if self._train is not None and examples is self._dataset.train:
            yield self._train
        elif isinstance(examples.x, np.ndarray):
            if id(examples) not in self._placed:
                self._placed[id(examples)] = (examples, self._placement.put(examples))
            yield self._placed[id(examples)][1]
        else:
            for begin in range(0, len(examples), PIECE):
                part = slice(begin, begin + PIECE)
                yield self._placement.put(Examples(examples.x[part], examples.y[part]))
