"""The compiled round at sizes at which TensorFlow treats graphs differently."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from tests.algorithms.harness import plugged, some_in_gate, strategy
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.engine.placement import Placement
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

pytestmark = pytest.mark.no_cover

WIDTH = 8000


def plain():
    layers = keras.layers
    inputs = keras.Input((WIDTH,))
    return keras.Model(inputs, layers.Dense(10)(layers.Dense(200, activation="relu")(inputs)))


def residual():
    """Its gradients are sums of three large tensors."""
    inputs = keras.Input((WIDTH,))
    x = keras.layers.Dense(200)(inputs)
    x = keras.layers.Add()([x, keras.layers.Activation("relu")(x), keras.layers.Dense(200)(x)])
    return keras.Model(inputs, keras.layers.Dense(10)(x))


@pytest.mark.parametrize(
    ("method", "model", "as_on_gpus"),
    [
        *(("fedlesam_d", plain, False), ("fedsmoo", plain, False), ("fedsam", residual, False)),
        ("fedlesam_d", plain, True),
    ],
)
def test_large_tensors(method, model, as_on_gpus, monkeypatch):
    """Two loops deep, sums of large tensors must not share a resource, as once in the first two.

    On GPUs only the rewrite that makes them do so is switched off.
    """
    x = np.zeros((2000, WIDTH), np.float32)
    x[:, 0] = 1
    dataset = FederatedDataset.from_arrays(x, np.arange(2000) % 10, np.arange(2000) % 8)
    process = LearningProcess(
        model,
        plugged(method),
        dataset,
        options=TrainingOptions(local_steps=4, lr=0.5, weight_decay=0.0, clip_norm=None),
        strategy=strategy(2),
    )
    if as_on_gpus:
        monkeypatch.setattr(process.engine.round._placement, "on_cpus", False)
    state = process.initialize()
    before = process.evaluate(state, dataset.train)["loss"]
    for _ in range(2):
        state, metrics = process.next(state, range(8))
        assert metrics["num_reported"] == 8
    # Without information the best is to give every class the same probability: log(10).
    after = process.evaluate(state, dataset.train)["loss"]
    assert np.log(10) - 1e-4 < after < max(before, np.log(10) + 0.2)
    options = tf.config.optimizer.get_experimental_options()
    assert not options.get("disable_meta_optimizer", False)


class TestRewrites:
    @staticmethod
    def told():
        """What a function that is called now would be given."""
        options = context.context().function_call_options
        config = tf.compat.v1.ConfigProto.FromString(options.config_proto_serialized)
        return config.graph_options.rewrite_options

    @pytest.mark.parametrize("on_cpus", [True, False])
    def test_all_on_cpus_and_one_on_gpus(self, on_cpus, monkeypatch):
        placement = Placement(strategy(2))
        assert placement.on_cpus
        monkeypatch.setattr(placement, "on_cpus", on_cpus)
        with placement.rewrites():
            rewrites = self.told()
        assert rewrites.disable_meta_optimizer == on_cpus
        spared = rewrites.memory_optimization == rewrites.NO_MEM_OPT
        assert spared == (not on_cpus)
        after = self.told()
        assert not after.disable_meta_optimizer
        assert after.memory_optimization != after.NO_MEM_OPT


def large_constants(function, least=10_000):
    """Names of a compiled function's operations that TensorFlow would keep in memory for good."""
    graph = function.get_concrete_function().graph.as_graph_def()
    found = []
    for nodes in (graph.node, *(f.node_def for f in graph.library.function)):
        sizes = {}
        for node in nodes:
            if node.op == "Const":
                value = tf.make_ndarray(node.attr["value"].tensor)
                sizes[node.name] = value
                if value.size >= least:
                    found.append(node.name)
        for node in nodes:
            dims = sizes.get(node.input[0].split(":")[0]) if node.op == "Fill" else None
            if dims is not None and np.prod(dims) >= least:
                found.append(node.name)
    return found


def test_what_is_found_to_be_large():
    assert large_constants(tf.function(lambda: tf.zeros([100, 100])))
    assert not large_constants(tf.function(lambda: tf.zeros([100, 99])))


@pytest.mark.parametrize("method", some_in_gate(["fedsmoo", "fedavg", "fedwmsam", "scaffold"], 4))
def test_no_model_is_a_constant_of_the_graph(method):
    """Zeros of the weights' shapes would be folded into constants: several models a device."""
    x = np.zeros((20, 100), np.float32)
    dataset = FederatedDataset.from_arrays(x, np.arange(20) % 10, np.arange(20) % 2)
    process = LearningProcess(
        lambda: keras.Sequential(
            [keras.Input((100,)), keras.layers.Dense(100), keras.layers.Dense(10)]
        ),
        plugged(method),
        dataset,
        options=TrainingOptions(local_steps=1, microbatch=2),
        strategy=strategy(2),
    )
    process.next(process.initialize(), range(2))
    assert not large_constants(process.engine.round.function)
