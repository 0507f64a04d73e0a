"""FedLESAM: a sharpness-aware step with one gradient, perturbed along the last global move.

Fan et al., Locally Estimated Global Perturbations are Better than Local Perturbations for Federated
Sharpness-aware Minimization, ICML 2024, arXiv:2405.18890.

    client:  e   = rho * u(old_i - w)                      once a round; u(v) = v / |v|, u(0) = 0
             w_i <- w_i - lr * g(w_i + e)
             old_i <- w                                    the model received, for the next time
    server:  FedAvg

At a client's first participation e = 0. The authors' code takes the server's last move, the same
for all clients, instead of old_i: direction="server_last". It also uses only the first entries of
the direction, one for each tensor; this uses the whole vector, so their rho does not carry over.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm, check, check_radius
from tf_fedsam.client import ClientModel

DIRECTIONS = ("client_old", "server_last")


class LESAMClientMixin(ClientModel):
    """Estimates the perturbation once a round, in front of any client model."""

    def begin_round(self):
        super().begin_round()
        received, state = self.round.received, self.round.state
        if self.hparams.direction == "client_old":
            first = received["weights"]  # in fit, which is like a first participation
            old = first if self.in_fit else state["old_model"]
            uphill = tree.sub(old, received["weights"])
        else:
            uphill = tree.scale(-1.0, received["last_move"])
        self.round.ascent = tree.resize(uphill, self.hparams.rho)


class LESAMMixin(Algorithm):
    """Keeps what the perturbation is estimated from, in front of any algorithm."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        if self.hparams.direction == "client_old":
            self.client_state = (*self.client_state, "old_model")
        else:
            self.downloads = (*self.downloads, "last_move")

    def server_vectors(self, weights):
        vectors = super().server_vectors(weights)
        if self.hparams.direction == "server_last":
            vectors["last_move"] = tree.zeros_like(weights)
        return vectors

    def client_defaults(self, server):
        defaults = super().client_defaults(server)
        if self.hparams.direction == "client_old":
            defaults["old_model"] = server["weights"]
        return defaults

    def report(self, client, outcome):
        upload, state = super().report(client, outcome)
        if self.hparams.direction == "client_old":
            state = {**state, "old_model": client.round.received["weights"]}
        return upload, state

    def server_step(self, server, aggregate, round_):
        moved = super().server_step(server, aggregate, round_)
        if self.hparams.direction == "server_last":
            moved["last_move"] = tree.sub(moved["weights"], server["weights"])
        return moved


class FedLESAMClient(LESAMClientMixin):
    def train_step(self, data):
        batch = self.unpack(data)
        return self.step(batch, self.gradient(batch, shift=self.round.ascent))


class FedLESAM(LESAMMixin):
    name = "fedlesam"
    title = "FedLESAM"
    paper = "Fan et al. 2024, arXiv:2405.18890"
    summary = "one gradient, perturbed along the last global move"
    Client = FedLESAMClient

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        rho: float = 0.01
        direction: str = "client_old"

        def __post_init__(self):
            check_radius(self.rho)
            check_direction(self.direction)


def check_direction(direction: str) -> None:
    check(direction in DIRECTIONS, "direction", direction, " or ".join(DIRECTIONS))
