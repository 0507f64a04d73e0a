"""A data set cut into clients.

Examples stay in one pair of arrays (uint8 images stay uint8); a client is a list of positions in
them, so that neither memory nor the cost of a round grows with the number of clients.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_fedsam.data.lazy import LazyImages
from tf_fedsam.data.partition import Partition, by_client_id
from tf_fedsam.errors import InputError, unknown


@dataclasses.dataclass(frozen=True)
class Preprocess:
    """From raw pixels to what a network sees: ``(x * scale - mean) / std``, channel by channel."""

    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        factor = np.asarray([self.scale / s for s in self.std], np.float32)
        offset = np.asarray([m / s for m, s in zip(self.mean, self.std, strict=True)], np.float32)
        x = tf.cast(x, tf.float32)
        if factor.size == 1:
            factor, offset = factor[0], offset[0]
        if np.any(factor != 1):
            x *= factor
        return x - offset if np.any(offset) else x


@dataclasses.dataclass(frozen=True)
class Examples:
    """Inputs, in memory or in files, and integer labels of the same length."""

    x: np.ndarray | LazyImages
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)


class FederatedDataset:
    """Training examples cut into clients, and test examples of the whole.

    Args:
        train: the training examples of all clients together.
        partition: which of them each client has.
        test: examples the global model is tested on.
        client_ids: the clients' names; 0, 1, 2, ... by default.
        num_classes: number of labels; the largest label + 1 by default.
        preprocess: from raw to network input, applied to training and test examples alike.
        augment: ``(batch, seed) -> batch`` on the device, for training batches only; ``seed`` is an
            int32 tensor of shape [2] for stateless random ops.
    """

    def __init__(
        self,
        train: Examples,
        partition: Partition,
        *,
        test: Examples | None = None,
        client_ids: Sequence[Any] | None = None,
        num_classes: int | None = None,
        preprocess: Preprocess | None = None,
        augment: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
    ):
        check_examples(train, "training")
        if test is not None:
            check_examples(test, "test")
            if test.x.shape[1:] != train.x.shape[1:]:
                raise InputError(
                    f"Training and test examples must have one shape. Received: "
                    f"{train.x.shape[1:]} and {test.x.shape[1:]}."
                )
        if partition.num_examples != len(train):
            raise InputError(
                f"The partition is of {partition.num_examples} examples. Received: {len(train)}."
            )
        largest = max(int(part.y.max()) for part in (train, test) if part is not None)
        self.num_classes = largest + 1 if num_classes is None else num_classes
        if largest >= self.num_classes:
            raise InputError(
                f"Labels must be 0..{self.num_classes - 1}. Received a label {largest}."
            )
        self.train = train
        self.test = test
        self.partition = partition
        self.preprocess = preprocess or Preprocess()
        self.augment = augment
        numbers = range(partition.num_clients)
        self.client_ids: Sequence[Any] = numbers if client_ids is None else list(client_ids)
        if len(self.client_ids) != partition.num_clients:
            raise InputError(
                f"client_ids must name each of the {partition.num_clients} clients. "
                f"Received: {len(self.client_ids)} names."
            )
        self._positions = (
            None if client_ids is None else {name: i for i, name in enumerate(client_ids)}
        )

    @classmethod
    def from_arrays(cls, x, y, client_id, *, x_test=None, y_test=None, **options):
        """One client for each distinct value of ``client_id``, an array as long as ``y``."""
        train = Examples(np.asarray(x), np.asarray(y))
        check_examples(train, "training")
        if len(client_id) != len(train):
            raise InputError(
                f"client_id must be as long as y, {len(train)}. Received: {len(client_id)}."
            )
        partition, names = by_client_id(np.asarray(client_id))
        test = None if x_test is None else Examples(np.asarray(x_test), np.asarray(y_test))
        return cls(train, partition, test=test, client_ids=names.tolist(), **options)

    @classmethod
    def from_tf_dataset(
        cls, dataset: tf.data.Dataset, client_id_fn: Callable[[Any], Any], **options
    ):
        """Reads a finite ``tf.data.Dataset`` of ``(x, y)`` or ``{"image": x, "label": y}``.

        Args:
            dataset: unbatched examples.
            client_id_fn: gives an element's client, an int or a string.
            **options: as for :meth:`from_arrays`.
        """
        xs, ys, ids = [], [], []
        for element in dataset.as_numpy_iterator():
            if isinstance(element, dict):
                x, y = element["image"], element["label"]
            else:
                x, y = element
            client = client_id_fn(element)
            xs.append(x)
            ys.append(y)
            ids.append(client.decode() if isinstance(client, bytes) else client)
        if not ys:
            raise InputError("The tf.data.Dataset is empty. Expected at least one (x, y) element.")
        return cls.from_arrays(np.stack(xs), np.asarray(ys), np.asarray(ids), **options)

    @property
    def num_clients(self) -> int:
        return self.partition.num_clients

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    def positions(self, client_ids: Iterable[Any]) -> np.ndarray:
        """The clients' positions in ``client_ids``."""
        if self._positions is not None:
            try:
                return np.asarray([self._positions[name] for name in client_ids], np.int64)
            except KeyError as error:
                raise unknown("client", error.args[0], map(str, self.client_ids[:20])) from None
        positions = np.asarray(list(client_ids), np.int64)
        if positions.size and (positions.min() < 0 or positions.max() >= self.num_clients):
            raise InputError(
                f"Client ids must be 0..{self.num_clients - 1}. Received: {positions.tolist()}."
            )
        return positions

    def client_examples(self, client_id: Any) -> Examples:
        """A client's raw examples."""
        indices = self.partition.client(int(self.positions([client_id])[0]))
        return Examples(self.train.x[indices], self.train.y[indices])

    def create_tf_dataset_for_client(self, client_id: Any) -> tf.data.Dataset:
        """A client's examples, preprocessed, unbatched, in the order of the partition."""
        mine = self.client_examples(client_id)
        dataset = tf.data.Dataset.from_tensor_slices((mine.x, mine.y))
        return dataset.map(lambda x, y: (self.preprocess(x), y))


def check_examples(examples: Examples, which: str) -> None:
    """Refuses examples that cannot be trained on; ``which`` names them in the message."""
    x, y = examples.x, examples.y
    if x.ndim < 2 or len(x) == 0:
        raise InputError(
            f"The {which} inputs must be a non-empty array of shape [examples, ...]. "
            f"Received: shape {x.shape}."
        )
    if x.dtype.kind not in "uifb":
        raise InputError(f"The {which} inputs must be numbers. Received: dtype {x.dtype}.")
    if isinstance(x, np.ndarray) and x.dtype.kind == "f" and not np.isfinite(x).all():
        raise InputError(
            f"The {which} inputs hold {int((~np.isfinite(x)).sum())} values that are NaN or "
            f"infinite. Expected: finite numbers. Clean the array first."
        )
    if y.ndim != 1 or y.dtype.kind not in "ui":
        raise InputError(
            f"The {which} labels must be a 1-d array of integers. "
            f"Received: shape {y.shape}, dtype {y.dtype}."
        )
    if len(x) != len(y):
        raise InputError(
            f"The {which} inputs and labels must have one length. Received: {len(x)} inputs and "
            f"{len(y)} labels."
        )
    if y.min() < 0:
        raise InputError(f"The {which} labels must be 0..C-1. Received a label {int(y.min())}.")
