"""The "LeNet-5" of the federated literature (FL-Simulator, FedNSAM arXiv:2602.23827): the layout of
LeCun et al. 1998 with more filters, ReLU and max-pooling.

32 x 32 x 3, 10 classes             output          parameters
  conv 5x5, 64, valid, ReLU         28 x 28 x 64         4,864
  max-pool 2                        14 x 14 x 64
  conv 5x5, 64, valid, ReLU         10 x 10 x 64       102,464
  max-pool 2, flatten               1600
  dense 384, ReLU                   384                614,784
  dense 192, ReLU                   192                 73,920
  dense 10 (logits)                 10                   1,930
                                                       797,962
"""

from __future__ import annotations

from tf_fedsam.lazy import keras
from tf_fedsam.models import blocks
from tf_fedsam.models.checks import check_image
from tf_fedsam.models.initialisers import Init


def lenet5(input_shape: tuple[int, ...], num_classes: int, *, init: Init = "torch") -> keras.Model:
    """Two convolutions, each pooled, and two hidden layers."""
    check_image("lenet5", input_shape, least_side=16)  # ((16 - 4) / 2 - 4) / 2 = 1
    inputs = keras.Input(input_shape, name="inputs")
    x = blocks.conv(inputs, 64, 5, init, "conv1", activation="relu")
    x = keras.layers.MaxPooling2D(2, name="pool1")(x)
    x = blocks.conv(x, 64, 5, init, "conv2", activation="relu")
    x = keras.layers.MaxPooling2D(2, name="pool2")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = blocks.dense(x, 384, init, "dense1", activation="relu")
    x = blocks.dense(x, 192, init, "dense2", activation="relu")
    return keras.Model(inputs, blocks.dense(x, num_classes, init, "logits"), name="lenet5")
