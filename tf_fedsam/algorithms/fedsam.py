"""FedSAM: every local step is a sharpness-aware one.

Qu et al., Generalized Federated Learning via Sharpness Aware Minimization, ICML 2022,
arXiv:2206.02618; Caldarola et al., ECCV 2022, arXiv:2203.11834.

    client:  e   = rho * g(w_i) / |g(w_i)|                 ascent, on the same batch
             w_i <- w_i - lr * g(w_i + e)
    server:  FedAvg

The paper bounds the squared norm of e by rho and multiplies by a sign; as in its lemmas and in all
published code, rho is the radius here and e is the plain normalised gradient.
"""

from __future__ import annotations

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import Batch, ClientModel
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.lazy import tf
from tf_fedsam.tree import Tree


class FedSAMClient(ClientModel):
    gradients_per_step = 2
    perturbs = True

    def train_step(self, data):
        batch = self.unpack(data)
        return self.step(batch, sam_gradient(self, batch, self.radius()))


class FedSAM(Algorithm):
    name = "fedsam"
    title = "FedSAM"
    paper = "Qu et al. 2022, arXiv:2206.02618"
    summary = "sharpness-aware local steps"
    Client = FedSAMClient

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        rho: float = hparam(
            0.1,
            "[0, inf)",
            "Radius of the perturbation; 0 is FedAvg.",
            paper="0.5; best 0.2 on EMNIST, 0.5 on CIFAR-10, 0.6 on CIFAR-100",
        )


def sam_gradient(client: ClientModel, batch: Batch, rho: float | tf.Tensor) -> Tree:
    """Gradient at the worst point within ``rho``, to first order."""
    ascent = tree.resize(client.gradient(batch), rho)
    return client.gradient(batch, shift=ascent)
