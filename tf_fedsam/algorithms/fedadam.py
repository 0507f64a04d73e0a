"""FedAdam: Adam on the server, without bias correction.

Reddi et al., Adaptive Federated Optimization, ICLR 2021, arXiv:2003.00295.

    server:  m <- beta1 * m + (1 - beta1) * D              D = mean_i(delta_i), downhill
             v <- beta2 * v + (1 - beta2) * D * D
             w <- w + server_lr * m / (sqrt(v) + epsilon)

v starts at 0 with epsilon 0.01 and server_lr 0.1, as in the code of the papers compared with; the
original starts at epsilon^2.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.lazy import tf
from tf_fedsam.tree import Tree


class FedAdam(Algorithm):
    name = "fedadam"
    title = "FedAdam"
    paper = "Reddi et al. 2021, arXiv:2003.00295"
    summary = "Adam on the server"
    default_server_lr = 0.1
    own_momentum = "it already has a server momentum (beta1)"

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        beta1: float = hparam(0.9, "[0, 1)", "Decay of the mean of updates.", paper="0.9")
        beta2: float = hparam(0.99, "[0, 1]", "Decay of the mean of their squares.", paper="0.99")
        epsilon: float = hparam(
            1e-2,
            "(0, inf)",
            "Added to the root of the squares.",
            paper="1e-3",
        )

    def server_vectors(self, weights):
        return {"momentum": tree.zeros_like(weights), "variance": tree.zeros_like(weights)}

    def variance(self, old: Tree, square: Tree) -> Tree:
        """The new second moment from the old one and the squared update."""
        beta2 = self.hparams.beta2
        return tree.add(tree.scale(beta2, old), tree.scale(1 - beta2, square))

    def server_step(self, server, aggregate, round_):
        delta, beta1 = aggregate.mean["delta"], self.hparams.beta1
        momentum = tree.add(tree.scale(beta1, server["momentum"]), tree.scale(1 - beta1, delta))
        variance = self.variance(server["variance"], tree.mul(delta, delta))
        weights = [
            w + self.server_lr * m / (tf.sqrt(v) + self.hparams.epsilon)
            for w, m, v in zip(server["weights"], momentum, variance, strict=True)
        ]
        return {**server, "weights": weights, "momentum": momentum, "variance": variance}
