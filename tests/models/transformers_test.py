"""ViT and Swin: tiny versions stand for the large ones, which are only counted, under `slow`."""

import importlib
import sys

import keras
import numpy as np
import pytest

from tests.models import tiny
from tf_fedsam import models
from tf_fedsam.errors import InputError
from tf_fedsam.models import transformers

HUB = tiny.HUB
pytestmark = [tiny.keras_saves, tiny.swin_masks]


@pytest.fixture
def hub():
    return importlib.import_module("keras_hub")


def _backbone(model):
    return model.get_layer("backbone")


def _saved(model, tmp_path, form):
    """The body of `model`, saved in one of the forms that `pretrained` reads."""
    if form == "preset":
        _backbone(model).save_to_preset(tmp_path / "preset")
        return str(tmp_path / "preset")
    if form == "weights":
        _backbone(model).save_weights(tmp_path / "body.weights.h5")
        return str(tmp_path / "body.weights.h5")
    saved = model if form == "model" else _backbone(model)
    saved.save(tmp_path / f"{form}.keras")
    return str(tmp_path / f"{form}.keras")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        # The bodies, 85,798,656, 48,837,258 and 86,743,224, are those of the usual ImageNet models
        # without their heads; then dim*200 + 200 and, for the representation, 768*768 + 768.
        ("vit_b16", {}, 85_798_656 + 590_592 + 153_800),
        ("vit_b16", {"representation": False}, 85_798_656 + 153_800),
        ("swin_s", {}, 48_837_258 + 153_800),
        ("swin_b", {}, 86_743_224 + 205_000),
    ],
)
def test_num_parameters(hub, name, options, expected):
    assert models.build(name, (224, 224, 3), 200, options).count_params() == expected


def test_num_parameters_of_a_tiny_vit(hub):
    # dim 8, patch 4 of 8 x 8 x 3, mlp 16: patches 48*8+8, class token 8, 5 positions of 8
    embedding = 392 + 8 + 40
    # two norms of 16, four projections of 8*8+8, 8*16+16 + 16*8+8
    block = 2 * 16 + 4 * 72 + 144 + 136
    head = 72 + 8 * 4 + 4
    assert tiny.shared("vit_b16").count_params() == embedding + 2 * block + 16 + head


def test_num_parameters_of_a_tiny_swin(hub):
    # dim 4, patch 2, window 4: patches 12*4+4 and a norm of 8
    embedding = 52 + 8

    def block(dim, heads):  # two norms, qkv, projection, relative positions, MLP
        attention = dim * 3 * dim + 3 * dim + dim * dim + dim + 49 * heads
        return 4 * dim + attention + dim * 4 * dim + 4 * dim + 4 * dim * dim + dim

    merging = 2 * 16 + 16 * 8
    head = 2 * 8 + 8 * 4 + 4
    expected = embedding + 2 * block(4, 1) + merging + block(8, 2) + head
    assert tiny.shared("swin_s").count_params() == expected


def test_vit_reads_the_class_token(hub):
    model = tiny.build("vit_b16", representation=False)
    x = tiny.examples("vit_b16")
    tokens = np.asarray(_backbone(model)(x))
    assert tokens.shape == (3, 1 + 2 * 2, 8)
    logits = model.get_layer("logits")
    expected = tokens[:, 0] @ np.asarray(logits.kernel) + np.asarray(logits.bias)
    np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-6)


def test_representation_is_an_option(hub):
    layer = tiny.shared("vit_b16").get_layer("representation")
    assert layer.units == 8
    assert layer.activation is keras.activations.tanh
    names = {layer.name for layer in tiny.build("vit_b16", representation=False).layers}
    assert "representation" not in names


def test_swin_averages_over_patches(hub):
    model = tiny.shared("swin_s")
    x = tiny.examples("swin_s")
    tokens = np.asarray(_backbone(model)(x, training=False))
    assert tokens.shape == (3, 4 * 4, 8)
    logits = model.get_layer("logits")
    expected = tokens.mean(axis=1) @ np.asarray(logits.kernel) + np.asarray(logits.bias)
    np.testing.assert_allclose(model(x, training=False), expected, rtol=1e-4, atol=1e-6)


def test_swin_drop_path(hub):
    small = {"depths": (2,), "heads": (1,)}
    x = tiny.examples("swin_s", num=8)
    model = tiny.build("swin_s", drop_path=0.5, **small)
    assert not np.array_equal(model(x, training=True), model(x, training=False))
    model = tiny.build("swin_s", drop_path=0.0, **small)
    assert np.array_equal(model(x, training=True), model(x, training=False))


