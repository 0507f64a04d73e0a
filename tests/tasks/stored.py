"""Small data sets on disk, as their publishers and TFDS store them."""

import io
import pathlib

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image


def encoded(image: np.ndarray, form: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image.squeeze()).save(buffer, form)
    return buffer.getvalue()


def write_images(folder: pathlib.Path, images: np.ndarray, form: str = "png") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(images):
        (folder / f"{number}.{form}").write_bytes(encoded(image))


def some_images(count: int, height: int = 28, width: int = 28, channels: int = 1, seed: int = 0):
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (count, height, width, channels), np.uint8)


def prepare_tfds(
    folder: pathlib.Path,
    name: str,
    splits: dict[str, tuple[list[np.ndarray] | np.ndarray, np.ndarray]],
    *,
    num_classes: int = 10,
    shape: tuple[int | None, ...] = (28, 28, 1),
    config: str | None = None,
    version: str = "3.0.1",
    file_format: str = "tfrecord",
) -> None:
    """A data set of images and classes as TFDS prepares it; ``splits`` holds images and labels."""
    features = tfds.features.FeaturesDict(
        {
            "image": tfds.features.Image(shape=shape),
            "label": tfds.features.ClassLabel(num_classes=num_classes),
        }
    )

    def examples(images, labels):
        return [
            (number, {"image": image, "label": int(label)})
            for number, (image, label) in enumerate(zip(images, labels, strict=True))
        ]

    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version=version,
        features=features,
        split_datasets={split: examples(*content) for split, content in splits.items()},
        config=config,
        data_dir=str(folder),
        file_format=file_format,
        disable_shuffling=True,
    )


def as_multiset(images: np.ndarray) -> list[bytes]:
    """Images for a comparison that does not mind their order."""
    return sorted(image.tobytes() for image in images)


def no_network(*_, **__):
    import requests

    raise requests.ConnectionError("tests do not use the network")


tf.get_logger().setLevel("ERROR")
