"""FedACG: clients start from where the server's momentum is heading.

Kim, Kim and Han, Communication-Efficient Federated Learning with Accelerated Client Gradient, CVPR
2024, arXiv:2201.03172.

    client:  starts at z = w + server_momentum * m         all that is sent
             w_i <- w_i - lr * (g(w_i) + mu * (w_i - z))
    server:  m   <- server_momentum * m + server_lr * mean_i(delta_i)
             w   <- w + m                                  delta_i from z, downhill

The authors' code also decays the learning rate after every local epoch; this does not.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm, check_coefficient, check_momentum
from tf_fedsam.algorithms.fedprox import FedProxClient


class FedACG(Algorithm):
    name = "fedacg"
    title = "FedACG"
    paper = "Kim et al. 2024, arXiv:2201.03172"
    summary = "FedProx from where the server's momentum is heading"
    Client = FedProxClient
    own_momentum = "it already starts from a point extrapolated along its server momentum"
    proximal = True

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        server_momentum: float = 0.85
        mu: float = 2e-3

        def __post_init__(self):
            check_momentum(self.server_momentum)
            check_coefficient("mu", self.mu)

    def server_vectors(self, weights):
        return {"momentum": tree.zeros_like(weights)}

    def download(self, server, state):
        ahead = tree.axpy(self.hparams.server_momentum, server["momentum"], server["weights"])
        return {"weights": ahead}

    def server_step(self, server, aggregate, round_):
        move = tree.scale(self.server_lr, aggregate.mean["delta"])
        momentum = tree.axpy(self.hparams.server_momentum, server["momentum"], move)
        return {**server, "weights": tree.add(server["weights"], momentum), "momentum": momentum}
