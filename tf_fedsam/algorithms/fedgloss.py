"""FedGloSS: sharpness-aware on the server, with FedDyn's dual and proximal terms.

Caldarola, Cagnasso, Caputo and Ciccone, Beyond Local Sharpness: Communication-Efficient Global
Sharpness-aware Minimization for Federated Learning, CVPR 2025, arXiv:2412.03752.

    server:  sends z = w - rho * u(p)                      u(v) = v / |v|, z = w if p = 0
    client:  e   = rho_local * u(g(w_i))                   no e, and one gradient, if rho_local = 0
             w_i <- w_i - lr * (g(w_i + e) + lamb * (h_i + w_i - z)),  h_i <- h_i + delta_i
    server:  h   <- h + sum_i(delta_i) / num_clients       the mean of h_j over all clients
             w   <- w + mean_i(delta_i) + h,  p <- mean_i(delta_i)       from w, not from z

p is the last pseudo-gradient, downhill, so that z is uphill. The paper's dual is -lamb * h_i and
its penalty 1 / lamb. With warmup_rounds both radii grow linearly from rho_start, rho_start + (rho -
rho_start) * min(round / warmup_rounds, 1); a radius of 0 stays 0.

The authors' code divides the sum of the server's dual also by the size of the cohort, which makes
it that much weaker than printed: server_dual="official". It ramps the clients' radius alone; the
server has rho_local + (rho - rho_start) / warmup_rounds during the warm-up. It weights the mean by
examples but not the dual, as weighting="samples" does here. Its new centre and dual in every local
epoch add up to the rule above.
"""

from __future__ import annotations

import dataclasses

from tf_fedsam import checks, tree
from tf_fedsam.algorithms.feddyn import FedDyn, FedDynClient
from tf_fedsam.algorithms.fedsam import sam_gradient
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.lazy import tf


class FedGloSSClient(FedDynClient):
    gradients_per_step = 2
    perturbs = True

    def begin_round(self):
        super().begin_round()
        rho = self.hparams.warmed_up(self.hparams.rho_local, self.round.number)
        self.fixed.rho = self.radius(rho)

    def train_step(self, data):
        batch = self.unpack(data)
        return self.dual_step(batch, sam_gradient(self, batch, self.fixed.rho))


class FedGloSS(FedDyn):
    name = "fedgloss"
    title = "FedGloSS"
    paper = "Caldarola et al. 2025, arXiv:2412.03752"
    summary = "clients start uphill of the server's last move, with FedDyn's dual"
    Client = FedGloSSClient
    uploads: tuple[str, ...] = ("delta",)
    means: tuple[str, ...] = ("delta",)

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        rho: float = hparam(
            0.1, "[0, inf)", "Radius of the server's perturbation; 0 is none.", paper="0.01 to 0.15"
        )
        rho_local: float = hparam(
            0.1, "[0, inf)", "Radius of the clients' own; 0 saves a gradient.", paper="0.15 or 0.2"
        )
        lamb: float = hparam(
            0.1,
            "[0, inf)",
            "Strength of the proximal term; 1 / beta in the paper.",
            paper="0.1 or 0.01",
        )
        warmup_rounds: int = hparam(
            0,
            "[0, inf)",
            "Rounds over which the radii grow, 0 or at least 2.",
            paper="2000 or 15000",
        )
        rho_start: float = hparam(
            0.001, "[0, inf)", "Radius that the warm-up begins with.", paper="0.001 in code"
        )
        server_dual: str = hparam(
            "all",
            {"all": "the mean over all clients", "official": "that of the authors' code"},
            "Which mean of the duals the server adds.",
            paper="all; official in code",
        )

        def __post_init__(self):
            super().__post_init__()
            checks.require(
                self.warmup_rounds != 1,
                "hparams.warmup_rounds",
                self.warmup_rounds,
                "0 or at least 2",
                "0 is no warm-up.",
            )

        def warmed_up(self, rho: float, round_num: tf.Tensor | int) -> float | tf.Tensor:
            """The radius of a round, given the one after the warm-up."""
            if rho == 0 or self.warmup_rounds == 0:
                return rho
            share = tf.minimum(tf.cast(round_num, tf.float32) / self.warmup_rounds, 1.0)
            return self.rho_start + (rho - self.rho_start) * share

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        if self.hparams.rho_local == 0:
            self.Client = FedDynClient

    def server_vectors(self, weights):
        return {**super().server_vectors(weights), "last_delta": tree.zeros_like(weights)}

    def download(self, server, row, round_):
        rho = round_.radius(self.hparams.warmed_up(self.hparams.rho, round_.number))
        uphill = tree.resize(server["last_delta"], -rho)
        return {"weights": tree.add(server["weights"], uphill)}

    def report(self, client, outcome):
        return {"delta": outcome.delta}, super().report(client, outcome)[1]

    def server_step(self, server, aggregate, round_):
        delta, share = aggregate.mean["delta"], 1 / round_.num_clients
        if self.hparams.server_dual == "official":
            share = tf.math.divide_no_nan(share, aggregate.num_reporting)
        dual = tree.axpy(share, aggregate.total["delta"], server["dual_mean"])
        weights = tree.add(tree.add(server["weights"], delta), dual)
        return {**server, "weights": weights, "dual_mean": dual, "last_delta": delta}
