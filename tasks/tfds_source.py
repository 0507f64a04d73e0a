"""Image-classification data sets of TensorFlow Datasets, prepared on disk or downloaded.

Nothing here reaches the network except `Known.downloaded`, and that only after the servers of the
data set have answered, since TFDS itself would retry for minutes before it gives up.
"""

from __future__ import annotations

import contextlib
import functools
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tasks.formats.files import reason
from tasks.sources import Found, NotFoundError, Part, Positions, refuse_streaming
from tf_fedsam import rng
from tf_fedsam.data.federated_dataset import Examples
from tf_fedsam.errors import InputError
from tf_fedsam.lazy import tf

LABELS_BATCH = 4096
BATCH_BYTES = 1 << 22  # of decoded images; several batches are in the making at a time
PROBE_SECONDS = 10
TEST_SPLITS = ("test", "validation", "val")
TEST_FRACTION = 0.2
DEFAULT_SIZE = 64  # of images that differ in size


class Known:
    """A data set by its name in TFDS, such as "mnist" or "emnist/byclass".

    Args:
        name: with a config after a slash and a version after a colon, where wanted.
        folder: what TFDS calls ``data_dir``; its own default for ``None``.
        transposed: rows and columns of the images are exchanged back.
        seed: decides which examples are set aside where there is no test split.
    """

    def __init__(self, name: str, folder: Path | None, transposed: bool = False, seed: int = 0):
        self._name = name
        self.folder = Path(_tfds().core.constants.DATA_DIR if folder is None else folder)
        self._transposed = transposed
        self._seed = seed

    def prepared(self) -> Found:
        """The data set as it lies in the folder, made by whatever version of TFDS."""
        where = f"prepared by TFDS in {self.folder}"
        with _broken_is_an_error(f"{self._name} {where}"):
            builder = self._builder_from_files()
            if builder is None:
                raise NotFoundError("it is not there")
            return self._found(builder, where)

    def downloaded(self) -> Found:
        """The data set after TFDS has downloaded and prepared it in the folder."""
        tfds = _tfds()
        try:
            builder = tfds.builder(self._name, data_dir=str(self.folder))
            _probe(builder)
            builder.download_and_prepare(
                download_config=tfds.download.DownloadConfig(try_download_gcs=False)
            )
        except NotFoundError:
            raise
        except tfds.core.DatasetNotFoundError:
            raise NotFoundError("this version of TFDS does not know the data set") from None
        # No network, no space, a wrong checksum, a download by hand, a missing package: TFDS has no
        # common class for these.
        except Exception as error:
            raise NotFoundError(_words(error)) from None
        return self._found(builder, f"downloaded by TFDS into {self.folder}")

    def _builder_from_files(self) -> Any | None:
        tfds = _tfds()
        if (self.folder / "dataset_info.json").is_file():  # the folder of one version itself
            builder = tfds.builder_from_directory(str(self.folder))
            return builder if _base_name(self._name) == builder.name else None
        try:
            return tfds.core.read_only_builder.builder_from_files(
                self._name, data_dir=str(self.folder)
            )
        except tfds.core.DatasetNotFoundError:
            return None

    def _found(self, builder: Any, where: str) -> Found:
        where = f"{builder.info.full_name}, {where}"
        reader = Reader(builder, where, self._transposed)
        # A builder whose files are mocked does not know its splits.
        splits = list(builder.info.splits) or ["train", "test"]
        if "train" not in splits:
            raise InputError(
                f"{builder.info.full_name} of TFDS has no training split. Received: the splits "
                f"{', '.join(splits)}. Expected: a split 'train'. Choose another data set."
            )
        train = reader.part("train")
        for name in TEST_SPLITS:
            # Some test splits come without labels, as -1.
            if name in splits and reader.labels(name, None).min() >= 0:
                if name != "test":
                    where += f"; its {name} split is the test set"
                return Found(train, reader.part(name), reader.class_names, where)
        order = rng.generator(self._seed, "tfds test split").permutation(train.num_examples)
        num_test = max(1, int(TEST_FRACTION * len(order)))
        return Found(
            _some(train, np.sort(order[num_test:])),
            _some(train, np.sort(order[:num_test])),
            reader.class_names,
            f"{where}; {num_test:,} training examples set aside as the test set",
        )


