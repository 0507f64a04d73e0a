"""Short runs to look at."""

import json

import tasks  # noqa: F401  makes the data sets known
import tf_fedsam
from tests.launch.running import toy_file

OWN_MODEL = """
import keras

def net(input_shape, num_classes, units=6):
    inputs = keras.Input(input_shape)
    x = keras.layers.Dense(units, activation="relu")(inputs)
    x = keras.layers.BatchNormalization()(x)
    return keras.Model(inputs, keras.layers.Dense(num_classes)(x))
"""
NAMES = ("avg", "sam", "own")


def make(folder):
    """Runs of the linear model, and of an own model with BatchNorm."""
    own = folder / "own.py"
    own.write_text(OWN_MODEL)
    common = tf_fedsam.RunConfig(
        dataset="npz",
        data_file=str(toy_file(folder)),
        partition="given",
        participation=0.5,
        rounds=2,
        devices="cpu:2",
        probes="none",
        model="linear",
    )
    changes = {
        "avg": {"algo": "fedavg"},
        "sam": {"algo": "fedsam", "hparams.rho": 0.5, "seed": 1},
        "own": {"model": f"{own}:net", "lr": 0.05},
    }
    for name in NAMES:
        config = tf_fedsam.RunConfig.from_values({**common.given, **changes[name]})
        tf_fedsam.run(config, folder / name, verbose=False)
    return folder


def change_config(run, change):
    config = json.loads((run / "config.json").read_text())
    change(config)
    (run / "config.json").write_text(json.dumps(config))
