"""FedAvgM: FedAvg with momentum on the server.

Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification, 2019, arXiv:1909.06335.

    server:  m <- server_momentum * m + mean_i(delta_i)    downhill
             w <- w + server_lr * m
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.hparams import Checked, hparam


class FedAvgM(Algorithm):
    name = "fedavgm"
    title = "FedAvgM"
    paper = "Hsu et al. 2019, arXiv:1909.06335"
    summary = "FedAvg with momentum on the server"
    own_momentum = "it already has a server momentum"

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        server_momentum: float = hparam(
            0.9, "[0, 1)", "Share of the last move that the server makes again.", paper="0.9"
        )

    def server_vectors(self, weights):
        return {"momentum": tree.zeros_like(weights)}

    def server_step(self, server, aggregate, round_):
        momentum = tree.axpy(
            self.hparams.server_momentum, server["momentum"], aggregate.mean["delta"]
        )
        weights = tree.axpy(self.server_lr, momentum, server["weights"])
        return {**server, "weights": weights, "momentum": momentum}
