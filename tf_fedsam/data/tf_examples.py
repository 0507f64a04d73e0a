"""Reads labelled examples out of a ``tf.data.Dataset``.

Elements are pairs ``(x, y)`` or dictionaries, one example each or batches of them. All that a model
cannot be trained on is refused, with what was received, what is expected and how to fix it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tf_fedsam.errors import InputError, unknown
from tf_fedsam.lazy import tf

ClientId = str | Callable[[Any], Any]

X_KEYS = ("image", "pixels", "x", "inputs", "features")
Y_KEYS = ("label", "y", "labels", "target")
_BATCH = 256
_ARGMAX = "Turn them into classes: dataset.map(lambda x, y: (x, tf.argmax(y, -1)))."


def read(
    dataset: tf.data.Dataset,
    *,
    x_key: str | None = None,
    y_key: str | None = None,
    client_id: ClientId | None = None,
    which: str = "training",
) -> tuple[np.ndarray, np.ndarray, list[Any] | None]:
    """All examples of a finite data set, in its order, and who owns each of them.

    Args:
        dataset: of pairs ``(x, y)`` or dictionaries, batched or not.
        x_key, y_key: where the inputs and labels of a dictionary are; by default the one of
            ``X_KEYS`` and of ``Y_KEYS`` that is there.
        client_id: where the client's id is, or a function that gives the client of one example,
            an element as NumPy arrays; ``None`` if nobody asks.
        which: names the data set in messages.

    Returns:
        Inputs, labels and client ids; the last are ``None`` if nobody asked.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise InputError(
            f"Received {which} examples of type {type(dataset).__name__}. Expected a "
            f"tf.data.Dataset. For arrays there is from_arrays()."
        )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise InputError(
            f"Received an infinite {which} data set. Expected one that ends. Remove repeat(), or "
            f"use take(n)."
        )
    id_key = client_id if isinstance(client_id, str) else None
    keys = _Keys(dataset.element_spec, x_key, y_key, id_key, which)
    x_spec, y_spec, *_ = keys.of(dataset.element_spec)
    batched = _is_batched(x_spec, y_spec, which)
    if not callable(client_id):
        dataset = dataset.map(lambda *element: keys.of(element if len(element) > 1 else element[0]))
    if not batched:
        dataset = dataset.batch(_BATCH)
    xs: list[np.ndarray] = []
    ys: list[np.ndarray] = []
    owners: list[Any] = []
    for element in _elements(dataset, which):
        x, y, *owner = keys.of(element) if callable(client_id) else element
        y = y.reshape(len(y))
        _check_shapes(x, y, xs[0] if xs else x, which)
        xs.append(x)
        ys.append(y)
        if callable(client_id):
            owners += [client_id(example) for example in _examples(element, len(y))]
        elif owner:
            owners += owner[0].reshape(len(y)).tolist()
    if not any(len(y) for y in ys):
        raise InputError(
            f"Received an empty {which} data set. Expected at least one example. Check what "
            f"filter(), skip() and take() leave over."
        )
    if batched:
        _refuse_one_hot(ys, which)
    names = None if client_id is None else [_name(owner) for owner in owners]
    return np.concatenate(xs), np.concatenate(ys), names


class _Keys:
    """Takes inputs, labels and, if asked for, the client's id out of an element."""

    def __init__(
        self, spec: Any, x_key: str | None, y_key: str | None, id_key: str | None, which: str
    ):
        self._names: tuple[Any, ...]
        if isinstance(spec, Mapping):
            asked = () if id_key is None else (_known("client_id", id_key, spec),)
            self._names = (
                _find("x_key", x_key, X_KEYS, spec, which),
                _find("y_key", y_key, Y_KEYS, spec, which),
                *asked,
            )
        else:
            for name, key in (("x_key", x_key), ("y_key", y_key), ("client_id", id_key)):
                if key is not None:
                    raise InputError(
                        f"Received {name}={key!r} for {which} elements without names. Expected "
                        f"dictionaries. Remove {name}, or name the parts in map()."
                    )
            if not isinstance(spec, tuple) or len(spec) != 2:
                raise InputError(
                    f"Received {which} elements of the structure {_structure(spec)}. Expected "
                    f"pairs (x, y) or dictionaries. Bring them into that form with map()."
                )
            self._names = (0, 1)
        for part in self.of(spec):
            if not isinstance(part, tf.TensorSpec):
                raise InputError(
                    f"Received {which} elements with the part {_structure(part)}. Expected plain "
                    f"tensors. Convert it in map(), for example with to_tensor()."
                )

    def of(self, element: Any) -> tuple[Any, ...]:
        return tuple(element[name] for name in self._names)


