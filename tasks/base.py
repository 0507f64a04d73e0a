"""What a data set's file declares: where it comes from, how it looks, its good settings."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tf_fedsam import rng
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
        name: the ``--dataset`` flag and the file's name.
        title: for people.
        load: reads it.
        settings: values for flags the user did not give, such as ``model`` or ``lr``.
        hparams: for an algorithm's name, the values of its hyper-parameters that suit this data.
        algorithm_settings: for an algorithm's name, what of ``settings`` is different for it.
        augment: ``(batch, seed) -> batch`` for training batches, or ``None``.
    """

    name: str
    title: str
    load: Callable[[Request], Loaded]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hparams: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    algorithm_settings: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    augment: Callable | None = None


def refuse(request: Request, name: str, *unused: str) -> None:
    """Refuses the parts of a request that a data set would have to ignore."""
    for field in unused:
        value = getattr(request, field)
        if value is not None:
            raise InputError(
                f"--{field} has no meaning for --dataset={name}. Received: {value}. Remove it."
            )


def subset_positions(
    num_train: int, num_test: int, request: Request
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Which training and test examples ``request.subset`` keeps, ascending; ``None`` for all.

    Training and test examples keep the proportion they have in the data set; which ones is drawn
    uniformly without replacement and depends on the seed alone.
    """
    total = num_train + num_test
    if request.subset is None or request.subset == total:
        return None, None
    if not 2 <= request.subset <= total:
        raise InputError(
            f"--subset counts training and test examples together. Received: {request.subset}. "
            f"Expected: 2 to {total}, which is all."
        )
    kept = min(max(round(request.subset * num_train / total), 1), request.subset - 1)
    draw = lambda part, n, count: np.sort(  # noqa: E731
        rng.generator(request.seed, f"subset.{part}").choice(n, count, replace=False)
    )
    return draw("train", num_train, kept), draw("test", num_test, request.subset - kept)
