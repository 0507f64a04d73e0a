"""Multi-layer perceptrons: the multinomial regression and the "2NN" of McMahan et al. 2017
(arXiv:1602.05629), as in FL-Simulator (`Linear`, `mnist_2NN`, `emnist_NN`).

mlp on 28 x 28 x 1, 10 classes      output   parameters
  flatten                              784
  dense 200, ReLU                      200      157,000
  dense 200, ReLU                      200       40,200
  dense 10 (logits)                     10        2,010
                                                199,210

linear is the same without hidden layers: 7,850. hidden_units=(100, 100) is emnist_NN: 89,610.
"""

from __future__ import annotations

from tf_fedsam.lazy import keras
from tf_fedsam.models import blocks
from tf_fedsam.models.checks import Sizes
from tf_fedsam.models.initialisers import Init


def mlp(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    hidden_units: Sizes = (200, 200),
    init: Init = "torch",
) -> keras.Model:
    """ReLU layers of `hidden_units` units each, then the logits; takes inputs of any shape."""
    return _perceptron("mlp", input_shape, num_classes, hidden_units, init)


def linear(input_shape: tuple[int, ...], num_classes: int, *, init: Init = "torch") -> keras.Model:
    """Multinomial logistic regression: a perceptron without hidden layers."""
    return _perceptron("linear", input_shape, num_classes, (), init)


def _perceptron(
    name: str,
    input_shape: tuple[int, ...],
    num_classes: int,
    hidden_units: tuple[int, ...],
    init: Init,
) -> keras.Model:
    inputs = keras.Input(input_shape, name="inputs")
    x = keras.layers.Flatten(name="flatten")(inputs)
    for number, units in enumerate(hidden_units, start=1):
        x = blocks.dense(x, units, init, f"dense{number}", activation="relu")
    return keras.Model(inputs, blocks.dense(x, num_classes, init, "logits"), name=name)
