"""FedCM: local steps mixed with the last global update (client-level momentum).

Xu et al., FedCM: Federated Learning with Client-level Momentum, 2021, arXiv:2106.10874.

    client:  w_i <- w_i - lr * (alpha * g(w_i) + (1 - alpha) * D)
    server:  w   <- w + server_lr * mean_i(delta_i)
             D   <- -mean_i(delta_i / (num_steps_i * lr))  uphill, the mean local gradient

D starts at 0 without bias correction, so the first steps are short: alpha * lr.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import ClientModel
from tf_fedsam.hparams import Checked, hparam


class FedCMClient(ClientModel):
    def train_step(self, data):
        batch = self.unpack(data)
        gradient = self.gradient(batch)
        return self.step(
            batch,
            gradient,
            scale=self.hparams.alpha,
            correction=self.round.received["momentum"],
            correction_scale=1 - self.hparams.alpha,
        )


class FedCM(Algorithm):
    name = "fedcm"
    title = "FedCM"
    paper = "Xu et al. 2021, arXiv:2106.10874"
    summary = "local steps mixed with the last global update"
    Client = FedCMClient
    downloads: tuple[str, ...] = ("weights", "momentum")
    means: tuple[str, ...] = ("delta", "gradient")

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        alpha: float = hparam(
            0.1, "(0, 1]", "Weight of the local gradient against the momentum.", paper="0.1"
        )

    def server_vectors(self, weights):
        return {"momentum": tree.zeros_like(weights)}

    def summands(self, contribution, server, round_):
        return {"delta": contribution.delta(), "gradient": contribution.mean_gradient()}

    def server_step(self, server, aggregate, round_):
        moved = super().server_step(server, aggregate, round_)
        return {**moved, "momentum": aggregate.mean["gradient"]}

    def downhill_momentum(self, server):
        return tree.scale(-1.0, server["momentum"])
