"""CIFAR-10 and CIFAR-100 from the publisher's archives, or from the folders these extract to.

Source: https://www.cs.toronto.edu/~kriz/cifar.html, in its binary and its Python version. The
binary version is preferred where both are present. Archives are read in place.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.formats import batch_pickle, tar
from tasks.formats.files import PathLike, bad_file, read_bytes
from tf_fedsam.errors import InputError, unknown

PUBLISHED_COUNTS = (50_000, 10_000)
IMAGE_BYTES = 3 * 32 * 32

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Layout:
    """One published form of the data.

    Attributes:
        folder: the folder in the archive.
        archive: the archive's name.
        train: the training files, which hold equally many images.
        test: the test file.
        labels: the label arrays of one record in their order: name and number of classes.
        pickled: whether the files are pickles (the Python version).
    """

    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    labels: tuple[tuple[str, int], ...]
    pickled: bool

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, self.test)


_CIFAR10 = (
    _Layout(
        "cifar-10-batches-bin",
        "cifar-10-binary.tar.gz",
        tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
        "test_batch.bin",
        (("labels", 10),),
        pickled=False,
    ),
    _Layout(
        "cifar-10-batches-py",
        "cifar-10-python.tar.gz",
        tuple(f"data_batch_{i}" for i in range(1, 6)),
        "test_batch",
        (("labels", 10),),
        pickled=True,
    ),
)
_CIFAR100_LABELS = (("coarse_labels", 20), ("fine_labels", 100))
_CIFAR100 = (
    _Layout(
        "cifar-100-binary",
        "cifar-100-binary.tar.gz",
        ("train.bin",),
        "test.bin",
        _CIFAR100_LABELS,
        pickled=False,
    ),
    _Layout(
        "cifar-100-python",
        "cifar-100-python.tar.gz",
        ("train",),
        "test",
        _CIFAR100_LABELS,
        pickled=True,
    ),
)


def read_cifar10(
    path: PathLike, *, expected_counts: tuple[int, int] | None = PUBLISHED_COUNTS
) -> Arrays:
    """CIFAR-10 from an archive, its extracted folder, or a folder that holds either.

    Args:
        path: the archive or folder.
        expected_counts: the number of training and test images; the training images are spread
            evenly over the five files. None admits any number of whole records.

    Returns:
        x_train uint8 [n, 32, 32, 3], y_train int32 [n], x_test, y_test.

    Raises:
        InputError: a missing, damaged or hostile file, or another number of images than expected.
    """
    return _read(path, _CIFAR10, "labels", expected_counts)


def read_cifar100(
    path: PathLike,
    *,
    labels: str = "fine",
    expected_counts: tuple[int, int] | None = PUBLISHED_COUNTS,
) -> Arrays:
    """CIFAR-100, like `read_cifar10`; `labels` is "fine" (100 classes) or "coarse" (20)."""
    if labels not in ("fine", "coarse"):
        raise unknown("kind of CIFAR-100 labels", labels, ("fine", "coarse"))
    return _read(path, _CIFAR100, f"{labels}_labels", expected_counts)


def holds_cifar10(path: PathLike) -> bool:
    """Whether any file of CIFAR-10 is there, complete or not."""
    return _holds(Path(path), _CIFAR10)


def holds_cifar100(path: PathLike) -> bool:
    """Whether any file of CIFAR-100 is there, complete or not."""
    return _holds(Path(path), _CIFAR100)


def _holds(path: Path, layouts: Sequence[_Layout]) -> bool:
    return os.path.isfile(path) or any(
        os.path.isfile(path / name)
        for layout in layouts
        for name in (
            layout.archive,
            *layout.files,
            *(f"{layout.folder}/{file}" for file in layout.files),
        )
    )


def _read(
    path: PathLike,
    layouts: Sequence[_Layout],
    label_name: str,
    expected_counts: tuple[int, int] | None,
) -> Arrays:
    layout, read = _locate(Path(path), layouts)
    counts: list[int | None] = [None, None]
    if expected_counts is not None:
        num_train, num_test = expected_counts
        if num_train < 1 or num_test < 1 or num_train % len(layout.train):
            raise InputError(
                f"expected_counts: received {expected_counts}; expected positive numbers, the "
                f"first a multiple of {len(layout.train)} (the number of training files)."
            )
        counts = [num_train // len(layout.train), num_test]
    parts = []
    for names, count in ((layout.train, counts[0]), ((layout.test,), counts[1])):
        records = [_records(*read(name), layout, label_name, count) for name in names]
        images = np.concatenate([images for images, _ in records])
        # Stored as one plane for each colour; the copy makes the colours of a pixel neighbours.
        images = np.ascontiguousarray(images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        parts += [images, np.concatenate([labels for _, labels in records])]
    return parts[0], parts[1], parts[2], parts[3]


Reader = Callable[[str], tuple[bytes, str]]


def _locate(path: Path, layouts: Sequence[_Layout]) -> tuple[_Layout, Reader]:
    """The layout found at `path`, and a function from a file's name to (content, shown name)."""
    if os.path.isdir(path):
        for layout in layouts:
            for folder in (path, path / layout.folder):
                if any(os.path.isfile(folder / name) for name in layout.files):
                    return layout, _folder_reader(folder)
        for layout in layouts:
            archive = path / layout.archive
            if os.path.isfile(archive):
                return _locate(archive, layouts)
        raise bad_file(
            path,
            "a folder without them",
            " or ".join(repr(name) for lay in layouts for name in (lay.archive, lay.folder)),
            "Put the publisher's archive into this folder, or give the archive's own path.",
        )
    wanted = {
        name: (layout, file)
        for layout in layouts
        for file in layout.files
        for name in (file, f"{layout.folder}/{file}")
    }
    members = tar.read_members(path, wanted.__contains__)
    for layout in layouts:
        content: dict[str, bytes] = {}
        for name, data in members.items():
            if wanted[name][0] is layout:
                if wanted[name][1] in content:
                    raise bad_file(path, f"member {wanted[name][1]!r} twice", "each member once")
                content[wanted[name][1]] = data
        if content:
            return layout, _archive_reader(path, content)
    raise bad_file(
        path,
        "an archive without the data",
        " or ".join(f"{lay.folder}/{lay.test}" for lay in layouts) + " among its members",
    )


