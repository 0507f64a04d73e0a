"""Networks that compute their activations again: the same training with less memory."""

import keras
import numpy as np
import pytest

from tests.algorithms.harness import flat, strategy
from tf_fedsam import models
from tf_fedsam.algorithms.fedsam import FedSAM
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.errors import InputError
from tf_fedsam.models.remat import rematerialise
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

calls = []


class NoisyBlock(keras.layers.Layer):
    """Counts how often it is traced."""

    def __init__(self):
        super().__init__()
        self.dense, self.dropout = keras.layers.Dense(5), keras.layers.Dropout(0.5, seed=1)

    def build(self, shape):
        self.dense.build(shape)

    def call(self, inputs):
        calls.append(inputs)
        return inputs + self.dropout(self.dense(inputs))


def noisy():
    inputs = keras.Input((5,))
    return keras.Model(inputs, keras.layers.Dense(3)(NoisyBlock()(NoisyBlock()(inputs))))


def vit():
    sizes = {"layers": 2, "dim": 16, "heads": 2, "mlp_dim": 16, "patch": 4, "dropout": 0.3}
    return models.build("vit_b16", (8, 8, 3), 3, {**models.options("vit_b16"), **sizes})


def swin():
    sizes = {"dim": 8, "depths": (2,), "heads": (2,), "window": 2, "patch": 2, "drop_path": 0.3}
    return models.build("swin_s", (8, 8, 3), 3, {**models.options("swin_s"), **sizes})


def trained(network, shape, **options):
    """The weights after two rounds with two gradients a step, and the process."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(24, *shape)).astype(np.float32)
    process = LearningProcess(
        network,
        FedSAM(rho=0.5),
        FederatedDataset.from_arrays(x, np.arange(24) % 3, np.arange(24) % 4),
        options=TrainingOptions(batch_size=4, local_epochs=1, **options),
        strategy=strategy(2),
    )
    state = process.initialize()
    for _ in range(2):
        state, _ = process.next(state, range(4))
    return flat(state.server["weights"]), process


@pytest.mark.parametrize(("network", "shape"), [(vit, (8, 8, 3)), (swin, (8, 8, 3)), (noisy, (5,))])
def test_trains_the_same_network(network, shape):
    """With dropout and stochastic depth, whose masks the second pass must draw again."""
    plain, _ = trained(network, shape)
    received, _ = trained(network, shape, remat=True)
    np.testing.assert_allclose(received, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{"microbatch": 2}, {"xla": True}])
def test_beside_other_options(options):
    plain, _ = trained(noisy, (5,), **options)
    received, _ = trained(noisy, (5,), remat=True, **options)
    np.testing.assert_allclose(received, plain, rtol=1e-5, atol=1e-6)


def test_blocks_run_twice_for_a_gradient():
    """Two blocks on two replicas, two gradients a step, each block once more for each."""
    del calls[:]
    trained(noisy, (5,), diagnostics=False)
    once = len(calls)
    del calls[:]
    trained(noisy, (5,), diagnostics=False, remat=True)
    assert len(calls) - once == 2 * 2 * 2


def test_the_exported_network_is_as_it_was():
    _, process = trained(noisy, (5,), remat=True)
    layer = process.network.layers[1]
    assert layer.call.__func__ is NoisyBlock.call


def test_networks_without_blocks():
    network = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)], name="plain")
    with pytest.raises(InputError, match=r"Received: plain, which has none") as caught:
        rematerialise(network)
    assert "--remat" in caught.value.with_flags()
