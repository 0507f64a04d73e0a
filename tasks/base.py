"""What a data set's file declares: where it comes from, how it looks, its good settings."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tf_fedsam.data.federated_dataset import Examples, Preprocess
from tf_fedsam.errors import InputError


@dataclasses.dataclass(frozen=True)
class Request:
    """What a user says about the data.

    Attributes:
        data_file: one file, for data sets that are one file.
        data_dir: where prepared or publisher's files lie.
        seed: of the run; a data set that is drawn or subsampled depends on it.
    """

    data_file: pathlib.Path | None = None
    data_dir: pathlib.Path | None = None
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A data set in memory.

    Attributes:
        train, test: raw examples, uint8 images where possible.
        class_names: one name a label.
        preprocess: from raw to network input.
        source: where it came from, for the start table.
        client_id: the natural or given client of each training example, if there is one.
    """

    train: Examples
    test: Examples
    class_names: tuple[str, ...]
    preprocess: Preprocess
    source: str
    client_id: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set with its good settings.

    Attributes:
        name: the ``--dataset`` flag and the file's name.
        title: for people.
        load: reads it.
        settings: values for flags the user did not give, such as ``model`` or ``lr``.
        hparams: for an algorithm's name, the values of its hyper-parameters that suit this data.
        augment: ``(batch, seed) -> batch`` for training batches, or ``None``.
    """

    name: str
    title: str
    load: Callable[[Request], Loaded]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hparams: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    augment: Callable | None = None


def refuse(request: Request, name: str, *unused: str) -> None:
    """Refuses the parts of a request that a data set would have to ignore."""
    for field in unused:
        value = getattr(request, field)
        if value is not None:
            raise InputError(
                f"--{field} has no meaning for --dataset={name}. Received: {value}. Remove it."
            )
