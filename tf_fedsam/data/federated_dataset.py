"""A data set cut into clients.

Examples stay in one pair of arrays (uint8 images stay uint8); a client is a list of positions in
them, so that neither memory nor the cost of a round grows with the number of clients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_fedsam.data import batches, tf_examples
from tf_fedsam.data.arrays import Rows
from tf_fedsam.data.augment import Augment
from tf_fedsam.data.files import FileImages
from tf_fedsam.data.partition import SCHEMES, Partition, make
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.lazy import tf
from tf_fedsam.options import TrainingOptions


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

    @property
    def black(self) -> tuple[float, ...]:
        """What becomes of pixels that are 0."""
        return tuple(-m / s for m, s in zip(self.mean, self.std, strict=True))


CHECKED_EXAMPLES = 1000  # whose scale is looked at, or whose values at a time
# Images in 0..255 beside images in 0..1 differ by 255; samples of one kind of data by far less.
MAX_SCALE_RATIO = 50
# Images in -1..1 beside images in 0..1, of which nothing is below 0.
MAX_BELOW_ZERO = 0.2


@dataclasses.dataclass(frozen=True)
class Examples:
    """Inputs, in memory or in files, and integer labels of the same length."""

    x: np.ndarray | FileImages | Rows
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, numbers: np.ndarray) -> Examples:
        """Some of the examples; images in files stay there."""
        x = self.x.take(numbers) if isinstance(self.x, FileImages) else self.x[numbers]
        return Examples(x, self.y[numbers])


class FederatedDataset:
    """Training examples cut into clients, and test examples of the whole.

    Args:
        train: the training examples of all clients together.
        partition: which of them each client has.
        test: examples the global model is tested on.
        holdout: training examples that no client has, to choose settings by.
        client_ids: the clients' names; by default those of the partition, else 0, 1, 2, ...
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
        holdout: Examples | None = None,
        client_ids: Sequence[Any] | None = None,
        num_classes: int | None = None,
        preprocess: Preprocess | None = None,
        augment: Augment | None = None,
    ):
        check_examples(train, "training")
        if test is not None:
            check_examples(test, "test")
            check_alike(train, test)
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
        self.holdout = holdout
        self.partition = partition
        self.preprocess = preprocess or Preprocess()
        self.augment = augment
        names = partition.client_ids if client_ids is None else client_ids
        numbers = range(partition.num_clients)
        self.client_ids: Sequence[Any] = numbers if names is None else list(names)
        if len(self.client_ids) != partition.num_clients:
            raise InputError(
                f"client_ids must name each of the {partition.num_clients} clients. "
                f"Received: {len(self.client_ids)} names."
            )
        self._positions = (
            None if names is None else {name: i for i, name in enumerate(self.client_ids)}
        )

    @classmethod
    def from_arrays(
        cls,
        x: Any,
        y: Any,
        client_id: Any = None,
        *,
        partition: str | None = None,
        num_clients: int | None = None,
        seed: int = 0,
        x_test: Any = None,
        y_test: Any = None,
        num_classes: int | None = None,
        preprocess: Preprocess | None = None,
        augment: Augment | None = None,
        **scheme_options: Any,
    ) -> FederatedDataset:
        """Arrays, with a client for every example or cut into clients by a scheme.

        Args:
            x: inputs [examples, ...].
            y: integer labels [examples].
            client_id: who owns each example; one client for each distinct value.
            partition: or the name of a scheme of ``tf_fedsam.data.partition.SCHEMES``.
            num_clients: how many clients it makes.
            seed: of the split.
            x_test, y_test: examples the global model is tested on.
            num_classes, preprocess, augment: as for the class itself.
            **scheme_options: the scheme's own, such as ``alpha``.
        """
        train = Examples(np.asarray(x), np.asarray(y))
        check_examples(train, "training")
        test = None if x_test is None else Examples(np.asarray(x_test), np.asarray(y_test))
        return cls(
            train,
            _cut(train.y, partition, num_clients, seed, client_id, scheme_options),
            test=test,
            num_classes=num_classes,
            preprocess=preprocess,
            augment=augment,
        )

    @classmethod
    def from_tf_dataset(
        cls,
        dataset: tf.data.Dataset,
        *,
        partition: str | None = None,
        num_clients: int | None = None,
        seed: int = 0,
        client_id: tf_examples.ClientId | None = None,
        test: tf.data.Dataset | Examples | None = None,
        x_key: str | None = None,
        y_key: str | None = None,
        num_classes: int | None = None,
        preprocess: Preprocess | None = None,
        augment: Augment | None = None,
        **scheme_options: Any,
    ) -> FederatedDataset:
        """Any labelled ``tf.data.Dataset``, cut into clients.

            dataset = tfds.load("mnist", split="train")
            FederatedDataset.from_tf_dataset(dataset, partition="dirichlet", alpha=0.1,
                                             num_clients=100, preprocess=Preprocess(1 / 255))

        The data set is read once, in its own order, and kept in memory as it is; augmentation
        belongs into ``augment``, which draws anew in every local step. One that shuffles itself
        gives another split each time.

        Args:
            dataset: finite, of pairs ``(x, y)`` or dictionaries, single examples or batches;
                integer labels.
            partition: name of a scheme of ``tf_fedsam.data.partition.SCHEMES``; "given" if there is
                a ``client_id``.
            num_clients: how many clients it makes.
            seed: of the split.
            client_id: who owns each example: a key of the elements, or a function of one element
                that gives an int or a string.
            test: examples the global model is tested on, in the same form.
            x_key, y_key: where inputs and labels are in dictionaries, if not at "image" and "label"
                or the like.
            num_classes, preprocess, augment: as for the class itself.
            **scheme_options: the scheme's own, such as ``alpha``.
        """
        x, y, owners = tf_examples.read(dataset, x_key=x_key, y_key=y_key, client_id=client_id)
        if test is not None and not isinstance(test, Examples):
            test = Examples(*tf_examples.read(test, x_key=x_key, y_key=y_key, which="test")[:2])
        train = Examples(x, y)
        check_examples(train, "training")
        return cls(
            train,
            _cut(y, partition, num_clients, seed, owners, scheme_options),
            test=test,
            num_classes=num_classes,
            preprocess=preprocess,
            augment=augment,
        )

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

    def create_tf_dataset_for_client(
        self,
        client_id: Any,
        round_num: int | None = None,
        *,
        options: TrainingOptions | None = None,
        seed: int | None = None,
        step_fraction: float | None = None,
    ) -> tf.data.Dataset:
        """A client's examples, or the batches it trains on in a round.

        Without a round: single preprocessed examples ``(x, y)``, in the order of the partition.
        With a round: one batch for every local step, exactly as ``LearningProcess`` with these
        options and this seed trains on them: in the same order, preprocessed and augmented with the
        same random numbers.

        Args:
            client_id: the client.
            round_num: the round, from 0.
            options: of the process; its defaults unless given.
            seed: of the process; its default unless given.
            step_fraction: share of its local steps that the client does in this round; all unless
                given.
        """
        position = int(self.positions([client_id])[0])
        if round_num is not None:
            return self._batches_of_round(
                position, round_num, options or TrainingOptions(), seed or 0, step_fraction
            )
        given = {"options": options, "seed": seed, "step_fraction": step_fraction}
        for name, value in given.items():
            if value is not None:
                raise InputError(
                    f"Received {name}={value} without a round. Expected round_num with it: examples"
                    f" outside of a round are the same for all. Set round_num or remove {name}."
                )
        mine = self.client_examples(client_id)
        dataset = tf.data.Dataset.from_tensor_slices((mine.x, mine.y))
        return dataset.map(lambda x, y: (self.preprocess(x), y))

    def _batches_of_round(
        self,
        position: int,
        round_num: int,
        options: TrainingOptions,
        seed: int,
        step_fraction: float | None,
    ) -> tf.data.Dataset:
        if round_num < 0:
            raise InputError(
                f"Received round_num={round_num}. Expected 0 (the first) or more. Correct it."
            )
        cohort = batches.plan(
            self.partition,
            np.asarray([position]),
            seed,
            round_num,
            batch_size=options.batch_size,
            local_epochs=options.local_epochs,
            local_steps=options.local_steps,
            step_fraction=None if step_fraction is None else np.asarray([step_fraction]),
        )
        numbers, order = np.unique(cohort.order, return_inverse=True)
        x = tf.constant(self.train.x[numbers])
        y = tf.constant(self.train.y[numbers], tf.int32)
        order = tf.constant(order, tf.int32)
        client = {
            "order_start": tf.constant(0),
            "num_examples": tf.constant(cohort.num_examples[0], tf.int32),
            "seed": tf.constant(cohort.seeds[0], tf.int32),
        }
        steps = tf.data.Dataset.range(int(cohort.num_steps[0]), output_type=tf.int32)
        return steps.map(
            lambda step: batches.read(
                x,
                y,
                order,
                client,
                step,
                batch_size=options.batch_size,
                preprocess=self.preprocess,
                augment=self.augment,
            )
        ).prefetch(1)


