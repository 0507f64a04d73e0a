"""Where a data set comes from: the same order for all of them.

1. a data set that TFDS has prepared in ``data_dir`` (without one, in TFDS's own folder),
2. the publisher's own files in ``data_dir``,
3. a download by TFDS into ``data_dir`` or TFDS's own folder.

The first that is there is used and named in the start table. One that is there but broken is an
error, never a reason to go on to the next; and nothing else is ever put in a missing data set's
place.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from tasks.base import STREAM_BYTES, Loaded, Request, refuse, subset_positions
from tasks.formats import idx, images
from tf_fedsam.data.federated_dataset import Examples, Preprocess
from tf_fedsam.errors import InputError

Positions = np.ndarray | None


@dataclasses.dataclass(frozen=True)
class Part:
    """The training or the test examples of a source, read when asked for.

    Attributes:
        num_examples: how many there are.
        labels: the int32 labels at some ascending positions, or of all for ``None``.
        examples: the examples there, images of the given size (``None``: their own), streamed or
            not as `Request.stream` says.
    """

    num_examples: int
    labels: Callable[[Positions], np.ndarray]
    examples: Callable[[Positions, int | None, str], Examples]


@dataclasses.dataclass(frozen=True)
class Found:
    """A data set that was found.

    Attributes:
        train, test: its examples.
        class_names: one name a label.
        where: a description for the start table.
        client_id: the natural client of each training example, if there is one.
    """

    train: Part
    test: Part
    class_names: tuple[str, ...]
    where: str
    client_id: np.ndarray | None = None


class NotFoundError(Exception):
    """A source does not have the data set; the text completes "Tried: SOURCE: ..."."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Where one data set can come from, and how it looks.

    Attributes:
        name: the ``dataset`` flag.
        home: the publisher's page.
        preprocess: from raw to network input.
        files: what to get from the publisher, for people.
        publisher: finds the publisher's files in a folder, or raises `NotFoundError`.
        tfds: the name in TFDS, or ``None`` if TFDS does not have it.
        tfds_transposed: TFDS stores the images with rows and columns exchanged.
        stand_in: the embedded data set of the same shape, or ``None``.
        image_size: what images are resized to unless the user says; ``None`` keeps their own.
        class_names: one name a label; ``None`` takes the names that the source has.
    """

    name: str
    home: str
    preprocess: Preprocess
    files: str = ""
    publisher: Callable[[Path, Request], Found] | None = None
    tfds: str | None = None
    tfds_transposed: bool = False
    stand_in: str | None = None
    image_size: int | None = None
    class_names: tuple[str, ...] | None = None

    def load(self, request: Request) -> Loaded:
        """Reads the data set from the first source that has it."""
        refuse(request, self.name, "data_file")
        found = self.find(request)
        if self.class_names is not None:
            found = dataclasses.replace(found, class_names=self.class_names)
        return read(found, request, self.preprocess, self.image_size)

    def find(self, request: Request) -> Found:
        """The first source that has the data set."""
        tried = []
        for where, attempt in self._attempts(request):
            try:
                return attempt()
            except NotFoundError as error:
                tried.append(f"{where}: {error}")
        raise InputError(self._missing(tried), "dataset=", "data_dir")

    def _attempts(self, request: Request) -> Iterator[tuple[str, Callable[[], Found]]]:
        folder, known = request.data_dir, None
        if self.tfds is not None:
            from tasks import tfds_source  # which imports this module

            known = tfds_source.Known(self.tfds, folder, self.tfds_transposed, request.seed)
            yield f"{self.tfds} prepared by TFDS in {known.folder}", known.prepared
        if self.publisher is not None and folder is not None:
            yield (
                f"the publisher's files in {folder}",
                functools.partial(self.publisher, folder, request),
            )
        if known is not None:
            yield f"download by TFDS into {known.folder}", known.downloaded

    def _missing(self, tried: list[str]) -> str:
        lines = [f"The data of dataset={self.name} was not found. Tried:"]
        lines += [f"  - {attempt}" for attempt in tried or ["nothing: no data_dir was given"]]
        if self.publisher is None:
            lines.append(
                "Prepare it with TFDS on a computer with internet, copy that folder here and give "
                f"it as data_dir (see {self.home})."
            )
        else:
            if self.tfds is None:
                lines.append("TFDS does not have this data set, so it is not downloaded.")
            lines.append(f"Get {self.files} from {self.home} and give the folder as data_dir.")
        lines.append(
            f"To go on without: dataset={self.stand_in} is embedded and has the same shape."
            if self.stand_in
            else "To go on without: no embedded data set has this shape; your own images work with "
            "dataset=image_folder, your own arrays with dataset=npz."
        )
        return "\n".join(lines)


def read(
    found: Found, request: Request, preprocess: Preprocess, image_size: int | None = None
) -> Loaded:
    """Brings what the request asks for into memory."""
    chosen = subset_positions(found.train.num_examples, found.test.num_examples, request)
    size = request.image_size or image_size
    parts = []
    for part, positions in zip((found.train, found.test), chosen, strict=True):
        if request.labels_only:
            y = part.labels(positions)
            parts.append(Examples(np.empty((len(y), 0), np.uint8), y))
            continue
        try:
            parts.append(part.examples(positions, size, request.stream))
        except MemoryError:
            raise InputError(
                f"{part.num_examples:,} images do not fit into memory. Received: subset="
                f"{request.subset}, image_size={request.image_size}. Lower one of them.",
                *("subset=", "image_size="),
            ) from None
    client_id = found.client_id
    if client_id is not None and chosen[0] is not None:
        client_id = client_id[chosen[0]]
    return Loaded(parts[0], parts[1], found.class_names, preprocess, found.where, client_id)


def in_memory(x: np.ndarray, y: np.ndarray) -> Part:
    """Examples that were read in one piece."""

    def labels(positions: Positions) -> np.ndarray:
        return y if positions is None else y[positions]

    def examples(positions: Positions, size: int | None, stream: str) -> Examples:
        refuse_streaming(stream)
        chosen = x if positions is None else x[positions]
        return Examples(resized(chosen, size), labels(positions))

    return Part(len(y), labels, examples)


def refuse_streaming(stream: str) -> None:
    """For data that can only be read in one piece."""
    if stream == "always":
        raise InputError(
            "stream=always is for images in single files, and this data set is read in one "
            "piece. Remove it.",
            "stream=",
        )


def in_files(
    y: np.ndarray, read: images.Read, size: int, max_pixels: int = images.MAX_PIXELS
) -> Part:
    """Examples whose images are decoded when asked for.

    Args:
        y: the labels.
        read: the content of the file at a position, and its name.
        size: the size if nobody asks for another.
        max_pixels: the largest image that is decoded.
    """

    def labels(positions: Positions) -> np.ndarray:
        return y if positions is None else y[positions]

    def examples(positions: Positions, asked: int | None, stream: str) -> Examples:
        chosen = np.arange(len(y)) if positions is None else positions
        x = images.stored(
            lambda number: read(int(chosen[number])),
            len(chosen),
            asked or size,
            max_pixels=max_pixels,
        )
        too_large = math.prod(x.shape) > STREAM_BYTES
        if stream == "always" or (stream == "auto" and too_large):
            return Examples(x, y[chosen])
        return Examples(x.in_memory(), y[chosen])

    return Part(len(y), labels, examples)


def resized(x: np.ndarray, size: int | None) -> np.ndarray:
    """uint8 images [n, height, width, channels], resampled bilinearly to squares of this size."""
    if size is None or x.shape[1:3] == (size, size):
        return x
    result = np.empty((len(x), size, size, x.shape[3]), np.uint8)
    for image, place in zip(x, result, strict=True):
        picture = Image.fromarray(image if x.shape[3] == 3 else image[..., 0])
        place[...] = np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR)).reshape(
            place.shape
        )
    return result


def require(there: bool, folder: Path) -> None:
    """Raises `NotFoundError` unless the publisher's files are ``there``."""
    if not there:
        exists = os.path.exists(folder)
        raise NotFoundError("they are not there" if exists else "there is no such folder")


