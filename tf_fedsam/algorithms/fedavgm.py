"""FedAvgM: FedAvg with momentum on the server.

Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification, 2019, arXiv:1909.06335.

    server:  m <- server_momentum * m + mean_i(delta_i)    downhill
             w <- w + server_lr * m
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm, check_momentum


class FedAvgM(Algorithm):
    name = "fedavgm"
    title = "FedAvgM"
    paper = "Hsu et al. 2019, arXiv:1909.06335"
    summary = "FedAvg with momentum on the server"
    own_momentum = "it already has a server momentum"

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        server_momentum: float = 0.9

        def __post_init__(self):
            check_momentum(self.server_momentum)

    def server_vectors(self, weights):
        return {"momentum": tree.zeros_like(weights)}

    def server_step(self, server, aggregate, round_):
        momentum = tree.axpy(
            self.hparams.server_momentum, server["momentum"], aggregate.mean["delta"]
        )
        weights = tree.axpy(self.server_lr, momentum, server["weights"])
        return {**server, "weights": weights, "momentum": momentum}
