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
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import ClientModel
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.tree import Tree


class FedLESAMClient(ClientModel):
    perturbs = True

    def begin_round(self):
        self.fixed.ascent = estimated_ascent(self)

    def train_step(self, data):
        batch = self.unpack(data)
        return self.step(batch, self.gradient(batch, shift=self.fixed.ascent))


def estimated_ascent(client: ClientModel) -> Tree:
    """The perturbation e, the same in all steps of a round."""
    received, state = client.round.received, client.round.state
    if client.hparams.direction == "client_old":
        first = received["weights"]  # in fit, which is like a first participation
        old = first if client.in_fit else state["old_model"]
        uphill = tree.sub(old, received["weights"])
    else:
        uphill = tree.scale(-1.0, received["last_move"])
    return tree.resize(uphill, client.radius())


class LESAMServer(Algorithm):
    """Keeps what the perturbation is estimated from; in front of any algorithm's class."""

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

    def client_defaults(self, known):
        defaults = super().client_defaults(known)
        if self.hparams.direction == "client_old":
            defaults["old_model"] = known["weights"]
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


class FedLESAM(LESAMServer):
    name = "fedlesam"
    title = "FedLESAM"
    paper = "Fan et al. 2024, arXiv:2405.18890"
    summary = "one gradient, perturbed along the last global move"
    Client = FedLESAMClient

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        rho: float = hparam(
            0.01, "[0, inf)", "Radius of the perturbation; 0 is none.", paper="0.01 to 0.1"
        )
        direction: str = hparam(
            "client_old",
            {
                "client_old": "back to the model that the client was sent the time before",
                "server_last": "back along the server's last move, one more vector down",
            },
            "Where the perturbation points.",
            paper="client_old; server_last in code",
        )
