"""One client's part in a round: what a method may give back, and who counts."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import Toy
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.feddyn import FedDyn
from tf_fedsam.engine.client_training import Trained


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