class Reader:
    """Reads the images and labels of a prepared builder into arrays.

    Args:
        builder: of TFDS.
        what: describes it in messages.
        transposed: rows and columns of the images are exchanged back.

    Raises:
        InputError: it is not an image-classification data set, or its files are broken.
    """

    def __init__(self, builder: Any, what: str, transposed: bool = False):
        tfds = _tfds()
        self._builder = builder
        self._what = what
        self._transposed = transposed
        features = builder.info.features
        keys = builder.info.supervised_keys or ("image", "label")
        self._image, self._label = keys[0], keys[1]
        image, label = (
            features[key] if isinstance(key, str) and key in features else None for key in keys[:2]
        )
        if (
            not isinstance(image, tfds.features.Image)
            or not isinstance(label, tfds.features.ClassLabel)
            or image.shape[-1] not in (1, 3)
            or image.np_dtype != np.uint8
        ):
            raise InputError(
                f"{what}: not a set of images with one class each. "
                f"Received: {' '.join(str(features).split())[:300]}. Expected: 'image' of 1 or 3 "
                "uint8 channels and 'label', a class. Choose another data set."
            )
        self._features = {self._image: image, self._label: label}
        self._shape = tuple(image.shape)
        self.class_names = tuple(label.names)

    def part(self, split: str) -> Part:
        with _broken_is_an_error(self._what):
            files = self._files(split)
            count = len(self._decoded(split, self._label)) if files is None else files[1]
        return Part(
            count,
            lambda positions: self.labels(split, positions),
            lambda positions, size, stream: self.examples(split, positions, size, stream),
        )

    def labels(self, split: str, positions: Positions) -> np.ndarray:
        """Without decoding an image."""
        with _broken_is_an_error(self._what):
            batches = self._batches(split, LABELS_BATCH, (self._label,), lambda label: label)
            y = np.concatenate(list(batches.as_numpy_iterator())).astype(np.int32)
        return y if positions is None else y[positions]

    def examples(self, split: str, positions: Positions, size: int | None, stream: str) -> Examples:
        """One pass over the files, each batch straight into its place."""
        refuse_streaming(stream)
        if size is None and None in self._shape:
            size = DEFAULT_SIZE
        shape = self._shape if size is None else (size, size, self._shape[-1])
        if self._transposed:
            shape = (shape[1], shape[0], shape[2])
        batch_size = max(1, min(LABELS_BATCH, BATCH_BYTES // int(np.prod(shape))))

        def prepare(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            if size is not None and self._shape[:2] != (size, size):
                image = tf.image.resize(image, (size, size), antialias=True)
                image = tf.cast(tf.round(image), tf.uint8)
            if self._transposed:
                image = tf.transpose(image, (1, 0, 2))
            return tf.ensure_shape(image, shape), label

        part = self.part(split)
        if positions is None:
            positions = np.arange(part.num_examples)
        x = np.empty((len(positions), *shape), np.uint8)
        y = np.empty(len(positions), np.int32)
        start = 0
        with _broken_is_an_error(self._what):
            batches = self._batches(split, batch_size, (self._image, self._label), prepare)
            for images, labels in batches.as_numpy_iterator():
                low, high = np.searchsorted(positions, (start, start + len(labels)))
                rows = positions[low:high] - start
                x[low:high], y[low:high] = images[rows], labels[rows]
                start += len(labels)
        if start != part.num_examples:
            raise InputError(
                f"{self._what}: received {start:,} examples in the split {split!r}; expected "
                f"{part.num_examples:,}. Delete its folder and prepare it again."
            )
        return Examples(x, y)

    def _batches(
        self, split: str, batch_size: int, keys: tuple[str, ...], prepare: Callable[..., Any]
    ) -> tf.data.Dataset:
        """Batches of ``prepare(*features)`` in the order of the files, only ``keys`` decoded."""
        files = self._files(split)
        if files is None:
            dataset = self._decoded(split, *keys)
            dataset = dataset.map(lambda e: prepare(*(e[k] for k in keys)), tf.data.AUTOTUNE)
            return dataset.batch(batch_size).prefetch(1)
        # Parsing a batch at a time is several times faster than TFDS's own element by element.
        stored = {self._image: tf.string, self._label: tf.int64}
        spec = {key: tf.io.FixedLenFeature([], stored[key]) for key in keys}

        def decode(example: tuple[tf.Tensor, ...]) -> Any:
            decoded = (
                self._features[key].decode_example(value)
                for key, value in zip(keys, example, strict=True)
            )
            return prepare(*decoded)

        def parse(records: tf.Tensor) -> Any:
            example = tf.io.parse_example(records, spec)
            if keys == (self._label,):
                return prepare(example[self._label])
            return tf.map_fn(
                decode,
                tuple(example[key] for key in keys),
                fn_output_signature=(tf.uint8, tf.int64),
            )

        dataset = tf.data.TFRecordDataset(files[0]).batch(batch_size)
        return dataset.map(parse, tf.data.AUTOTUNE).prefetch(1)

    def _files(self, split: str) -> tuple[list[str], int] | None:
        """The record files of a split and its number of examples; ``None`` where TFDS is mocked."""
        info, tfds = self._builder.info, _tfds()
        if split not in info.splits:
            return None
        if info.file_format != tfds.core.FileFormat.TFRECORD:
            raise InputError(
                f"{self._what}: received files of the format {info.file_format.value}; expected "
                "tfrecord, which TensorFlow reads. Prepare it again in that format."
            )
        files = [str(path) for path in info.splits[split].filepaths]
        return files, info.splits[split].num_examples

    def _decoded(self, split: str, *keys: str) -> tf.data.Dataset:
        """The examples as TFDS decodes them."""
        tfds = _tfds()
        return self._builder.as_dataset(
            split=split,
            shuffle_files=False,
            decoders=tfds.decode.PartialDecoding(dict.fromkeys(keys, True)),
            read_config=tfds.ReadConfig(try_autocache=False, interleave_cycle_length=1),
        )


@functools.cache
def _tfds() -> Any:
    """TFDS, imported when it is needed and kept from looking for data in its cloud bucket."""
    import tensorflow_datasets as tfds

    tfds.core.utils.gcs_utils._is_gcs_disabled = True
    return tfds


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(reason(error).split())}"


def _base_name(name: str) -> str:
    return name.split("/")[0].split(":")[0]


def _some(part: Part, these: np.ndarray) -> Part:
    """The examples of a part at ``these`` ascending positions, as a part of its own."""
    inner = lambda positions: these if positions is None else these[positions]  # noqa: E731
    return Part(
        len(these),
        lambda positions: part.labels(inner(positions)),
        lambda positions, size, stream: part.examples(inner(positions), size, stream),
    )


def _probe(builder: Any) -> None:
    """Asks each server of the data set once whether it is there."""
    import requests

    urls = [url for url in builder.url_infos or () if url.startswith("http")]
    for server, url in {urllib.parse.urlsplit(url).netloc: url for url in urls}.items():
        try:
            requests.head(url, timeout=PROBE_SECONDS).close()
        except requests.RequestException as error:
            raise NotFoundError(f"no connection to {server} ({type(error).__name__})") from None


@contextlib.contextmanager
def _broken_is_an_error(what: str) -> Iterator[None]:
    try:
        yield
    except (InputError, NotFoundError):
        raise
    # TFDS and TensorFlow answer broken files with nearly every kind of exception.
    except Exception as error:
        raise InputError(
            f"{what}: cannot be read ({_words(error)}). "
            "Expected: a complete data set. Delete its folder and prepare it again."
        ) from None