def test_heads_start_as_in_the_authors_code(hub):
    vit = {**tiny.TINY["vit_b16"][1], "dim": 64, "layers": 1}
    logits = models.build("vit_b16", (8, 8, 3), 200, vit).get_layer("logits")
    assert np.std(logits.kernel) == pytest.approx(0.01, rel=0.05)
    swin = {**tiny.TINY["swin_s"][1], "dim": 64, "depths": (1,), "heads": (1,)}
    logits = models.build("swin_s", (16, 16, 3), 200, swin).get_layer("logits")
    assert np.std(logits.kernel) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("vit_b16", "preset"),
        ("vit_b16", "weights"),
        ("vit_b16", "backbone"),
        ("vit_b16", "model"),
        pytest.param("swin_s", "preset", marks=pytest.mark.slow),
    ],
)
def test_pretrained_body(hub, tmp_path, name, form):
    source = tiny.shared(name)
    model = tiny.build(name, seed=2, pretrained=_saved(source, tmp_path, form))
    x = tiny.examples(name)
    bodies = [_backbone(m)(x, training=False) for m in (source, model)]
    np.testing.assert_array_equal(*bodies)
    heads = [m.get_layer("logits").kernel for m in (source, model)]
    assert not np.array_equal(*heads)  # starts anew


@pytest.mark.slow
def test_pretrained_swin_at_another_image_size(hub, tmp_path):
    source = tiny.shared("swin_s")
    path = _saved(source, tmp_path, "model")
    options = {**tiny.TINY["swin_s"][1], "pretrained": path, "drop_path": 0.0}
    model = models.build("swin_s", (32, 16, 3), 4, options)
    for a, b in zip(_backbone(source).weights, _backbone(model).weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_pretrained_must_fit(hub, tmp_path):
    vit = tiny.shared("vit_b16")
    path = _saved(vit, tmp_path, "backbone")
    message = "hidden_dim is 8 there and 12 here; mlp_dim is 16 there and 20 here.*options"
    with pytest.raises(InputError, match=message):
        tiny.build("vit_b16", pretrained=path, dim=12, mlp_dim=20)
    options = {**tiny.TINY["vit_b16"][1], "pretrained": path}
    with pytest.raises(InputError, match=r"shape \(8, 8, 3\), received \(12, 12, 3\)"):
        models.build("vit_b16", (12, 12, 3), 4, options)
    tiny.shared("linear").save(tmp_path / "linear.keras")
    with pytest.raises(InputError, match="holds no ViTBackbone"):
        tiny.build("vit_b16", pretrained=str(tmp_path / "linear.keras"))
    with pytest.raises(InputError, match=r"could not read.*sizes of the options"):
        tiny.build("vit_b16", pretrained=_saved(vit, tmp_path, "weights"), dim=12)


def test_pretrained_must_exist(hub, tmp_path):
    for missing in ("body.keras", "body.weights.h5"):
        with pytest.raises(InputError, match="there is no such file"):
            tiny.build("vit_b16", layers=1, pretrained=str(tmp_path / missing))
    message = r"Unknown preset of model vit_b16 'vit_base_patch16_224'.*imagenet21k.*preset folder"
    with pytest.raises(InputError, match=message):
        tiny.build("vit_b16", layers=1, pretrained="vit_base_patch16_224")
    (tmp_path / "body.keras").write_text("no model")
    with pytest.raises(InputError, match="could not read"):
        tiny.build("vit_b16", layers=1, pretrained=str(tmp_path / "body.keras"))
    with pytest.raises(InputError, match="could not read"):
        tiny.build("vit_b16", layers=1, pretrained=str(tmp_path))


@pytest.mark.parametrize(
    ("name", "shape", "options", "message"),
    [
        ("vit_b16", (32, 40, 3), {}, r"32 x 40. Expected multiples of 16 \(patch=16\)"),
        ("vit_b16", (32, 32, 3), {"heads": 5}, "heads=5 for tokens of width 768"),
        ("swin_s", (32, 32, 3), {}, r"multiples of 224 \(patch=4, 4 stages and window=7\)"),
        ("swin_b", (224, 224, 3), {"heads": (4, 8, 16, 30)}, "heads=30 for tokens of width 1024"),
        (
            "swin_s",
            (224, 224, 3),
            {"depths": (2, 2)},
            r"depths=\(2, 2\) and heads=\(3, 6, 12, 24\)",
        ),
        ("swin_s", (224, 224, 3), {"depths": (), "heads": ()}, "one entry per stage"),
    ],
)
def test_impossible_sizes(name, shape, options, message):
    with pytest.raises(InputError, match=message):
        models.build(name, shape, 10, options)


@pytest.mark.parametrize("name", HUB)
def test_without_keras_hub(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "keras_hub", None)  # makes the import fail
    with pytest.raises(InputError, match=r'needs KerasHub.*"tf-fedsam\[transformers\]"'):
        tiny.build(name)


def test_with_an_old_keras_hub(hub, monkeypatch):
    monkeypatch.delattr(hub.models, "SwinTransformerBackbone")
    with pytest.raises(InputError, match=r"SwinTransformerBackbone \(0.30 or later\); received"):
        tiny.build("swin_s")


def test_keras_hub_is_imported_only_when_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    importlib.reload(transformers)
    assert models.options("vit_b16")["patch"] == 16
