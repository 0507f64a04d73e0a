"""A user's own arrays: ``--dataset=npz --data_file=F.npz``.

The file holds ``x_train``, ``y_train``, ``x_test``, ``y_test`` and optionally ``client_id``, one id
(integer or string) for every training example. uint8 inputs are divided by 255, others are taken as
they are. Pickled objects are refused.
"""

import numpy as np

from tasks.base import Loaded, Request, Task, refuse
from tasks.sources import Found, in_memory, read
from tf_fedsam.data.arrays import read_npz
from tf_fedsam.data.federated_dataset import Examples, Preprocess, check_alike, check_examples
from tf_fedsam.errors import InputError

REQUIRED = ("x_train", "y_train", "x_test", "y_test")
CLIENT_ID = "client_id"


def load(request: Request) -> Loaded:
    refuse(request, "npz", "data_dir", "image_size")
    if request.data_file is None:
        raise InputError(
            f"dataset=npz reads a file of arrays {', '.join(REQUIRED)}. "
            f"Received: no data_file. Make one with numpy.savez and add data_file=F.npz.",
            *("dataset=", "data_file"),
        )
    arrays = read_npz(request.data_file, REQUIRED, (CLIENT_ID,))
    train = Examples(arrays["x_train"], _labels(arrays["y_train"]))
    test = Examples(arrays["x_test"], _labels(arrays["y_test"]))
    check_examples(train, "training")
    check_examples(test, "test")
    check_alike(train, test)
    num_classes = int(max(train.y.max(), test.y.max())) + 1
    if num_classes > 10 * len(train) or num_classes > 100_000:
        raise InputError(
            f"Labels must be 0..C-1 for C classes. Received a label {num_classes - 1} among "
            f"{len(train)} training examples. Renumber the classes from 0."
        )
    missing = np.flatnonzero(np.bincount(train.y, minlength=num_classes) == 0)
    if missing.size:
        raise InputError(
            f"Labels must be 0..C-1, each in the training examples. Received labels up to "
            f"{num_classes - 1} without {missing[:5].tolist()}. Renumber the classes from 0."
        )
    client_id = arrays.get(CLIENT_ID)
    if client_id is not None and client_id.shape != train.y.shape:
        raise InputError(
            f"client_id must have one entry for each of the {len(train)} training examples. "
            f"Received: shape {client_id.shape}."
        )
    found = Found(
        in_memory(arrays["x_train"], train.y),
        in_memory(arrays["x_test"], test.y),
        tuple(str(c) for c in range(num_classes)),
        str(request.data_file),
        client_id,
    )
    return read(found, request, Preprocess(1 / 255 if train.x.dtype == np.uint8 else 1.0))


def _labels(y: np.ndarray) -> np.ndarray:
    """Whole numbers may come as floats."""
    if y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.round(y)).all():
        return y.astype(np.int64)
    return y


TASK = Task(
    name="npz",
    title="arrays of a file",
    load=load,
    settings={"model": "mlp", "num_clients": 10, "min_cohort": 5, "rounds": 50},
)
