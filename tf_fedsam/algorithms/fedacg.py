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
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.fedprox import FedProxClient
from tf_fedsam.hparams import Checked, hparam


class FedACG(Algorithm):
    name = "fedacg"
    title = "FedACG"
    paper = "Kim et al. 2024, arXiv:2201.03172"
    summary = "FedProx from where the server's momentum is heading"
    Client = FedProxClient
    own_momentum = "it already starts from a point extrapolated along its server momentum"
    proximal = True

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        server_momentum: float = hparam(
            0.85, "[0, 1)", "Share of the last move that the server makes again.", paper="0.85"
        )
        mu: float = hparam(
            2e-3, "[0, inf)", "Strength of the proximal term; 0 is none.", paper="2e-3 in code"
        )

    def server_vectors(self, weights):
        return {"momentum": tree.zeros_like(weights)}

    def download(self, server, row, round_):
        ahead = tree.axpy(self.hparams.server_momentum, server["momentum"], server["weights"])
        return {"weights": ahead}

    def server_step(self, server, aggregate, round_):
        move = tree.scale(self.server_lr, aggregate.mean["delta"])
        momentum = tree.axpy(self.hparams.server_momentum, server["momentum"], move)
        return {**server, "weights": tree.add(server["weights"], momentum), "momentum": momentum}
