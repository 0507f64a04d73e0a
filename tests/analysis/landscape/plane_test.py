"""Directions, filter normalisation, planes."""

import keras
import numpy as np
import pytest

from tests.analysis.landscape.networks import around, conv_net, flat
from tf_fedsam import rng
from tf_fedsam.analysis.landscape.plane import Plane, Solution, filter_axes, random_directions
from tf_fedsam.models.trainable import select_trainable

layers = keras.layers


def test_directions_are_orthogonal_gaussians_of_the_seed():
    shapes = [(30, 20), (20,), (3, 3, 4, 5)]
    first, second = random_directions(shapes, 3)
    assert [a.shape for a in first] == [a.shape for a in second] == shapes
    a, b = flat(first), flat(second)
    assert abs(a @ b) / np.sqrt((a @ a) * (b @ b)) < 1e-7
    # 800 standard normals: the mean is within 5 / sqrt(800), the deviation within 5 / sqrt(1600).
    for vector in (a, b):
        assert abs(vector.mean()) < 0.18
        assert abs(vector.std() - 1) < 0.125
    again = random_directions(shapes, 3)
    assert np.array_equal(flat(again[0]), a)
    assert np.array_equal(flat(again[1]), b)
    assert not np.array_equal(flat(random_directions(shapes, 4)[0]), a)


def test_without_orthogonalisation_they_would_not_be():
    """Two raw draws of two numbers are far from orthogonal: the check above can fail."""
    first, second = random_directions([(1, 2)], 0)
    raw = rng.generator(0, "landscape.direction", 2, 0).standard_normal((1, 2))
    assert abs(float((first[0] * raw).sum())) > 1e-3
    assert abs(float((first[0] * second[0]).sum())) < 1e-6


def test_filters_are_as_long_as_those_of_the_weights():
    network = conv_net()
    plane = around(network)
    names = [v.path.split("/", 1)[-1] for v in network.trainable_variables]
    for direction in (plane.first, plane.second):
        found = dict(zip(names, direction, strict=False))
        weights = dict(zip(names, plane.origin, strict=False))
        for channel in range(4):
            filters = [a["conv/kernel"][:, :, :, channel] for a in (found, weights)]
            assert np.linalg.norm(filters[0]) == pytest.approx(np.linalg.norm(filters[1]), rel=1e-5)
        for unit in range(3):
            filters = [a["logits/kernel"][:, unit] for a in (found, weights)]
            assert np.linalg.norm(filters[0]) == pytest.approx(np.linalg.norm(filters[1]), rel=1e-5)
        still = [n for n in names if n.endswith(("bias", "gamma", "beta"))]
        assert len(still) == 6
        for name in still:
            assert not found[name].any(), name
        assert not any(a.any() for a in direction[len(names) :])  # BatchNorm statistics


def test_filter_axes_of_other_layers():
    def axes_of(layer, *shape):
        inputs = keras.Input(shape)
        outputs = layer(inputs, inputs) if isinstance(layer, layers.MultiHeadAttention) else None
        network = keras.Model(inputs, layer(inputs) if outputs is None else outputs)
        found = filter_axes(network)
        paths = ["/".join(v.path.split("/")[-2:]) for v in network.trainable_variables]
        return dict(zip(paths, found, strict=True))

    attention = axes_of(layers.MultiHeadAttention(2, 5, name="a"), 7, 6)
    # query kernel [6 in, 2 heads, 5]: an output is a unit of a head; its bias [2, 5] stays.
    assert attention["query/kernel"] == attention["key/kernel"] == (1, 2)
    assert attention["query/bias"] is None
    # output kernel [2 heads, 5, 6 out]
    assert attention["attention_output/kernel"] == (2,)
    assert axes_of(layers.Embedding(9, 4, name="e"), 3)["e/embeddings"] == (0,)
    assert axes_of(layers.DepthwiseConv2D(3, name="d"), 8, 8, 2)["d/kernel"] == (2, 3)
    separable = axes_of(layers.SeparableConv2D(5, 3, name="s"), 8, 8, 2)
    assert separable["s/depthwise_kernel"] == (2, 3)
    assert separable["s/pointwise_kernel"] == (3,)
    # kernel [3, 3, 5 out, 2 in]
    assert axes_of(layers.Conv2DTranspose(5, 3, name="t"), 8, 8, 2)["t/kernel"] == (2,)
    assert axes_of(layers.Conv1D(5, 3, name="c"), 8, 2)["c/kernel"] == (2,)
    assert axes_of(layers.PReLU(name="p"), 4, 3)["p/alpha"] is None
    assert axes_of(layers.Dense(1, name="one"), 4)["one/kernel"] == (1,)

    class Token(layers.Layer):
        def build(self, shape):
            self.token = self.add_weight(shape=(1, 1, shape[-1]), name="class_token")
            self.table = self.add_weight(shape=(5, shape[-1]), name="relative_bias_table")
            self.other = self.add_weight(shape=(5, shape[-1]), name="other")

        def call(self, x):
            return x + self.token + self.table[0] + self.other[0]

    own = axes_of(Token(name="own"), 3, 6)
    assert own == {"own/class_token": None, "own/relative_bias_table": None, "own/other": (1,)}


def test_frozen_parts_do_not_move():
    network = select_trainable(conv_net(), "head")
    plane = around(network)
    assert [a.shape for a in plane.first[:2]] == [(144 // 9 * 4, 3), (3,)]
    assert plane.first[0].any()
    assert not any(a.any() for a in plane.first[1:])


def test_two_solutions_share_directions():
    """Twice the weights: the same direction, twice as long."""
    network = conv_net()
    one = Solution.of(network)
    two = Solution([2 * w for w in one.weights], one.state)
    shapes = [w.shape for w in one.weights]
    directions = random_directions(shapes, 0)
    axes = filter_axes(network)
    a, b = (Plane.around(s, directions, axes) for s in (one, two))
    np.testing.assert_allclose(flat(b.first), 2 * flat(a.first), rtol=1e-6)
    np.testing.assert_allclose(flat(b.second), 2 * flat(a.second), rtol=1e-6)
