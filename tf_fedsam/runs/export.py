"""The global model in forms that need nothing of this package.

Everything is written beside its name and renamed into place. All forms but the first take raw
images, in the scale of the data set (0..255 for uint8 images), and normalise them by themselves.

``network.keras``: the plain Keras network, for inputs that are already normalised. Always there.

``model.keras``: the same with the normalisation as its first layer; gives logits.

``saved_model/``: loads with ``tf.saved_model.load``. Call it with a batch of raw images, uint8 or
float32; it gives ``{"logits": ..., "probabilities": ...}``. Signatures ``serving_default``
(float32) and ``serving_uint8``.

``serving/NAME/1/``: a SavedModel in the folder that TensorFlow Serving asks for; its
``serving_default`` takes what the data set has, uint8 for images.

``model.tflite``, ``model.onnx``: float32 images in, the same two outputs.
"""

import contextlib
import os
import pathlib
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam.data.arrays import read_npz
from tf_fedsam.data.federated_dataset import Preprocess
from tf_fedsam.errors import InputError
from tf_fedsam.runs.forms import DEFAULT, FORMS, NETWORK, WEIGHTS, Form, read_forms
from tf_fedsam.state.files import sync_file, sync_folder


def save_model(
    network: keras.Model,
    preprocess: Preprocess,
    folder: pathlib.Path,
    forms: Sequence[Form] = read_forms(DEFAULT),
    *,
    name: str = "model",
    dtype: str = "uint8",
) -> None:
    """Writes the network, and the model in some forms, into the folder.

    Args:
        network: for normalised inputs.
        preprocess: from raw inputs to normalised ones.
        folder: of the run.
        forms: which.
        name: of the model in ``serving/``.
        dtype: of the data set's raw inputs.
    """
    with _beside(folder / NETWORK) as path:
        network.save(path)
    served = _Served(network, preprocess, name, dtype)
    for form in forms:
        with _beside(folder / form.file) as path:
            _WRITERS[form.name](served, path)


def remove_others(folder: pathlib.Path, forms: Sequence[Form]) -> None:
    """Removes forms of an earlier end of the run: they are another model."""
    for form in FORMS.values():
        if form not in forms:
            _remove(folder / form.file)


def with_normalisation(network: keras.Model, preprocess: Preprocess) -> keras.Model:
    """The network with the normalisation as its first layer, of Keras' own layers."""
    scales = [preprocess.scale / std for std in preprocess.std]
    offsets = [-mean / std for mean, std in zip(preprocess.mean, preprocess.std, strict=True)]
    one = len(scales) == 1
    inputs = keras.Input(network.inputs[0].shape[1:], name="images", dtype="float32")
    x = keras.layers.Rescaling(
        scales[0] if one else scales, offsets[0] if one else offsets, name="normalise"
    )(inputs)
    logits = network(x)
    if keras.backend.standardize_dtype(logits.dtype) != "float32":
        logits = keras.layers.Activation("linear", dtype="float32", name="logits")(logits)
    return keras.Model(inputs, logits, name=f"{network.name}_for_raw_inputs")


class _Served:
    """A network that is about to be written.

    Args:
        network, preprocess, name, dtype: as for :func:`save_model`.
    """

    def __init__(self, network: keras.Model, preprocess: Preprocess, name: str, dtype: str):
        self.network = network
        self.preprocess = preprocess
        self.name = name
        self.dtype = tf.uint8 if dtype == "uint8" else tf.float32
        self.shape = [None, *network.inputs[0].shape[1:]]

        @tf.function(autograph=False)
        def serve(images):
            logits = tf.cast(network(preprocess(images), training=False), tf.float32)
            return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

        self.serve = serve

    def spec(self, dtype: tf.DType) -> tf.TensorSpec:
        return tf.TensorSpec(self.shape, dtype, name="images")

    def save(self, path: pathlib.Path, signatures: dict[str, tf.DType]) -> None:
        """A SavedModel with signatures for inputs of these types."""
        module = tf.Module()
        module.weights = [v.value for v in self.network.variables]
        module.__call__ = self.serve
        functions = {
            name: self.serve.get_concrete_function(self.spec(dtype))
            for name, dtype in signatures.items()
        }
        tf.saved_model.save(module, str(path), signatures=functions)


def _save_keras(served: _Served, path: pathlib.Path) -> None:
    with_normalisation(served.network, served.preprocess).save(path)


def _save_saved_model(served: _Served, path: pathlib.Path) -> None:
    served.save(path, {"serving_default": tf.float32, "serving_uint8": tf.uint8})


def _save_serving(served: _Served, path: pathlib.Path) -> None:
    place = path / served.name / "1"
    place.mkdir(parents=True)
    signatures = {"serving_default": served.dtype}
    served.save(place, signatures | {"serving_float32": tf.float32, "serving_uint8": tf.uint8})


def _save_tflite(served: _Served, path: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Converted from a file: from functions, it takes variables for what they begin with.
        served.save(pathlib.Path(folder), {"serving_default": tf.float32})
        content = tf.lite.TFLiteConverter.from_saved_model(folder).convert()
    path.write_bytes(content)


def _save_onnx(served: _Served, path: pathlib.Path) -> None:
    import tf2onnx

    signature = [served.spec(tf.float32)]
    model, _ = tf2onnx.convert.from_function(served.serve, input_signature=signature, opset=17)
    path.write_bytes(model.SerializeToString())


_WRITERS: dict[str, Any] = {
    "keras": _save_keras,
    "saved_model": _save_saved_model,
    "serving": _save_serving,
    "tflite": _save_tflite,
    "onnx": _save_onnx,
}


def save_weights(weights: list[np.ndarray], path: pathlib.Path) -> None:
    """Writes arrays ``w0, w1, ...`` in the order of the model's trainable variables."""
    with _beside(path) as beside, beside.open("wb") as file:
        np.savez(file, allow_pickle=False, **{f"w{i}": w for i, w in enumerate(weights)})


def read_model(network: keras.Model, folder: pathlib.Path) -> None:
    """Puts the model of a run's folder into a network; only numbers are read from its files."""
    path = network_file(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # Keras skips what it does not find
            network.load_weights(path)
    except (
        *(OSError, ValueError, KeyError, TypeError, AttributeError, UserWarning),
        zipfile.BadZipFile,
    ) as error:
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{path} could not be read as weights of the run's model: {line} Expected: the file "
            f"that the run wrote."
        ) from None
    exported = read_npz(folder / WEIGHTS)
    weights = [v.numpy() for v in network.trainable_variables]
    same = len(exported) == len(weights) and all(
        np.array_equal(w, exported.get(f"w{i}", np.zeros(0)), equal_nan=True)
        for i, w in enumerate(weights)
    )
    if not same:
        raise InputError(
            f"{path} and final_weights.npz beside it hold different weights. Expected: the files "
            f"that one run wrote. Put back what was changed, or run it again."
        )


def network_file(folder: pathlib.Path) -> pathlib.Path:
    """Where the plain network of a run is; the first runs called it ``model.keras``."""
    path = folder / NETWORK
    return path if path.exists() else folder / FORMS["keras"].file


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
