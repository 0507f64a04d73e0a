import keras
import numpy as np
import pytest

from tests.models import tiny
from tf_fedsam import models
from tf_fedsam.errors import InputError

CIFAR = (32, 32, 3)


@pytest.fixture(scope="module")
def resnet18():
    keras.utils.set_random_seed(0)
    return models.build("resnet18", CIFAR, 10)


@pytest.mark.parametrize(
    ("name", "stem", "num_classes", "expected"),
    [
        # Body, from stage 1 to 4: 147,968 + 525,568 + 2,099,712 + 8,393,728 = 11,166,976.
        # Stem: 7*7*3*64 + 128 = 9,536 or 3*3*3*64 + 128 = 1,856. Head: 512*C + C.
        ("resnet18", "imagenet", 10, 11_181_642),
        ("resnet18", "imagenet", 100, 11_227_812),
        ("resnet18", "cifar", 10, 11_173_962),
        ("resnet18", "cifar", 100, 11_220_132),
        # torchvision's 21,797,672 and 25,557,032 for 1000 classes, with heads of C classes:
        ("resnet34", "imagenet", 100, 21_797_672 - 513 * 900),
        ("resnet50", "imagenet", 65, 25_557_032 - 2049 * 935),
    ],
)
def test_num_parameters(name, stem, num_classes, expected):
    assert models.build(name, CIFAR, num_classes, {"stem": stem}).count_params() == expected


def _layers(model, kind):
    return [layer for layer in model.layers if isinstance(layer, kind)]


def test_group_norm_everywhere(resnet18):
    norms = _layers(resnet18, keras.layers.GroupNormalization)
    # One in the stem, two in each of 8 blocks, three in shortcuts, as there are convolutions.
    assert len(norms) == len(_layers(resnet18, keras.layers.Conv2D)) == 20
    assert {(norm.groups, norm.epsilon) for norm in norms} == {(2, 1e-5)}
    assert not _layers(resnet18, keras.layers.BatchNormalization)
    assert not resnet18.non_trainable_variables


