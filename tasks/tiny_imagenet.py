"""Tiny-ImageNet: 110,000 photographs, 64 x 64 colour, 200 classes.

Le, Yang. Tiny ImageNet Visual Recognition Challenge. 2015. The published test images have no
labels; the validation images are the test set here, as in the papers.

Settings: those of FL-Simulator (https://github.com/woodenchild95/FL-Simulator), the code that the
papers of FedInit, FedLESAM and FedWMSAM build on. FedNSAM's Table 3 fine-tunes transformers on
224 x 224 images, which are normalised as ImageNet: ``--image_size=224 --model=vit_b16 --alpha=0.1
--participation=0.05 --sampling=fixed --rounds=100 --lr=0.01 --lr_decay=0.99 --batch_size=16`` and
the pre-trained weights of the model's options.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tasks import protocol
from tasks.base import Loaded, Request, Task
from tasks.formats import tiny_imagenet
from tasks.formats.images import Read
from tasks.sources import Found, Part, Source, in_files, require
from tf_fedsam.data import augment
from tf_fedsam.data.federated_dataset import Preprocess

IMAGENET = Preprocess(1 / 255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
TRANSFORMER_SIZE = 224


def publisher(folder: Path, request: Request) -> Found:
    del request
    require(tiny_imagenet.holds(folder), folder)
    index = tiny_imagenet.index(folder)
    read_train, read_test = tiny_imagenet.readers(folder, index)

    def part(references: Sequence[tiny_imagenet.Reference], read: Read) -> Part:
        labels = np.asarray([label for _, label in references], np.int32)
        return in_files(labels, read, 64, tiny_imagenet.MAX_IMAGE_PIXELS)

    return Found(
        part(index.train, read_train),
        part(index.test, read_test),
        index.class_names,
        f"the publisher's files in {index.source}; its validation images are the test set",
    )


SOURCE = Source(
    name="tiny_imagenet",
    home="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    files="tiny-imagenet-200.zip (packed or unpacked)",
    preprocess=Preprocess(1 / 255, mean=(0.5,), std=(0.5,)),
    publisher=publisher,
)


def load(request: Request) -> Loaded:
    loaded = SOURCE.load(request)
    if request.image_size == TRANSFORMER_SIZE:
        return dataclasses.replace(loaded, preprocess=IMAGENET)
    return loaded


TASK = Task(
    name="tiny_imagenet",
    title="Tiny-ImageNet",
    load=load,
    settings={
        **protocol.SETTINGS,
        "model": "resnet18",
        "rounds": 1000,
        "alpha": 0.6,
        "classes_per_client": 20,
    },
    hparams={"fedgamma": {"rho": 0.01}, "fednsam": {"rho": 0.1, "server_momentum": 0.85}},
    algorithm_settings=protocol.ALGORITHM_SETTINGS,
    augment=augment.compose(augment.flip(), augment.pad_and_crop(8, probability=0.5)),
)
