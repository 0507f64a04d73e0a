"""The global model in forms that need nothing of this package.

``saved_model/``: loads with ``tf.saved_model.load``. Call it with a batch of raw images, uint8 or
float32 in the raw scale of the data set (0..255 for uint8 images); it normalises them and gives
``{"logits": ..., "probabilities": ...}``. Signatures ``serving_default`` (float32) and
``serving_uint8``.

``model.keras``: the plain Keras network. It takes inputs that are already normalised.
"""

import pathlib

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam.data.federated_dataset import Preprocess


def save_model(network: keras.Model, preprocess: Preprocess, folder: pathlib.Path) -> None:
    """Writes ``saved_model/`` and ``model.keras`` into the folder."""
    network.save(folder / "model.keras")
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
    tf.saved_model.save(module, str(folder / "saved_model"), signatures=signatures)


def save_weights(weights: list[np.ndarray], path: pathlib.Path) -> None:
    """Writes arrays ``w0, w1, ...`` in the order of the model's trainable variables."""
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **{f"w{i}": w for i, w in enumerate(weights)})