def _folder_reader(folder: Path) -> Reader:
    def read(name: str) -> tuple[bytes, str]:
        return read_bytes(folder / name, tar.MAX_MEMBER_BYTES), str(folder / name)

    return read


def _archive_reader(path: Path, content: dict[str, bytes]) -> Reader:
    def read(name: str) -> tuple[bytes, str]:
        if name not in content:
            raise bad_file(path, f"no member {name!r}", "all files of the published archive")
        return content.pop(name), f"{path}: {name}"

    return read


def _records(
    data: bytes, name: str, layout: _Layout, label_name: str, count: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Images [n, 3072] and labels int32 [n] of one file."""
    if not data:
        raise bad_file(name, "an empty file", "images")
    images, labels = (_unpickle if layout.pickled else _split)(data, name, layout, count)
    for key, num_classes in layout.labels:
        if len(labels[key]) != len(images):
            raise bad_file(
                name, f"{len(labels[key]):,} {key}", f"{len(images):,}, one for each image"
            )
        if labels[key].min() < 0 or labels[key].max() >= num_classes:
            wrong = labels[key][(labels[key] < 0) | (labels[key] >= num_classes)][0]
            raise bad_file(name, f"the value {wrong} in {key}", f"0 to {num_classes - 1}")
    return images, labels[label_name].astype(np.int32)


Fields = tuple[np.ndarray, dict[str, np.ndarray]]


def _split(data: bytes, name: str, layout: _Layout, count: int | None) -> Fields:
    num_labels = len(layout.labels)
    record_bytes = num_labels + IMAGE_BYTES
    if len(data) % record_bytes:
        expected = f"whole records of {record_bytes:,} bytes"
        if count is not None:
            expected += f", {count:,} of them ({count * record_bytes:,} bytes)"
        raise bad_file(name, f"{len(data):,} bytes", expected)
    _check_count(name, len(data) // record_bytes, count)
    records = np.frombuffer(data, np.uint8).reshape(-1, record_bytes)
    labels = {key: records[:, i] for i, (key, _) in enumerate(layout.labels)}
    return records[:, num_labels:], labels


def _unpickle(data: bytes, name: str, layout: _Layout, count: int | None) -> Fields:
    batch = batch_pickle.loads(data, name)
    images = batch.get("data")
    if not isinstance(images, np.ndarray) or images.shape[1] != IMAGE_BYTES:
        received = images.shape if isinstance(images, np.ndarray) else type(images).__name__
        raise bad_file(name, f"'data' as {received}", f"a uint8 array [n, {IMAGE_BYTES}]")
    _check_count(name, len(images), count)
    labels = {}
    for key, num_classes in layout.labels:
        values = batch.get(key)
        # The range is tested before NumPy sees the numbers, which in a pickle have no bound.
        if type(values) is not list or not all(
            type(value) is int and 0 <= value < num_classes for value in values
        ):
            raise bad_file(
                name, f"{key!r} that are not labels", f"a list of integers 0 to {num_classes - 1}"
            )
        labels[key] = np.asarray(values, np.int32)
    return images, labels


def _check_count(name: str, received: int, count: int | None) -> None:
    if count is not None and received != count:
        raise bad_file(name, f"{received:,} images", f"{count:,} images")
