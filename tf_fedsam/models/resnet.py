"""ResNets (He et al. 2016, arXiv:1512.03385) with GroupNorm (Hsieh et al. 2020, arXiv:1910.00189).

The stem "imagenet" is that of torchvision and FL-Simulator, used by FedInit and FedWMSAM; "cifar"
that of the codes of FedNSAM and FedACG. resnet18 on 32 x 32 x 3, 10 classes, two groups:

                                    imagenet        cifar           parameters
  stem  conv 7x7 / 2, norm, ReLU    16 x 16 x 64    -                    9,536
        max-pool 3x3 / 2            8 x 8 x 64      -
     or conv 3x3, norm, ReLU        -               32 x 32 x 64         1,856
  stage 1: 2 basic blocks, 64       8 x 8 x 64      32 x 32 x 64       147,968
  stage 2: 2 basic blocks, 128 / 2  4 x 4 x 128     16 x 16 x 128      525,568
  stage 3: 2 basic blocks, 256 / 2  2 x 2 x 256     8 x 8 x 256      2,099,712
  stage 4: 2 basic blocks, 512 / 2  1 x 1 x 512     4 x 4 x 512      8,393,728
  global average pool               512             512
  dense 10 (logits)                 10              10                   5,130
                                    11,181,642      11,173,962

A basic block is conv 3x3 / s, norm, ReLU, conv 3x3, norm, plus the shortcut, ReLU; a bottleneck is
conv 1x1, norm, ReLU, conv 3x3 / s, norm, ReLU, conv 1x1 with four times the filters, norm, plus the
shortcut, ReLU. The shortcut is conv 1x1 / s and norm where the shape changes. Convolutions have no
bias.

    model      blocks per stage   block        parameters (imagenet stem)
    resnet18   2, 2, 2, 2         basic        11,181,642 (10 classes)
    resnet34   3, 4, 6, 3         basic        21,335,972 (100 classes)
    resnet50   3, 4, 6, 3         bottleneck   23,641,217 (65 classes)
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from tf_fedsam.lazy import keras
from tf_fedsam.models import blocks, initialisers
from tf_fedsam.models.blocks import Norm
from tf_fedsam.models.checks import Size, check_groups, check_image
from tf_fedsam.models.initialisers import Init

Stem = Literal["imagenet", "cifar"]
ResNetNorm = Literal["group", "batch", "batch_torch", "mixed", "mixed_torch"]
# What stands in the stem, and elsewhere.
_NORMS: dict[ResNetNorm, tuple[Norm, Norm]] = {
    "group": ("group", "group"),
    "batch": ("batch", "batch"),
    "batch_torch": ("batch_torch", "batch_torch"),
    "mixed": ("group", "batch"),
    "mixed_torch": ("group", "batch_torch"),
}


def resnet18(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    stem: Stem = "imagenet",
    norm: ResNetNorm = "group",
    groups: Size = 2,
    width: Size = 64,
    init: Init = "torch",
) -> keras.Model:
    """ResNet-18.

    Args:
        input_shape: (height, width, channels).
        num_classes: number of logits.
        stem: "imagenet" (7x7 with stride 2, then max-pool) or "cifar" (3x3, no pool).
        norm: "group", "batch", or "mixed": BatchNorm, but GroupNorm in the stem, which is what the
            code of FedNSAM does under the name BN. "batch_torch" and "mixed_torch" keep the
            unbiased variance of batches for tests, as torch does.
        groups: of GroupNorm.
        width: filters of the first stage.
        init: "torch" is what the authors' codes start from: torchvision's kaiming-normal
            convolutions with the imagenet stem, torch's default with the cifar stem. "keras" is
            Glorot uniform.
    """
    recipe = _Recipe("resnet18", (2, 2, 2, 2), False, stem, norm, groups, width, init)
    return _resnet(recipe, input_shape, num_classes)


def resnet34(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    stem: Stem = "imagenet",
    norm: ResNetNorm = "group",
    groups: Size = 2,
    width: Size = 64,
    init: Init = "torch",
) -> keras.Model:
    """ResNet-34; the arguments are those of `resnet18`."""
    recipe = _Recipe("resnet34", (3, 4, 6, 3), False, stem, norm, groups, width, init)
    return _resnet(recipe, input_shape, num_classes)


def resnet50(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    stem: Stem = "imagenet",
    norm: ResNetNorm = "group",
    groups: Size = 2,
    width: Size = 64,
    init: Init = "torch",
) -> keras.Model:
    """ResNet-50, with the stride on the 3x3 convolution; the arguments are those of `resnet18`."""
    recipe = _Recipe("resnet50", (3, 4, 6, 3), True, stem, norm, groups, width, init)
    return _resnet(recipe, input_shape, num_classes)


@dataclasses.dataclass(frozen=True)
class _Recipe:
    """What the functions below share about one network."""

    name: str
    blocks_per_stage: tuple[int, ...]
    bottleneck: bool
    stem: Stem
    norm: ResNetNorm
    groups: int
    width: int
    init: Init


def _resnet(recipe: _Recipe, input_shape: tuple[int, ...], num_classes: int) -> keras.Model:
    check_image(recipe.name, input_shape)
    if "group" in _NORMS[recipe.norm]:
        check_groups(recipe.name, recipe.groups, recipe.width)
    inputs = keras.Input(input_shape, name="inputs")
    x = _stem(inputs, recipe)
    for stage, num_blocks in enumerate(recipe.blocks_per_stage, start=1):
        filters = recipe.width * 2 ** (stage - 1)
        for block in range(1, num_blocks + 1):
            stride = 2 if stage > 1 and block == 1 else 1
            x = _block(x, filters, stride, recipe, f"stage{stage}_block{block}")
    x = keras.layers.GlobalAveragePooling2D(name="average_pool")(x)
    logits = blocks.dense(x, num_classes, recipe.init, "logits")
    return keras.Model(inputs, logits, name=recipe.name)


def _stem(x: keras.KerasTensor, recipe: _Recipe) -> keras.KerasTensor:
    if recipe.stem == "imagenet":
        x = _conv(x, recipe.width, 7, 2, recipe, "stem_conv")
    else:
        x = _conv(x, recipe.width, 3, 1, recipe, "stem_conv")
    x = _norm(x, recipe, "stem_norm", in_stem=True)
    x = keras.layers.ReLU(name="stem_relu")(x)
    if recipe.stem == "imagenet":
        # torch pads a max-pool with -inf; after the ReLU nothing is below 0, so zeros do the same.
        x = keras.layers.ZeroPadding2D(1, name="stem_pool_padding")(x)
        x = keras.layers.MaxPooling2D(3, strides=2, name="stem_pool")(x)
    return x


def _block(
    x: keras.KerasTensor, filters: int, stride: int, recipe: _Recipe, name: str
) -> keras.KerasTensor:
    """A basic block or a bottleneck: (filters, kernel size, stride) of its convolutions."""
    if recipe.bottleneck:
        convolutions = [(filters, 1, 1), (filters, 3, stride), (4 * filters, 1, 1)]
    else:
        convolutions = [(filters, 3, stride), (filters, 3, 1)]
    outputs = convolutions[-1][0]

    shortcut = x
    if stride != 1 or x.shape[-1] != outputs:
        shortcut = _conv(x, outputs, 1, stride, recipe, f"{name}_shortcut_conv")
        shortcut = _norm(shortcut, recipe, f"{name}_shortcut_norm")
    for number, (units, size, step) in enumerate(convolutions, start=1):
        if number > 1:
            x = keras.layers.ReLU(name=f"{name}_relu{number - 1}")(x)
        x = _conv(x, units, size, step, recipe, f"{name}_conv{number}")
        x = _norm(x, recipe, f"{name}_norm{number}")
    x = keras.layers.Add(name=f"{name}_add")([x, shortcut])
    return keras.layers.ReLU(name=f"{name}_relu{len(convolutions)}")(x)


def _conv(
    x: keras.KerasTensor, filters: int, size: int, stride: int, recipe: _Recipe, name: str
) -> keras.KerasTensor:
    """A convolution without bias, padded by (size - 1) / 2 on every side."""
    padding = "same"
    if stride > 1:
        # Keras' "same" pads a strided convolution more at the end than at the start.
        padding = "valid"
        if size > 1:
            x = keras.layers.ZeroPadding2D(size // 2, name=f"{name}_padding")(x)
    if recipe.init == "torch" and recipe.stem == "imagenet":
        kernel = initialisers.kaiming_normal()
    else:
        kernel = initialisers.kernel(recipe.init)
    return keras.layers.Conv2D(
        filters,
        size,
        strides=stride,
        padding=padding,
        use_bias=False,
        kernel_initializer=kernel,
        name=name,
    )(x)


def _norm(
    x: keras.KerasTensor, recipe: _Recipe, name: str, in_stem: bool = False
) -> keras.KerasTensor:
    stem, other = _NORMS[recipe.norm]
    return blocks.normalise(x, stem if in_stem else other, recipe.groups, name)
