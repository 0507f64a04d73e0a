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
from tf_fedsam.algorithms.base import Algorithm, check_flag, check_momentum, check_radius
from tf_fedsam.client import ClientModel


class NSAMClientMixin(ClientModel):
    """Computes the shift once a round, in front of any client model."""

    def begin_round(self):
        super().begin_round()
        momentum = self.round.received["momentum"]
        shift = tree.resize(momentum, -self.hparams.rho)
        if self.hparams.extrapolate:
            shift = tree.axpy(self.hparams.server_momentum, momentum, shift)
        self.round.shift = shift


class NSAMMixin(Algorithm):
    """Puts a server momentum behind any algorithm's move."""

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


class FedNSAMClient(NSAMClientMixin):
    def train_step(self, data):
        batch = self.unpack(data)
        return self.step(batch, self.gradient(batch, shift=self.round.shift))


class FedNSAM(NSAMMixin):
    name = "fednsam"
    title = "FedNSAM"
    paper = "Liu et al. 2025"
    summary = "one gradient ahead along the server's momentum, perturbed uphill"
    Client = FedNSAMClient
    downloads: tuple[str, ...] = ("weights", "momentum")

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        rho: float = 0.1
        server_momentum: float = 0.85
        extrapolate: bool = True
        apply_momentum: bool = True

        def __post_init__(self):
            check_radius(self.rho)
            check_momentum(self.server_momentum)
            check_flag("extrapolate", self.extrapolate)
            check_flag("apply_momentum", self.apply_momentum)