def array_files(
    holds: Callable[[Path], bool],
    read: Callable[[Path], tuple[np.ndarray, ...]],
    class_names: tuple[str, ...],
    called: str = "files",
) -> Callable[[Path, Request], Found]:
    """A publisher of files that are read as four arrays.

    Args:
        holds: whether the files are in a folder.
        read: (x_train, y_train, x_test, y_test) of a folder.
        class_names: one name a label.
        called: what to call the files.
    """

    def publisher(folder: Path, request: Request) -> Found:
        del request
        require(holds(folder), folder)
        x_train, y_train, x_test, y_test = read(folder)
        return Found(
            in_memory(x_train, y_train),
            in_memory(x_test, y_test),
            class_names,
            f"the publisher's {called} in {folder}",
        )

    return publisher


def idx_files(
    kind: str, class_names: tuple[str, ...], others: dict[str, tuple[int, ...]] | None = None
) -> Callable[[Path, Request], Found]:
    """A publisher of IDX files.

    Args:
        kind: as for `idx.read_pairs`.
        class_names: one name a label.
        others: data sets whose files have the same names, with the labels that their training
            files begin with, so that one is never taken for another.
    """

    def read(folder: Path) -> tuple[np.ndarray, ...]:
        arrays = idx.read_pairs(folder, kind)
        for other, start in (others or {}).items():
            if tuple(arrays[1][: len(start)]) == start:
                raise InputError(
                    f"{folder}: received the files of {other}, which have the same names; expected "
                    f"those of {kind}. Use dataset={other} or another data_dir.",
                    *("dataset=", "data_dir"),
                )
        return arrays

    return array_files(lambda folder: idx.holds(folder, kind), read, class_names, "IDX files")
