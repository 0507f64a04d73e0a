"""Whose variables are whose, and along which axes a layer's outputs lie."""

import keras
import pytest

from tf_fedsam.layers import head, output_axes, owners

LAYERS = keras.layers


def model_of(*layers, shape=(8, 6), dtype="float32"):
    return keras.Sequential([keras.Input(shape, dtype=dtype), *layers])


def test_variables_belong_to_the_innermost_layer():
    inner = model_of(LAYERS.Dense(5, name="body"), LAYERS.Dense(3, name="head"))
    outer = model_of(inner, LAYERS.ReLU())
    assert [layer.name for layer in owners(outer)] == ["body", "body", "head", "head"]
    assert [v.path.split("/")[-2] for v in head(outer)] == ["head", "head"]
    assert [v.name for v in head(outer)] == ["kernel", "bias"]


def test_head_of_what_trains():
    model = model_of(LAYERS.Dense(5, name="body"), LAYERS.Dense(3, name="head"))
    model.layers[-1].trainable = False
    assert [v.path.split("/")[-2] for v in head(model)] == ["body", "body"]
    model.trainable = False
    assert head(model) == []


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        # kernel (inputs, outputs), and the whole bias
        (LAYERS.Dense(4), (6,), [(1,), (0,)]),
        # (height, width, inputs, outputs)
        (LAYERS.Conv2D(4, 3), (8, 8, 2), [(3,), (0,)]),
        # (width, channels, multiplier): an output is a channel and one of its filters
        (LAYERS.DepthwiseConv1D(3), (8, 6), [(1, 2), (0,)]),
        (LAYERS.DepthwiseConv2D(3, depth_multiplier=2), (8, 8, 2), [(2, 3), (0,)]),
        (LAYERS.SeparableConv2D(4, 3), (8, 8, 2), [(2, 3), (3,), (0,)]),
        # scale and offset
        (LAYERS.BatchNormalization(), (8, 6), [(0,), (0,)]),
        # (inputs, heads, width) and (heads, width)
        (
            LAYERS.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de"),
            (8, 6),
            [(1, 2), (0, 1)],
        ),
        # (heads, width, outputs)
        (LAYERS.EinsumDense("abcd,cde->abe", (None, 5), bias_axes="e"), (8, 2, 3), [(2,), (0,)]),
        (LAYERS.EinsumDense("...x,xy->...y", 5), (8, 6), [(1,)]),
    ],
)
def test_output_axes(layer, shape, expected):
    layer = type(layer).from_config(layer.get_config())
    assert output_axes(model_of(layer, shape=shape)) == expected


def test_embeddings_have_the_vocabulary_first():
    model = model_of(LAYERS.Embedding(20, 4), shape=(8,), dtype="int32")
    assert output_axes(model) == [(0,)]


def test_attention():
    """Queries, keys and values (6, 2, 3) with biases (2, 3); the output (2, 3, 6) with 6."""
    inputs = keras.Input((8, 6))
    model = keras.Model(inputs, LAYERS.MultiHeadAttention(2, 3)(inputs, inputs))
    assert output_axes(model) == [*[(1, 2), (0, 1)] * 3, (2,), (0,)]


class Scale(keras.layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(name="scale", shape=())

    def call(self, x):
        return self.scale * x


def test_single_numbers_have_no_axes():
    assert output_axes(model_of(Scale())) == [()]
