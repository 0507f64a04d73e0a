"""Any image-classification data set of TensorFlow Datasets: ``--dataset=tfds:NAME``.

NAME is what TFDS calls it, with a config after a slash and a version after a colon where wanted:
``tfds:kmnist``, ``tfds:emnist/letters``, ``tfds:svhn_cropped:3.0.0``. A data set that TFDS has
prepared in ``--data_dir`` is used, else TFDS downloads it. Its split "train" is cut into clients,
"test" (else "validation", else a fifth of the training examples) tests the global model. Images
that differ in size become 64 x 64 unless ``--image_size`` says otherwise.
"""

import re

from tasks.base import Task
from tasks.sources import Source
from tf_fedsam.data.federated_dataset import Preprocess
from tf_fedsam.errors import InputError

PREFIX = "tfds:"


def task(name: str) -> Task:
    """The data set ``tfds:NAME``."""
    inner = name.removeprefix(PREFIX)
    # No namespace before the name: those are fetched from other places.
    if not re.fullmatch(r"[a-z]\w*(/[\w.+=,-]+)?(:\d+(\.\d+){2})?", inner):
        raise InputError(
            f"dataset=tfds:NAME takes the name of a data set in TFDS. Received: {name!r}. "
            "Expected: such as tfds:kmnist, tfds:emnist/letters or tfds:kmnist:3.0.1.",
            "dataset=",
        )
    base = re.split("[/:]", inner)[0]
    source = Source(
        name=name,
        home=f"https://www.tensorflow.org/datasets/catalog/{base}",
        preprocess=Preprocess(scale=1 / 255, mean=(0.5,), std=(0.5,)),
        tfds=inner,
        tfds_transposed=base == "emnist",
    )
    return Task(
        name=name,
        title=f"{inner} of TFDS",
        load=source.load,
        settings={"model": "cnn", "rounds": 100},
    )
