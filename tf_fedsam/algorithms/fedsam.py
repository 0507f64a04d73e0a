"""FedSAM: every local step is a sharpness-aware one.

Qu et al., Generalized Federated Learning via Sharpness Aware Minimization, ICML 2022,
arXiv:2206.02618; Caldarola et al., ECCV 2022, arXiv:2203.11834.

    client:  e   = rho * g(w_i) / |g(w_i)|                 ascent, on the same batch
             w_i <- w_i - lr * g(w_i + e)
    server:  FedAvg

The paper bounds the squared norm of e by rho and multiplies by a sign; as in its lemmas and in all
published code, rho is the radius here and e is the plain normalised gradient.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm, check_radius
from tf_fedsam.client import Batch, ClientModel
from tf_fedsam.tree import Tree


class FedSAMClient(ClientModel):
    gradients_per_step = 2

    def train_step(self, data):
        batch = self.unpack(data)
        return self.step(batch, sam_gradient(self, batch, self.hparams.rho))


class FedSAM(Algorithm):
    name = "fedsam"
    title = "FedSAM"
    paper = "Qu et al. 2022, arXiv:2206.02618"
    summary = "sharpness-aware local steps"
    Client = FedSAMClient

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        rho: float = 0.1

        def __post_init__(self):
            check_radius(self.rho)


def sam_gradient(client: ClientModel, batch: Batch, rho: float) -> Tree:
    """Gradient at the worst point within ``rho``, to first order."""
    ascent = tree.resize(client.gradient(batch), rho)
    return client.gradient(batch, shift=ascent)