def _find(
    name: str, key: str | None, candidates: Sequence[str], spec: Mapping[str, Any], which: str
) -> str:
    if key is not None:
        return _known(name, key, spec)
    there = [candidate for candidate in candidates if candidate in spec]
    if len(there) != 1:
        raise InputError(
            f"Received {which} elements with the keys {', '.join(map(str, spec))}. Expected one of "
            f"{', '.join(candidates)} among them. Set {name}."
        )
    return there[0]


def _known(name: str, key: str, spec: Mapping[str, Any]) -> str:
    if key not in spec:
        raise unknown(name, key, map(str, spec))
    return key


def _is_batched(x: tf.TensorSpec, y: tf.TensorSpec, which: str) -> bool:
    """Whether the elements are batches; refuses labels that are not one class per example."""
    if x.shape.rank is None or y.shape.rank is None:
        raise InputError(
            f"Received {which} elements whose number of dimensions is unknown: x {x.shape}, y "
            f"{y.shape}. Expected known ones. Set them with tf.ensure_shape in map(), or with "
            f"output_signature in from_generator()."
        )
    if not (y.dtype.is_integer and not y.dtype.is_quantized):
        raise InputError(
            f"Received {which} labels of type {y.dtype.name}. Expected integers. Number the "
            f"classes from 0; whole numbers in floats become integers with "
            f"dataset.map(lambda x, y: (x, tf.cast(y, tf.int32)))."
        )
    if y.shape.rank == 0:
        return False
    same_length = x.shape.rank > 0 and x.shape[0] == y.shape[0]
    if y.shape.rank == 1 and (same_length or y.shape[0] == 1):
        return same_length
    if y.shape.rank == 2 and y.shape[1] == 1:
        return True
    raise InputError(
        f"Received {which} labels of shape {y.shape} with inputs of shape {x.shape}, as one-hot "
        f"labels have it. Expected one integer class per example. {_ARGMAX}"
    )


def _check_shapes(x: np.ndarray, y: np.ndarray, first: np.ndarray, which: str) -> None:
    if len(x) != len(y):
        raise InputError(
            f"Received a batch of {len(x)} {which} inputs with {len(y)} labels. Expected one label "
            f"per input. Correct the data set."
        )
    if x.shape[1:] != first.shape[1:]:
        raise InputError(
            f"Received {which} inputs of shape {x.shape[1:]} after others of {first.shape[1:]}. "
            f"Expected one shape. Resize or pad them in map()."
        )


def _refuse_one_hot(batches: Sequence[np.ndarray], which: str) -> None:
    """One-hot labels that look like a batch, because inputs are as long as there are classes."""
    lengths = {len(batch) for batch in batches}
    if len(batches) < 2 or len(lengths) > 1 or lengths == {1}:
        return
    table = np.stack(batches)
    if table.min() == 0 and table.max() == 1 and np.all(table.sum(axis=1) == 1):
        raise InputError(
            f"Received {which} labels that are a single 1 among zeros in every element, as "
            f"one-hot labels are. Expected one integer class per example. {_ARGMAX} If these are "
            f"batches after all, unbatch() them."
        )


def _elements(dataset: tf.data.Dataset, which: str) -> Iterator[Any]:
    try:
        yield from dataset.as_numpy_iterator()
    except tf.errors.OpError as error:
        message = " ".join((error.message or type(error).__name__).split())
        fix = "Correct its pipeline."
        if "different shapes" in message:
            fix = "Bring all to one shape in map(), for example with tf.image.resize."
        raise InputError(
            f"Received a {which} data set that cannot be read to its end: {message[:300]}. "
            f"Expected one that gives all its elements. {fix}"
        ) from error


def _examples(batch: Any, length: int) -> Iterator[Any]:
    """The single elements of a batch."""
    for number in range(length):
        yield tf.nest.map_structure(lambda part, number=number: part[number], batch)


def _name(client: Any) -> Any:
    return client.decode("utf-8", "backslashreplace") if isinstance(client, bytes) else client


def _structure(spec: Any) -> str:
    return " ".join(str(spec).split())[:200]
