"""FedASAM: FedSAM with an adaptive perturbation, which ignores the scale of the weights.

Caldarola, Caputo and Ciccone, Improving Generalization in Federated Learning by Seeking Flat
Minima, ECCV 2022, arXiv:2203.11834.

    client:  T   = |w_i| + eta for kernels and scales, 1 for biases and offsets
             e   = rho * T^2 * g(w_i) / |T * g(w_i)|       norm over all variables together
             w_i <- w_i - lr * g(w_i + e)
    server:  FedAvg
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import ClientModel
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.lazy import tf


class FedASAMClient(ClientModel):
    gradients_per_step = 2
    perturbs = True

    def train_step(self, data):
        batch = self.unpack(data)
        sizes = [
            tf.ones_like(w) if _is_offset(v.name) else tf.abs(w) + self.hparams.eta
            for v, w in zip(self.network.trainable_variables, self.read_weights(), strict=True)
        ]
        scaled = tree.mul(sizes, self.gradient(batch))
        ascent = tree.mul(sizes, tree.resize(scaled, self.radius()))
        return self.step(batch, self.gradient(batch, shift=ascent))


class FedASAM(Algorithm):
    name = "fedasam"
    title = "FedASAM"
    paper = "Caldarola et al. 2022, arXiv:2203.11834"
    summary = "FedSAM with a perturbation scaled to each weight"
    Client = FedASAMClient

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        rho: float = hparam(0.7, "[0, inf)", "Radius in the scaled space; 0 is none.", paper="0.7")
        eta: float = hparam(
            0.2, "[0, inf)", "Added to |w| in the scale, so that small weights move.", paper="0.2"
        )


def _is_offset(name: str) -> bool:
    return "bias" in name or name == "beta"