def test_group_norm_is_that_of_torch(resnet18):
    """x -> (x - mean) / sqrt(var + 1e-5) over (height, width, channels of the group)."""
    x = np.random.default_rng(0).normal(3, 0.01, size=(2, 16, 16, 64)).astype("float32")
    groups = x.reshape(2, 16, 16, 2, 32).astype("float64")
    mean = groups.mean(axis=(1, 2, 4), keepdims=True)
    variance = groups.var(axis=(1, 2, 4), keepdims=True)
    expected = ((groups - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)
    actual = resnet18.get_layer("stem_norm")(x)
    np.testing.assert_allclose(actual, expected, atol=2e-3)  # var 1e-4: epsilon 1e-3 gives / 3


@pytest.mark.parametrize(
    ("stem", "sides"), [("imagenet", (8, 8, 4, 2, 1)), ("cifar", (32, 32, 16, 8, 4))]
)
def test_feature_map_sizes(stem, sides):
    model = models.build("resnet18", CIFAR, 10, {"stem": stem, "width": 2})
    last_of_stem = "stem_pool" if stem == "imagenet" else "stem_relu"
    layers = [last_of_stem, *(f"stage{stage}_block2_add" for stage in (1, 2, 3, 4))]
    assert tuple(model.get_layer(name).output.shape[1] for name in layers) == sides
    assert ("stem_pool" in {layer.name for layer in model.layers}) == (stem == "imagenet")


def test_strided_convolutions_pad_both_sides_alike(resnet18):
    strided = [c for c in _layers(resnet18, keras.layers.Conv2D) if c.strides == (2, 2)]
    assert len(strided) == 7  # the stem's, then one 3x3 and one shortcut in stages 2 to 4
    assert {conv.padding for conv in strided} == {"valid"}
    paddings = {
        layer.name: layer.padding for layer in _layers(resnet18, keras.layers.ZeroPadding2D)
    }
    assert paddings == {
        "stem_conv_padding": ((3, 3), (3, 3)),
        "stem_pool_padding": ((1, 1), (1, 1)),
        "stage2_block1_conv1_padding": ((1, 1), (1, 1)),
        "stage3_block1_conv1_padding": ((1, 1), (1, 1)),
        "stage4_block1_conv1_padding": ((1, 1), (1, 1)),
    }


def test_stem_against_numpy():
    """Conv 7x7 / 2 padded by 3, then max-pool 3x3 / 2 padded by 1 with -inf, as torch does it."""
    model = models.build("resnet18", (9, 8, 3), 10, {"width": 2})
    x = tiny.examples("resnet18", num=1)[:, :, :, :]
    x = np.concatenate([x, x[:, :1]], axis=1)  # 9 x 8: one odd side, one even
    kernel = np.asarray(model.get_layer("stem_conv").kernel)
    padded = np.pad(x[0], ((3, 3), (3, 3), (0, 0)))
    expected = np.stack(
        [
            [
                np.tensordot(padded[2 * i : 2 * i + 7, 2 * j : 2 * j + 7], kernel, 3)
                for j in range(4)
            ]
            for i in range(5)  # floor((9 + 6 - 7) / 2) + 1 rows, floor((8 + 6 - 7) / 2) + 1 columns
        ]
    )
    part = keras.Model(model.input, model.get_layer("stem_conv").output)
    np.testing.assert_allclose(part(x)[0], expected, rtol=1e-4, atol=1e-5)

    rectified = keras.Model(model.input, model.get_layer("stem_relu").output)(x)[0]
    padded = np.pad(rectified, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    expected = np.stack(
        [
            [padded[2 * i : 2 * i + 3, 2 * j : 2 * j + 3].max(axis=(0, 1)) for j in range(2)]
            for i in range(3)
        ]
    )
    pooled = keras.Model(model.input, model.get_layer("stem_pool").output)(x)[0]
    np.testing.assert_array_equal(pooled, expected)


def test_block_adds_its_shortcut():
    """With the last norm's scale at zero a block is relu(shortcut)."""
    model = tiny.build("resnet18")
    for number in (1, 2):
        norm = model.get_layer(f"stage1_block{number}_norm2")
        norm.gamma.assign(np.zeros(4))
    x = tiny.examples("resnet18")
    before = keras.Model(model.input, model.get_layer("stem_pool").output)(x)
    after = keras.Model(model.input, model.get_layer("stage1_block2_relu2").output)(x)
    np.testing.assert_array_equal(before, after)  # the stem's output is not negative


def test_bottleneck_strides_on_its_3x3():
    model = tiny.build("resnet50")
    convs = [model.get_layer(f"stage2_block1_conv{number}") for number in (1, 2, 3)]
    assert [conv.kernel_size for conv in convs] == [(1, 1), (3, 3), (1, 1)]
    assert [conv.strides for conv in convs] == [(1, 1), (2, 2), (1, 1)]
    assert [conv.filters for conv in convs] == [4, 4, 16]  # width 2, second stage
    assert model.get_layer("stage1_block1_shortcut_conv").strides == (1, 1)


def test_imagenet_stem_starts_as_in_torchvision(resnet18):
    for layer, fan_out in [("stage2_block2_conv1", 9 * 128), ("stem_conv", 49 * 64)]:
        kernel = np.asarray(resnet18.get_layer(layer).kernel)
        assert kernel.std() == pytest.approx(np.sqrt(2 / fan_out), rel=0.03)
        assert np.abs(kernel).max() > 3 * kernel.std()  # not truncated at 2
    logits = resnet18.get_layer("logits")
    assert tiny.within_bound(logits.kernel, 1 / np.sqrt(512))
    assert np.any(logits.bias)


def test_cifar_stem_starts_as_in_torch():
    model = models.build("resnet18", CIFAR, 10, {"stem": "cifar", "width": 16})
    assert tiny.within_bound(model.get_layer("stage2_block2_conv1").kernel, 1 / np.sqrt(9 * 32))
    assert tiny.within_bound(model.get_layer("stem_conv").kernel, 1 / np.sqrt(27))


def test_starts_as_in_keras_when_asked():
    model = models.build("resnet18", CIFAR, 10, {"init": "keras", "width": 16})
    kernel = model.get_layer("stage2_block2_conv1").kernel
    assert tiny.within_bound(kernel, np.sqrt(6 / (9 * 32 + 9 * 32)))
    assert not np.any(model.get_layer("logits").bias)


@pytest.mark.parametrize(
    ("norm", "stem_is"),
    [
        *(("batch", "Batch"), ("mixed", "Group")),
        *(("batch_torch", "Batch"), ("mixed_torch", "Group")),
    ],
)
def test_batch_norm(norm, stem_is):
    model = tiny.build("resnet18", norm=norm)
    norms = _layers(model, keras.layers.BatchNormalization)
    assert len(norms) == 20 - norm.startswith("mixed")
    assert {(layer.momentum, layer.epsilon) for layer in norms} == {(0.9, 1e-5)}
    assert type(model.get_layer("stem_norm")).__name__ == f"{stem_is}Normalization"
    trainable = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    assert trainable == tiny.build("resnet18").count_params()


def test_groups():
    model = tiny.build("resnet18", groups=4)
    assert {norm.groups for norm in _layers(model, keras.layers.GroupNormalization)} == {4}
    with pytest.raises(InputError, match=r"groups=3 with width=4.*divides 4.*norm=batch"):
        tiny.build("resnet18", groups=3)
    assert tiny.build("resnet18", groups=3, norm="batch").built  # no GroupNorm, no matter
