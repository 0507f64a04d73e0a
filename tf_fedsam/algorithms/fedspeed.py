"""FedSpeed: FedDyn's dual with sharpness-aware local steps and a prox-corrected mean.

Sun et al., FedSpeed: Larger Local Interval, Less Communication Round, and Higher Generalization
Accuracy, ICLR 2023, arXiv:2302.10429.

    client:  e   = rho * g(w_i) / |g(w_i)|
             q   = (1 - alpha) * g(w_i) + alpha * g(w_i + e)
             w_i <- w_i - lr * (q + lamb * (h_i + w_i - start))
             h_i <- h_i + delta_i
    server:  w   <- mean_i(w_i + h_i)                      over the participants, who send the sum

The simulators of the papers compared with use FedDyn's server instead, the mean of h_j over all
clients: server="all". The two differ under partial participation.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.feddyn import FedDyn, FedDynClient
from tf_fedsam.hparams import Checked, hparam


class FedSpeedClient(FedDynClient):
    gradients_per_step = 2
    perturbs = True

    def train_step(self, data):
        batch, alpha = self.unpack(data), self.hparams.alpha
        gradient = self.gradient(batch)
        ascended = self.gradient(batch, shift=tree.resize(gradient, self.radius()))
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
    class Hparams(Checked):
        rho: float = hparam(0.1, "[0, inf)", "Radius of the perturbation; 0 is none.", paper="0.1")
        lamb: float = hparam(0.1, "[0, inf)", "Strength of the proximal term.", paper="0.1")
        alpha: float = hparam(
            1.0, "[0, 1]", "Weight of the perturbed gradient against the plain one.", paper="1"
        )
        server: str = hparam(
            "participants",
            {"participants": "those of the round's clients", "all": "those of all clients"},
            "Which duals the server adds.",
            paper="participants; all in code",
        )

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        if self.hparams.server == "participants":
            self.uploads = self.means = ("corrected_model",)
            self.totals = ()

    def server_vectors(self, weights):
        return {} if self.hparams.server == "participants" else super().server_vectors(weights)

    def report(self, client, outcome):
        upload, state = super().report(client, outcome)
        if self.hparams.server == "participants":
            upload = {"corrected_model": tree.add(upload["model"], state["dual"])}
        return upload, state

    def server_step(self, server, aggregate, round_):
        if self.hparams.server == "participants":
            return {**server, "weights": aggregate.mean["corrected_model"]}
        return super().server_step(server, aggregate, round_)
