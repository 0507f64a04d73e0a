"""The global model in forms that need nothing of this package.

Everything is written beside its name and renamed into place.

``saved_model/``: loads with ``tf.saved_model.load``. Call it with a batch of raw images, uint8 or
float32 in the raw scale of the data set (0..255 for uint8 images); it normalises them and gives
``{"logits": ..., "probabilities": ...}``. Signatures ``serving_default`` (float32) and
``serving_uint8``.

``model.keras``: the plain Keras network. It takes inputs that are already normalised.
"""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam.data.federated_dataset import Preprocess
from tf_fedsam.state.files import sync_file, sync_folder


def save_model(network: keras.Model, preprocess: Preprocess, folder: pathlib.Path) -> None:
    """Writes ``saved_model/`` and ``model.keras`` into the folder."""
    with _beside(folder / "model.keras") as path:
        network.save(path)
    shape = [None, *network.inputs[0].shape[1:]]

    @tf.function(autograph=False)
    def serve(images):
        logits = tf.cast(network(preprocess(images), training=False), tf.float32)
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    module = tf.Module()
    module.weights = [v.value for v in network.variables]
    module.__call__ = serve
    signatures = {
        name: serve.get_concrete_function(tf.TensorSpec(shape, dtype, name="images"))
        for name, dtype in (("serving_default", tf.float32), ("serving_uint8", tf.uint8))
    }
    with _beside(folder / "saved_model") as path:
        tf.saved_model.save(module, str(path), signatures=signatures)


def save_weights(weights: list[np.ndarray], path: pathlib.Path) -> None:
    """Writes arrays ``w0, w1, ...`` in the order of the model's trainable variables."""
    with _beside(path) as beside, beside.open("wb") as file:
        np.savez(file, allow_pickle=False, **{f"w{i}": w for i, w in enumerate(weights)})


@contextlib.contextmanager
def _beside(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A name to write a file or a folder under, which then takes the place of ``path``.

    Raises:
        OSError: it could not be written, whatever TensorFlow calls that.
    """
    beside = path.with_name(f".new.{path.name}")  # keeps the suffix, which Keras looks at
    try:
        _remove(beside)
        yield beside
        for file in beside.rglob("*") if beside.is_dir() else [beside]:
            if file.is_file():
                sync_file(file)
        if beside.is_dir():
            _remove(path)  # a folder cannot be replaced in one step
        os.replace(beside, path)
        sync_folder(path.parent)
    except tf.errors.OpError as error:
        raise OSError(None, error.message.splitlines()[0], str(path)) from error
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        _remove(beside)


def _remove(path: pathlib.Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
