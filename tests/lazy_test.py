"""TensorFlow and Keras are loaded when they are first used, and what a run may be is known without.

The program that looks is run in a process of its own: this one has loaded everything.
"""

import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from tf_fedsam import lazy
from tf_fedsam.algorithms.fedsam import FedSAM
from tf_fedsam.client import ClientModel

KNOWN = """
import sys
import tasks, tf_fedsam
from tf_fedsam import models
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.runs import task
config = tf_fedsam.RunConfig(algo="fedwmsam", hparams={"rho": 0.2}, model="resnet18").resolve()
assert config.hparams["rho"] == 0.2 and len(all_algorithms()) > 20 and len(task.all_tasks()) > 5
assert all(models.options(name) for name in models.names())
for name in (*all_algorithms(), *task.all_tasks(), *models.names(), "sharpness", "lr"):
    assert name in tf_fedsam.describe(name)
assert not {"tensorflow", "keras"} & set(sys.modules), "loaded"
from tf_fedsam.client import ClientModel
assert "tensorflow" not in sys.modules
"""


def test_what_a_run_may_be_is_known_without_tensorflow():
    subprocess.run([sys.executable, "-c", KNOWN], check=True)


def test_they_are_the_modules():
    assert lazy.tf.constant is tf.constant
    assert lazy.keras.layers.Dense is keras.layers.Dense
    with pytest.raises(AttributeError, match="nothing"):
        _ = lazy.tf.nothing


def test_a_client_is_a_keras_model_of_its_class():
    """The class becomes one when the first object is made."""
    network = keras.Sequential([keras.Input([2]), keras.layers.Dense(3)])
    one, other = (FedSAM.Client(network) for _ in range(2))
    for client in (one, other):
        assert isinstance(client, keras.Model)
        assert isinstance(client, FedSAM.Client)
        assert isinstance(client, ClientModel)
    assert type(one) is type(other)
    assert type(one).__name__ == FedSAM.Client.__name__
