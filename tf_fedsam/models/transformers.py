"""Vision transformers from KerasHub, for the extra `transformers`: ViT-B/16 (Dosovitskiy et al.
2021, arXiv:2010.11929) and Swin-S / Swin-B (Liu et al. 2021, arXiv:2103.14030), the large models of
FedNSAM (arXiv:2602.23827), which fine-tunes pretrained weights at 224 x 224.

vit_b16, 224 x 224 x 3, 200 classes output          parameters
  patches 16x16, class token        197 x 768          742,656
  12 encoder blocks, 12 heads       197 x 768       85,054,464
  layer norm, class token           768                  1,536
  dense 768, tanh (representation)  768                590,592
  dense 200 (logits)                200                153,800
                                                    86,543,048

swin, 224 x 224 x 3, 200 classes    output (S; B has 128 for 96)
  patches 4x4, layer norm           56 x 56 x 96
  2 blocks (3 heads; 4), merge      28 x 28 x 192
  2 blocks (6 heads; 8), merge      14 x 14 x 384
  18 blocks (12 heads; 16), merge   7 x 7 x 768
  2 blocks (24 heads; 32)           7 x 7 x 768
  layer norm, average over patches  768
  dense 200 (logits)                200             48,991,058 (S), 86,948,224 (B)

Windows are 7 x 7, every second block shifts them by 3; the MLPs have four times the width.

The bodies start as KerasHub starts them (Glorot uniform), the heads as in the authors' code. With
`pretrained`, the body is read from one of

  * a KerasHub preset, by name ("vit_base_patch16_224_imagenet21k", "swin_small_patch4_window7_224")
    or address ("hf://...", "kaggle://..."), downloaded by KerasHub;
  * a folder written by `backbone.save_to_preset`;
  * a `.keras` file with a KerasHub backbone or a model with one inside, such as those from here;
  * a `.weights.h5` file written by `backbone.save_weights`.

The head always starts anew. `import keras_hub` before loading a saved `.keras` file.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

from tf_fedsam import paths
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.lazy import keras
from tf_fedsam.models.checks import (
    DropRate,
    Flag,
    Pretrained,
    Size,
    Sizes,
    check_image,
    check_multiple,
)

_INSTALL = 'Install it with: pip install --upgrade "tf-fedsam[transformers]"'


def vit_b16(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    patch: Size = 16,
    layers: Size = 12,
    dim: Size = 768,
    heads: Size = 12,
    mlp_dim: Size = 3072,
    dropout: DropRate = 0.0,
    representation: Flag = True,
    pretrained: Pretrained = "",
) -> keras.Model:
    """ViT-B/16 that classifies by its class token.

    Args:
        input_shape: (height, width, channels), multiples of `patch`.
        num_classes: number of logits.
        patch: side of a patch.
        layers: encoder blocks.
        dim: width of a token.
        heads: attention heads; must divide `dim`.
        mlp_dim: hidden units of the MLP in each block.
        dropout: after the embedding, the attention and both MLP layers.
        representation: a dense layer of `dim` units with tanh before the logits, as in the
            ImageNet-21k checkpoints.
        pretrained: where the body's weights come from (see above); "" for random weights.
    """
    check_image("vit_b16", input_shape)
    check_multiple("vit_b16", input_shape, patch, f"patch={patch}")
    _check_heads("vit_b16", dim, heads)
    backbone = _backbone_class("vit_b16", "ViTBackbone")(
        image_shape=input_shape,
        patch_size=patch,
        num_layers=layers,
        num_heads=heads,
        hidden_dim=dim,
        mlp_dim=mlp_dim,
        dropout_rate=dropout,
        name="backbone",
    )
    _load_pretrained("vit_b16", backbone, pretrained)
    inputs = keras.Input(input_shape, name="inputs")
    x = backbone(inputs)[:, 0]
    if representation:
        x = _head(x, dim, "representation", stddev=0.01, activation="tanh")
    return keras.Model(inputs, _head(x, num_classes, "logits", stddev=0.01), name="vit_b16")


def swin_s(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    patch: Size = 4,
    dim: Size = 96,
    depths: Sizes = (2, 2, 18, 2),
    heads: Sizes = (3, 6, 12, 24),
    window: Size = 7,
    drop_path: DropRate = 0.1,
    pretrained: Pretrained = "",
) -> keras.Model:
    """Swin-S that classifies by the average over the patches.

    Args:
        input_shape: (height, width, channels), multiples of patch * 2^(stages - 1) * window.
        num_classes: number of logits.
        patch: side of a patch.
        dim: width of a token in the first stage; doubles from stage to stage.
        depths: blocks of each stage.
        heads: attention heads of each stage; must divide its width.
        window: side of an attention window, in patches.
        drop_path: rate of stochastic depth in the last block; grows linearly from 0 in the first.
        pretrained: where the body's weights come from (see above); "" for random weights.
    """
    sizes = {"patch_size": patch, "embed_dim": dim, "depths": depths, "num_heads": heads}
    return _swin("swin_s", input_shape, num_classes, sizes, window, drop_path, pretrained)


def swin_b(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    patch: Size = 4,
    dim: Size = 128,
    depths: Sizes = (2, 2, 18, 2),
    heads: Sizes = (4, 8, 16, 32),
    window: Size = 7,
    drop_path: DropRate = 0.1,
    pretrained: Pretrained = "",
) -> keras.Model:
    """Swin-B; the arguments are those of `swin_s`."""
    sizes = {"patch_size": patch, "embed_dim": dim, "depths": depths, "num_heads": heads}
    return _swin("swin_b", input_shape, num_classes, sizes, window, drop_path, pretrained)


def _swin(
    name: str,
    input_shape: tuple[int, ...],
    num_classes: int,
    sizes: dict[str, Any],
    window: int,
    drop_path: float,
    pretrained: str,
) -> keras.Model:
    depths, heads = sizes["depths"], sizes["num_heads"]
    if not depths or len(depths) != len(heads):
        raise InputError(
            f"Model {name} received depths={depths} and heads={heads}. "
            "Expected one entry per stage in both."
        )
    for stage, num_heads in enumerate(heads):
        _check_heads(name, sizes["embed_dim"] * 2**stage, num_heads)
    check_image(name, input_shape)
    # The last stage has the fewest patches; where windows tile it, they tile the others too.
    patch_in_last_stage = sizes["patch_size"] * 2 ** (len(depths) - 1)
    why = f"patch={sizes['patch_size']}, {len(depths)} stages and window={window}"
    check_multiple(name, input_shape, patch_in_last_stage * window, why)
    # KerasHub hands the attention mask over as `mask`, which Keras mistakes for a padding mask.
    warnings.filterwarnings("ignore", r"Layer 'attn' \(of type WindowAttention\)", UserWarning)
    backbone = _backbone_class(name, "SwinTransformerBackbone")(
        image_shape=input_shape,
        window_size=window,
        drop_path=drop_path,
        name="backbone",
        **sizes,
    )
    _load_pretrained(name, backbone, pretrained)
    inputs = keras.Input(input_shape, name="inputs")
    x = keras.layers.GlobalAveragePooling1D(name="average_pool")(backbone(inputs))
    return keras.Model(inputs, _head(x, num_classes, "logits", stddev=0.02), name=name)


def _head(
    x: keras.KerasTensor, units: int, name: str, stddev: float, activation: str | None = None
) -> keras.KerasTensor:
    # torch's trunc_normal_ cuts at +-2, a hundred standard deviations away: a plain normal law.
    kernel = keras.initializers.RandomNormal(stddev=stddev)
    return keras.layers.Dense(units, activation, kernel_initializer=kernel, name=name)(x)


def _check_heads(model: str, dim: int, heads: int) -> None:
    if dim % heads:
        raise InputError(
            f"Model {model} received heads={heads} for tokens of width {dim}. "
            f"Expected a number of heads that divides {dim}."
        )


def _backbone_class(model: str, name: str) -> Any:
    """A class of KerasHub, imported only here: nothing else in the package needs it."""
    try:
        import keras_hub
    except ImportError as error:
        raise InputError(
            f"Model {model} needs KerasHub, which cannot be imported ({error}). {_INSTALL}"
        ) from error
    if not hasattr(keras_hub.models, name):
        raise InputError(
            f"Model {model} needs a KerasHub with {name} (0.30 or later); "
            f"received {keras_hub.__version__}. {_INSTALL}"
        )
    return getattr(keras_hub.models, name)


def _load_pretrained(model: str, backbone: keras.Model, pretrained: str) -> None:
    """Replaces the weights of `backbone` by those `pretrained` names."""
    if not pretrained:
        return
    path = paths.expanded(pretrained)
    suffix = next((s for s in (".keras", ".weights.h5") if pretrained.endswith(s)), "")
    if suffix and not path.is_file():
        raise InputError(
            f"Model {model} received pretrained={pretrained!r}, but there is no such file. "
            "Check the path."
        )
    if not suffix and not path.is_dir() and "://" not in pretrained:
        presets = type(backbone).presets
        if pretrained not in presets:
            hint = "Or give a preset folder, a .keras file or a .weights.h5 file."
            raise unknown(f"preset of model {model}", pretrained, presets, hint)
    try:
        if suffix == ".weights.h5":
            backbone.load_weights(path)
            return
        if suffix == ".keras":
            source = keras.saving.load_model(path, compile=False)
        else:
            source = type(backbone).from_preset(str(path) if path.is_dir() else pretrained)
    except Exception as error:
        raise InputError(
            f"Model {model} could not read pretrained={pretrained!r}: {error} "
            "Expected the weights of a body with the sizes of the options; a preset that cannot be "
            "downloaded here can be saved elsewhere with save_to_preset and given as a folder."
        ) from error
    _copy_weights(model, backbone, source, pretrained)


def _copy_weights(model: str, backbone: keras.Model, source: keras.Model, origin: str) -> None:
    kind = type(backbone)
    inner = [source, *getattr(source, "layers", [])]
    found = next((layer for layer in inner if isinstance(layer, kind)), None)
    if found is None:
        raise InputError(
            f"Model {model} received pretrained={origin!r}, which holds no {kind.__name__}. "
            "Expected a KerasHub backbone or a model that contains one."
        )
    # Rates and the image size may differ, what a weight means may not.
    free = {"name", "trainable", "dtype", "image_shape", "data_format"}
    free |= {"dropout_rate", "attention_dropout", "drop_path"}
    here, there = backbone.get_config(), found.get_config()
    different = [
        f"{key} is {there[key]} there and {here[key]} here"
        for key in sorted(here.keys() & there.keys() - free)
        if json.dumps(here[key]) != json.dumps(there[key])
    ]
    if different:
        raise InputError(
            f"Model {model} does not fit pretrained={origin!r}: {'; '.join(different)}. "
            "Change the options of the model, or use other weights."
        )
    if [weight.shape for weight in backbone.weights] != [weight.shape for weight in found.weights]:
        raise InputError(
            f"Model {model} does not fit pretrained={origin!r}: it was made for images of shape "
            f"{tuple(found.image_shape)}, received {tuple(backbone.image_shape)}. "
            f"Resize the images (image_size={found.image_shape[0]}), or use other weights.",
            "image_size",
        )
    backbone.set_weights(found.get_weights())
