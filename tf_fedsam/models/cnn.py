"""The EMNIST network of Reddi et al. 2021 (arXiv:2003.00295) and TensorFlow Federated, used by
Qu et al. 2022 (FedSAM, arXiv:2206.02618).

28 x 28 x 1, 62 classes             output          parameters
  conv 3x3, 32, valid, ReLU         26 x 26 x 32           320
  conv 3x3, 64, valid, ReLU         24 x 24 x 64        18,496
  max-pool 2                        12 x 12 x 64
  dropout 0.25, flatten             9216
  dense 128, ReLU                   128              1,179,776
  dropout 0.5
  dense 62 (logits)                 62                   7,998
                                                     1,206,590
"""

from __future__ import annotations

from tf_fedsam.lazy import keras
from tf_fedsam.models import blocks
from tf_fedsam.models.checks import DropRate, check_image
from tf_fedsam.models.initialisers import Init


def cnn(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    conv_dropout: DropRate = 0.25,
    dense_dropout: DropRate = 0.5,
    init: Init = "keras",
) -> keras.Model:
    """Two convolutions, one hidden layer, dropout before and after it."""
    check_image("cnn", input_shape, least_side=6)  # (6 - 2 - 2) / 2 = 1
    inputs = keras.Input(input_shape, name="inputs")
    x = blocks.conv(inputs, 32, 3, init, "conv1", activation="relu")
    x = blocks.conv(x, 64, 3, init, "conv2", activation="relu")
    x = keras.layers.MaxPooling2D(2, name="pool")(x)
    x = keras.layers.Dropout(conv_dropout, name="conv_dropout")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = blocks.dense(x, 128, init, "dense1", activation="relu")
    x = keras.layers.Dropout(dense_dropout, name="dense_dropout")(x)
    return keras.Model(inputs, blocks.dense(x, num_classes, init, "logits"), name="cnn")
