"""VGG-11 (Simonyan and Zisserman 2015, arXiv:1409.1556) for small images, as in the code of FedNSAM
(arXiv:2602.23827): one hidden layer of 100 units for CIFAR-10 and of 256 for CIFAR-100.

32 x 32 x 3, 10 classes             output          parameters
  conv 3x3, 64, ReLU; pool 2        16 x 16 x 64         1,792
  conv 3x3, 128, ReLU; pool 2       8 x 8 x 128         73,856
  2 x conv 3x3, 256, ReLU; pool 2   4 x 4 x 256        885,248
  2 x conv 3x3, 512, ReLU; pool 2   2 x 2 x 512      3,539,968
  2 x conv 3x3, 512, ReLU; pool 2   1 x 1 x 512      4,719,616
  flatten, dense 100, ReLU          100                 51,300
  dense 10 (logits)                 10                   1,010
                                                     9,272,790

The authors end in a log-softmax before the cross-entropy, which changes nothing; here are logits.
FedInit names VGG-11 too but publishes none; `norm` gives the variants with GroupNorm or BatchNorm.
"""

from __future__ import annotations

from tf_fedsam.lazy import keras
from tf_fedsam.models import blocks
from tf_fedsam.models.blocks import Norm
from tf_fedsam.models.checks import Size, SizeOrAuto, check_groups, check_image
from tf_fedsam.models.initialisers import Init

_STAGES = ((1,), (2,), (4, 4), (8, 8), (8, 8))  # filters in units of `width`, one pool per stage


def vgg11(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    hidden_units: SizeOrAuto = 0,
    norm: Norm = "none",
    groups: Size = 2,
    width: Size = 64,
    init: Init = "torch",
) -> keras.Model:
    """Eight convolutions in five pooled stages and one hidden layer.

    Args:
        input_shape: (height, width, channels), at least 32 x 32.
        num_classes: number of logits.
        hidden_units: of the hidden layer; 0 means the authors' 100 for up to 10 classes, else 256.
        norm: "none", or "group" or "batch" between each convolution and its ReLU; "batch_torch"
            keeps the unbiased variance of batches for tests, as torch does.
        groups: of GroupNorm.
        width: filters of the first stage.
        init: "torch" or "keras", see `initialisers`.
    """
    check_image("vgg11", input_shape, least_side=32)
    if norm == "group":
        check_groups("vgg11", groups, width)
    inputs = x = keras.Input(input_shape, name="inputs")
    for stage, multiples in enumerate(_STAGES, start=1):
        for number, multiple in enumerate(multiples, start=1):
            name = f"stage{stage}_conv{number}"
            x = blocks.conv(x, multiple * width, 3, init, name, padding="same")
            x = blocks.normalise(x, norm, groups, f"stage{stage}_norm{number}")
            x = keras.layers.ReLU(name=f"stage{stage}_relu{number}")(x)
        x = keras.layers.MaxPooling2D(2, name=f"stage{stage}_pool")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    units = hidden_units or (100 if num_classes <= 10 else 256)
    x = blocks.dense(x, units, init, "dense1", activation="relu")
    return keras.Model(inputs, blocks.dense(x, num_classes, init, "logits"), name="vgg11")
