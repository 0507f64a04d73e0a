"""Which part of a model trains."""

import keras
import numpy as np
import pytest

from tests.algorithms.harness import flat
from tests.models.training_test import perceptron, residual, rounds
from tf_fedsam.client import model_state
from tf_fedsam.errors import InputError
from tf_fedsam.models.trainable import select_trainable


def paths(model: keras.Model) -> list[str]:
    return ["/".join(v.path.split("/")[-2:]) for v in model.trainable_variables]


def test_all():
    model = perceptron()
    assert select_trainable(model, "all") is model
    assert len(model.trainable_variables) == 4


def test_head(dataset):
    """Only the head is trained, counted and sent."""
    model = lambda: select_trainable(perceptron(), "head")  # noqa: E731
    process, first, state, _ = rounds(model, dataset)
    assert paths(process.network) == ["head/kernel", "head/bias"]
    assert process.num_parameters == 8 * 4 + 4
    assert state.clients.lengths == {}
    body = process.network.get_layer("body").kernel.numpy()
    network = process.get_model(state)
    np.testing.assert_array_equal(network.get_layer("body").kernel.numpy(), body)
    assert np.abs(flat(state.server["weights"]) - flat(first.server["weights"])).max() > 1e-4


def test_pattern():
    assert paths(select_trainable(perceptron(), "bias$")) == ["body/bias", "head/bias"]
    assert paths(select_trainable(perceptron(), "body|head/b")) == [
        *("body/kernel", "body/bias", "head/bias")
    ]


def test_layers_inside_layers():
    """A model inside a model, whose head is the last layer with weights."""
    inner = perceptron()
    outer = keras.Sequential([keras.Input(inner.input_shape[1:]), inner, keras.layers.ReLU()])
    assert paths(select_trainable(outer, "head")) == ["head/kernel", "head/bias"]
    assert len(outer.non_trainable_variables) == 2


class Scaled(keras.layers.Layer):
    """A layer with a weight of its own and a layer inside."""

    def build(self, shape):
        self.scale = self.add_weight(name="scale", shape=())
        self.inner = keras.layers.Dense(2, name="inner")
        self.inner.build(shape)

    def call(self, x):
        return self.scale * self.inner(x)


@pytest.mark.parametrize("which", ["inner/kernel", "scale"])
def test_a_layer_and_what_is_inside_it_are_told_apart(which):
    model = select_trainable(keras.Sequential([keras.Input((3,)), Scaled(name="outer")]), which)
    assert [v.path.partition("outer/")[2] for v in model.trainable_variables] == [which]


def test_a_model_without_weights():
    with pytest.raises(InputError, match="matches no variable"):
        select_trainable(keras.Sequential([keras.Input((3,)), keras.layers.ReLU()]), "head")


def test_frozen_batch_norm_keeps_its_statistics():
    assert len(model_state(residual("batch"))) == 8  # a mean and a variance of four layers
    assert model_state(select_trainable(residual("batch"), "head|dense")) == []


@pytest.mark.parametrize(
    ("which", "words"), [("nothing_like_it", "matches no variable.*head/bias"), ("(", "is none")]
)
def test_refused(which, words):
    with pytest.raises(InputError, match=f"trainable.*{words}") as caught:
        select_trainable(perceptron(), which)
    assert caught.value.with_flags().startswith("--trainable")
