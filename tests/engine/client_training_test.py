"""One client's part in a round: what a method may give back, and who counts."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import Toy, flat, strategy
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.feddyn import FedDyn
from tf_fedsam.algorithms.fedsam import FedSAM
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.engine.client_training import Trained
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess


class WrongUpload(FedAvg):
    def report(self, client, outcome):
        return {"model": outcome.weights}, {}


class WrongState(FedAvg):
    def report(self, client, outcome):
        return {"delta": outcome.delta}, {"secret": outcome.delta}


class WrongDownload(FedAvg):
    def download(self, server, row, round_):
        return {**server, "hint": server["weights"]}


class WrongSummands(FedAvg):
    def summands(self, contribution, server, round_):
        return {}


class WrongRow(FedAvg):
    def new_row(self, contribution, server, round_):
        return {"row": contribution.delta()}


class WrongServer(FedDyn):
    def server_step(self, server, aggregate, round_):
        return {"weights": aggregate.mean["model"]}


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (WrongUpload, "report (upload) must give exactly ['delta']. Received: ['model']."),
        (WrongState, "report (client state) must give exactly []. Received: ['secret']."),
        (WrongDownload, "download must give exactly ['weights']. Received: ['hint', 'weights']."),
        (WrongSummands, "summands must give exactly ['delta']. Received: []."),
        (WrongRow, "new_row must give exactly []. Received: ['row']."),
        (
            WrongServer,
            "server_step must give exactly ['dual_mean', 'weights']. Received: ['weights'].",
        ),
    ],
)
def test_a_method_gives_what_it_declares(algorithm, message):
    process = Toy().process(algorithm())
    with pytest.raises(ValueError, match=re.escape(message)):
        process.next(process.initialize(), [0])


@pytest.mark.parametrize("where", ["summands", "kept", "delta", None])
def test_what_diverged_does_not_count(where):
    vector = lambda name: [tf.constant([1.0, np.inf if name == where else 2.0])]  # noqa: E731
    trained = Trained(
        summands={"mean": vector("summands"), "scalar": tf.constant(1.0)},
        kept={"row": vector("kept")},
        weights=vector("weights"),
        delta=vector("delta"),
        statistics=[],
        loss=tf.constant(1.0),
        perturbation_norm=tf.constant(0.0),
    )
    assert bool(trained.is_finite()) == (where is None)


class TestXLA:
    @staticmethod
    def trained(algorithm, *, xla, dropout):
        """How far two rounds on two devices move the weights, and the BatchNorm statistics."""

        def network():
            layers = keras.layers
            inputs = keras.Input((6, 6, 1))
            x = layers.BatchNormalization()(layers.Conv2D(4, 3)(inputs))
            x = layers.Dropout(dropout, seed=3)(layers.Flatten()(keras.activations.relu(x)))
            return keras.Model(inputs, layers.Dense(3)(x))

        keras.utils.set_random_seed(0)
        x = np.random.default_rng(0).normal(size=(30, 6, 6, 1)).astype(np.float32)
        process = LearningProcess(
            network,
            algorithm,
            FederatedDataset.from_arrays(x, np.arange(30) % 3, np.arange(30) % 4),
            options=TrainingOptions(batch_size=3, local_epochs=2, xla=xla),
            strategy=strategy(2),
        )
        state = process.initialize()
        start = flat(state.server["weights"])
        for _ in range(2):
            state, _ = process.next(state, range(4))
        return flat(state.server["weights"]) - start, flat(state.server["model_state"])

    def test_batch_norm(self):
        """The same statistics as without it."""
        moved, statistics = self.trained(FedSAM(rho=0.1), xla=True, dropout=0.0)
        expected, expected_statistics = self.trained(FedSAM(rho=0.1), xla=False, dropout=0.0)
        np.testing.assert_allclose(moved, expected, atol=1e-5 * np.abs(expected).max())
        np.testing.assert_allclose(statistics, expected_statistics, rtol=1e-5, atol=1e-6)
        assert np.abs(expected).max() > 0.01

    def test_dropout(self):
        """Both gradients of a step see the same masks, so that without a radius nothing changes."""
        plain, _ = self.trained(FedAvg(), xla=True, dropout=0.5)
        sharp, _ = self.trained(FedSAM(rho=0.0), xla=True, dropout=0.5)
        np.testing.assert_allclose(sharp, plain, atol=1e-5 * np.abs(plain).max())
        undropped, _ = self.trained(FedAvg(), xla=True, dropout=0.0)
        assert np.abs(plain - undropped).max() > 0.01
