"""The contract of a data set, and where data sets are found by name.

A package of data sets registers itself when it is imported (``import tasks``); a single
:class:`Task` is registered with :func:`add`, or passed to ``build`` and ``run`` as it is.
"""

import dataclasses
import importlib
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tf_fedsam.data.federated_dataset import Examples, Preprocess
from tf_fedsam.errors import InputError

STREAM_BYTES = 4 * 1024**3


@dataclasses.dataclass(frozen=True)
class Request:
    """What a user says about the data.

    Attributes:
        data_file: one file, for data sets that are one file.
        data_dir: where prepared or publisher's files lie.
        seed: of the run; a data set that is drawn or subsampled depends on it.
        subset: use so many examples, training and test together; all by default.
        image_size: height and width that images are resized to; the data set's own by default.
        stream: whether images that lie in single files stay there until a round needs them:
            "always", "never", or "auto": if they would take more than ``STREAM_BYTES`` in memory.
        labels_only: leave the images out, for those who only look at the split; ``x`` is then an
            array [n, 0].
    """

    data_file: pathlib.Path | None = None
    data_dir: pathlib.Path | None = None
    seed: int = 0
    subset: int | None = None
    image_size: int | None = None
    stream: str = "auto"
    labels_only: bool = False


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
        name: the ``dataset`` setting and the file's name.
        title: for people.
        load: reads it.
        settings: values for settings the user did not give, such as ``model`` or ``lr``.
        hparams: for an algorithm's name, the values of its hyper-parameters that suit this data.
        model_hparams: for a model's name, what of ``hparams`` is different with it.
        algorithm_settings: for an algorithm's name, what of ``settings`` is different for it.
        augment: ``(batch, seed) -> batch`` for training batches, or ``None``.
    """

    name: str
    title: str
    load: Callable[[Request], Loaded]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hparams: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    model_hparams: Mapping[str, Mapping[str, Mapping[str, Any]]] = dataclasses.field(
        default_factory=dict
    )
    algorithm_settings: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    augment: Callable | None = None

    def hparams_of(self, algorithm: str, model: str) -> dict[str, Any]:
        """The hyper-parameters that the data set fills in for an algorithm and a model."""
        with_model = self.model_hparams.get(model, {})
        return {**self.hparams.get(algorithm, {}), **with_model.get(algorithm, {})}


_registries: list[str] = []
_own: dict[str, Task] = {}


def register(module: str) -> None:
    """Makes the data sets of a module known: its functions ``all_tasks()`` and ``find(name)``.

    The module is imported when a data set is first looked for.
    """
    if module not in _registries:
        _registries.append(module)


def registered() -> tuple[str, ...]:
    """The modules whose data sets are known."""
    return tuple(_registries)


def add(task: Task) -> None:
    """Makes one data set known by its name."""
    _own[task.name] = task


def added() -> tuple[str, ...]:
    """The names of the data sets that were added one by one."""
    return tuple(_own)


def all_tasks() -> dict[str, Task]:
    """The data sets that are known, by name."""
    found: dict[str, Task] = {}
    for module in _registries:
        found |= importlib.import_module(module).all_tasks()
    return dict(sorted((found | _own).items()))


def find(name: str) -> Task:
    """The data set of that name."""
    if name in _own:
        return _own[name]
    if not _registries:
        raise InputError(
            f"No data set is known. Received: dataset={name}. Write `import tasks` first, or pass "
            f"a Task."
        )
    errors = []
    for module in _registries:
        try:
            return importlib.import_module(module).find(name)
        except InputError as error:
            errors.append(error)
    raise errors[0]
