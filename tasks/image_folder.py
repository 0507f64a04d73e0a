"""A user's own images: ``--dataset=image_folder --data_dir=FOLDER``.

    FOLDER/train/CLASS/*.jpg  with  FOLDER/test/CLASS/*.jpg  (or val/, validation/)
    FOLDER/CLASS/*.jpg        a fifth of each class becomes the test set
    FOLDER/DOMAIN/CLASS/*.jpg the domains can be the clients: --partition=natural

JPEG and PNG. Images become RGB squares of ``--image_size``: by default their own size if they are
squares of one size up to 256 (a sample is looked at), else 64 x 64.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tasks import sources
from tasks.base import Loaded, Request, Task, refuse
from tasks.formats import image_folder, images
from tasks.formats.files import read_bytes
from tasks.sources import Found, Part
from tf_fedsam.data import augment
from tf_fedsam.data.federated_dataset import Preprocess
from tf_fedsam.errors import InputError

DEFAULT_SIZE = 64
MAX_OWN_SIZE = 256  # larger images are not kept in memory as they are unless the user says so
SAMPLE = 64


def load(request: Request) -> Loaded:
    refuse(request, "image_folder", "data_file")
    if request.data_dir is None:
        raise InputError(
            "dataset=image_folder reads images from train/CLASS/*.jpg (or .png) of a folder. "
            "Received: no data_dir. Add data_dir=FOLDER.",
            *("dataset=", "data_dir"),
        )
    found = find(request.data_dir, request.seed, request.image_size)
    return sources.read(found, request, Preprocess(1 / 255, mean=(0.5,), std=(0.5,)))


def find(folder: Path, seed: int, image_size: int | None) -> Found:
    """The images below a folder; domains, where there are some, are the natural clients."""
    listed = image_folder.scan(folder, seed=seed)
    size = image_size or own_size(listed.train.files) or DEFAULT_SIZE
    where = f"the images in {folder}, as {size} x {size}"
    if listed.num_ignored:
        where += f" ({listed.num_ignored:,} other files left out)"
    client_id = None
    if listed.domain_names:
        client_id = np.asarray(listed.domain_names)[listed.train.domains]

    def part(split: image_folder.Split) -> Part:
        return sources.in_files(split.labels, image_folder.reader(split.files), size)

    return Found(part(listed.train), part(listed.test), listed.class_names, where, client_id)


def own_size(files: Sequence[str]) -> int | None:
    """The size of the images if all of a sample are squares of one moderate size."""
    step = max(1, len(files) // SAMPLE)
    sizes = {
        images.dimensions(read_bytes(file, images.MAX_FILE_BYTES), file) for file in files[::step]
    }
    width, height = sizes.pop()
    return width if not sizes and width == height <= MAX_OWN_SIZE else None


TASK = Task(
    name="image_folder",
    title="your own images",
    load=load,
    settings={"model": "resnet18", "num_clients": 10, "min_cohort": 5, "rounds": 50},
    augment=augment.flip(),
)
