"""Small networks that planes go through."""

import keras
import numpy as np

from tf_fedsam.analysis.landscape.plane import Plane, Solution, filter_axes, random_directions
from tf_fedsam.data.federated_dataset import Examples

layers = keras.layers


def conv_net():
    """A convolution with BatchNorm, GroupNorm and a dense layer."""
    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(4, 3, name="conv"),
            layers.BatchNormalization(name="batch_norm"),
            layers.ReLU(),
            layers.GroupNormalization(2, name="group_norm"),
            layers.Flatten(),
            layers.Dense(3, name="logits"),
        ]
    )


def some_examples(count=37):
    generator = np.random.default_rng(1)
    x = generator.integers(0, 256, (count, 6, 6, 2), dtype=np.uint8)
    return Examples(x, generator.integers(0, 3, count))


def flat(arrays):
    return np.concatenate([a.astype(np.float64).ravel() for a in arrays])


def around(network, seed=0):
    shapes = [tuple(v.shape) for v in network.trainable_variables]
    directions = random_directions(shapes, seed)
    return Plane.around(Solution.of(network), directions, filter_axes(network))


def linear_net():
    return keras.Sequential([keras.Input((2,)), layers.Dense(2)])
