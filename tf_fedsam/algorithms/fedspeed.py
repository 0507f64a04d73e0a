"""FedSpeed: FedDyn's dual with sharpness-aware local steps and a prox-corrected mean.

Sun et al., FedSpeed: Larger Local Interval, Less Communication Round, and Higher Generalization
Accuracy, ICLR 2023, arXiv:2302.10429.

    client:  e   = rho * g(w_i) / |g(w_i)|
             q   = (1 - alpha) * g(w_i) + alpha * g(w_i + e)
             w_i <- w_i - lr * (q + lamb * (h_i + w_i - start))
             h_i <- h_i + delta_i
    server:  w   <- mean_i(w_i + h_i)                      over the participants

The simulators of the papers compared with use FedDyn's server instead, the mean of h_j over all
clients: server="all". The two differ under partial participation.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import check, check_coefficient, check_radius, check_unit
from tf_fedsam.algorithms.feddyn import FedDyn, FedDynClient


class FedSpeedClient(FedDynClient):
    gradients_per_step = 2

    def train_step(self, data):
        batch, alpha = self.unpack(data), self.hparams.alpha
        gradient = self.gradient(batch)
        ascended = self.gradient(batch, shift=tree.resize(gradient, self.hparams.rho))
        if alpha != 1:
            ascended = tree.axpy(alpha, ascended, tree.scale(1 - alpha, gradient))
        return self.dual_step(batch, ascended)


class FedSpeed(FedDyn):
    name = "fedspeed"
    title = "FedSpeed"
    paper = "Sun et al. 2023, arXiv:2302.10429"
    summary = "FedDyn's dual with sharpness-aware steps and a prox-corrected mean"
    Client = FedSpeedClient

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        rho: float = 0.1
        lamb: float = 0.1
        alpha: float = 1.0
        server: str = "participants"

        def __post_init__(self):
            check_radius(self.rho)
            check_coefficient("lamb", self.lamb)
            check_unit("alpha", self.alpha)
            valid = ("participants", "all")
            check(self.server in valid, "server", self.server, "participants or all")

    def summands(self, upload, outcome, client):
        summands = super().summands(upload, outcome, client)
        if self.hparams.server == "participants":
            dual = tree.add(client.round.state["dual"], outcome.delta)
            summands["model"] = tree.add(upload["model"], dual)
        return summands

    def server_step(self, server, aggregate, round_):
        moved = super().server_step(server, aggregate, round_)
        if self.hparams.server == "participants":
            moved["weights"] = aggregate.mean["model"]
        return moved
