"""FedNSAM: one gradient at a point ahead along the server's momentum, less a step back uphill.

Liu et al., Consistency of Local and Global Flatness for Federated Learning, 2025.

    client:  shift = server_momentum * m - rho * m / |m|   constant in the round, 0 if m = 0
             w_i <- w_i - lr * g(w_i + shift)              weight decay at w_i
    server:  m   <- server_momentum * m + server_lr * mean_i(delta_i)      downhill
             w   <- w + m

m is the momentum from before the round, and the perturbation is uphill, against m (the paper's
equations disagree with each other on both; its algorithm and lemmas have these). The released main
script does something else, a FedSAM with a momentum that does not accumulate. For the ablations,
extrapolate=False drops server_momentum * m from the shift, and apply_momentum=False also leaves the
momentum out of the model's move.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import ClientModel
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.tree import Tree


class FedNSAMClient(ClientModel):
    perturbs = True

    def begin_round(self):
        self.fixed.shift = momentum_shift(self)

    def train_step(self, data):
        batch = self.unpack(data)
        return self.step(batch, self.gradient(batch, shift=self.fixed.shift))


def momentum_shift(client: ClientModel) -> Tree:
    """From the local weights to where the gradient is taken, the same in all steps of a round."""
    hparams, momentum = client.hparams, client.round.received["momentum"]
    shift = tree.resize(momentum, -client.radius())
    if hparams.extrapolate:
        shift = tree.axpy(hparams.server_momentum, momentum, shift)
    return shift


class NSAMServer(Algorithm):
    """Puts a server momentum behind the move; in front of any algorithm's class."""

    own_momentum = "it already extrapolates along its server momentum"

    def server_vectors(self, weights):
        return {**super().server_vectors(weights), "momentum": tree.zeros_like(weights)}

    def server_step(self, server, aggregate, round_):
        moved = super().server_step(server, aggregate, round_)
        move = tree.sub(moved["weights"], server["weights"])
        momentum = tree.axpy(self.hparams.server_momentum, server["momentum"], move)
        if self.hparams.apply_momentum:
            moved["weights"] = tree.add(server["weights"], momentum)
        return {**moved, "momentum": momentum}


class FedNSAM(NSAMServer):
    name = "fednsam"
    title = "FedNSAM"
    paper = "Liu et al. 2025"
    summary = "one gradient ahead along the server's momentum, perturbed uphill"
    Client = FedNSAMClient
    downloads: tuple[str, ...] = ("weights", "momentum")

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        rho: float = hparam(0.1, "[0, inf)", "Radius of the perturbation; 0 is none.", paper="0.1")
        server_momentum: float = hparam(
            0.85, "[0, 1)", "Share of the last move that the server makes again.", paper="0.85"
        )
        extrapolate: bool = hparam(
            True,
            help="Take gradients where the momentum is heading.",
            paper="true",
        )
        apply_momentum: bool = hparam(
            True, help="Move the model by the momentum; false: by the update alone.", paper="true"
        )