def _cut(
    labels: np.ndarray,
    partition: str | None,
    num_clients: int | None,
    seed: int,
    client_id: Any,
    scheme_options: Mapping[str, Any],
) -> Partition:
    if partition is None and client_id is None:
        raise InputError(
            "Received neither a partition nor a client_id. Expected one of them. Name a scheme, "
            "such as partition='dirichlet', alpha=0.3, num_clients=100."
        )
    name = "given" if partition is None else partition
    if client_id is not None and name in SCHEMES and not SCHEMES[name].needs_client_ids:
        raise InputError(
            f"Received a client_id and partition={name!r}, which draws its clients. Expected one "
            f"of the two. Remove client_id, or use partition='given'."
        )
    return make(name, labels, num_clients, seed, client_id=client_id, **scheme_options)


def check_examples(examples: Examples, which: str) -> None:
    """Refuses examples that cannot be trained on; ``which`` names them in the message."""
    x, y = examples.x, examples.y
    if x.ndim < 2 or len(x) == 0:
        raise InputError(
            f"The {which} inputs must be a non-empty array of shape [examples, ...]. "
            f"Received: shape {x.shape}."
        )
    if x.dtype.kind not in "uifb" or x.dtype.itemsize > 8:
        raise InputError(
            f"The {which} inputs must be numbers of at most 64 bits. Received: dtype {x.dtype}. "
            f"Convert them first, such as with x.astype('float32')."
        )
    bad = _not_finite(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else 0
    if bad:
        raise InputError(
            f"The {which} inputs hold {bad} values that are NaN or infinite. Expected: finite "
            f"numbers. Clean the array first."
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


def _not_finite(x: np.ndarray) -> int:
    """How many values are NaN or infinite; looked at in parts, so that it takes no memory."""
    parts = (x[begin : begin + CHECKED_EXAMPLES] for begin in range(0, len(x), CHECKED_EXAMPLES))
    return sum(int(part.size - np.count_nonzero(np.isfinite(part))) for part in parts)


def check_alike(train: Examples, test: Examples) -> None:
    """Refuses test examples that cannot be of the same kind as the training examples."""
    if test.x.shape[1:] != train.x.shape[1:]:
        raise InputError(
            f"Training and test examples must have one shape. Received: "
            f"{train.x.shape[1:]} and {test.x.shape[1:]}."
        )
    if test.x.dtype.newbyteorder("=") != train.x.dtype.newbyteorder("="):
        raise InputError(
            f"Training and test inputs must have one dtype, since both are normalised in one way. "
            f"Received: {_kind(train)} and {_kind(test)}. Make both the same, in dtype and scale."
        )
    sizes = [_typical_size(part) for part in (train, test)]
    if min(sizes) > 0 and max(sizes) > MAX_SCALE_RATIO * min(sizes):
        raise InputError(
            f"Training and test inputs must have one scale. Received: {_kind(train)} and "
            f"{_kind(test)}, which are {sizes[0]:.3g} and {sizes[1]:.3g} away from 0 on average. "
            f"Bring both to the same scale."
        )
    below = [_share_below_zero(part) for part in (train, test)]
    if min(sizes) > 0 and min(below) == 0 and max(below) > MAX_BELOW_ZERO:
        raise InputError(
            f"Training and test inputs must have one range. Received: {_kind(train)} and "
            f"{_kind(test)}, of which {below[0]:.0%} and {below[1]:.0%} are below 0. Bring both to "
            f"the same range."
        )


def _some(examples: Examples) -> np.ndarray:
    """Inputs spread over the whole; none of files, which all are images."""
    if not isinstance(examples.x, np.ndarray):
        return np.zeros(0)
    step = max(1, len(examples) // CHECKED_EXAMPLES)
    return examples.x[::step].astype(np.float64)


def _typical_size(examples: Examples) -> float:
    some = _some(examples)
    return float(np.abs(some).mean()) if some.size else 0.0


def _share_below_zero(examples: Examples) -> float:
    """Of a few numbers nothing can be said: half."""
    some = _some(examples)
    return float((some < 0).mean()) if some.size >= CHECKED_EXAMPLES else 0.5


def _kind(examples: Examples) -> str:
    some = _some(examples)
    span = f" from {some.min():.3g} to {some.max():.3g}" if some.size else ""
    return f"{examples.x.dtype}{span}"
