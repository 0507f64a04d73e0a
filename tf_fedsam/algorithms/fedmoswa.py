"""FedMoSWA: FedSWA with SCAFFOLD's control variates, of which the server's is a momentum.

Liu et al., ICML 2025, arXiv:2507.20016.

    client:  w_i <- w_i - lr_k * (g(w_i) + m - c_i)        lr_k as in FedSWA
             c_i <- c_i - m + G_i                          G_i = -delta_i / sum_k lr_k
    server:  w   <- w + server_lr * mean_i(delta_i)        1.5 by default
             m   <- m + gamma * mean_i(c_i - m)            of the new c_i and the old m, uphill

As the new c_i is a mean of gradients, m is FedCM's momentum smoothed by gamma. In the first round
that anybody reports in gamma is 1, as in the authors' code; the plain recursion has gamma there too
(first_round="gamma"), and clients that return early then hardly move, since m is almost 0.

The authors' code divides by num_steps * lr * (1 + lr_end) / 2, which is less than the sum of the
rates (normaliser="midpoint"), keeps controls for worker processes instead of clients, and clips the
gradient without m - c_i; gamma is 0.1 in their first code and 0.4 in the present one, which has
neither the falling rate nor the longer server step.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.fedswa import FedSWA, FedSWAClient
from tf_fedsam.algorithms.scaffold import Scaffold, ScaffoldClient
from tf_fedsam.errors import InputError
from tf_fedsam.hparams import hparam
from tf_fedsam.lazy import tf


class FedMoSWAClient(FedSWAClient, ScaffoldClient):
    """SCAFFOLD's steps at FedSWA's rates."""


class FedMoSWA(Scaffold):
    name = "fedmoswa"
    title = "FedMoSWA"
    paper = "Liu et al. 2025, arXiv:2507.20016"
    summary = "FedSWA with control variates, the server's a momentum"
    Client = FedMoSWAClient
    uploads: tuple[str, ...] = ("delta", "control")
    means: tuple[str, ...] = ("delta", "control")
    totals: tuple[str, ...] = ()
    default_server_lr = FedSWA.default_server_lr

    @dataclasses.dataclass(frozen=True)
    class Hparams(FedSWA.Hparams):
        gamma: float = hparam(
            0.2, "(0, 1]", "How fast the server's control follows.", paper="0.1 or 0.4 in code"
        )
        normaliser: str = hparam(
            "sum",
            {
                "sum": "the sum of the rates used",
                "midpoint": "the steps times the mean of the ends",
            },
            "What a client's move is divided by.",
            paper="midpoint in code",
        )
        first_round: str = hparam(
            "full",
            {"full": "the mean of the clients' controls", "gamma": "that times gamma"},
            "The server's control after round 0.",
            paper="full in code",
        )

    def report(self, client, outcome):
        if self.hparams.normaliser == "midpoint":
            if client.local_options.momentum:
                raise InputError(
                    "normaliser=midpoint is the authors' sum of plain steps, which local_momentum "
                    "makes longer. Use normaliser=sum, or remove local_momentum.",
                    *("hparams.normaliser", "local_momentum"),
                )
            midpoint = client.round.lr * (1 + self.hparams.lr_end) / 2
            outcome = dataclasses.replace(outcome, lr_sum=outcome.num_steps * midpoint)
        state = super().report(client, outcome)[1]
        return {"delta": outcome.delta, "control": state["control"]}, state

    def server_step(self, server, aggregate, round_):
        moved = Algorithm.server_step(self, server, aggregate, round_)
        old, gamma = server["control"], self.hparams.gamma
        if self.hparams.first_round == "full":
            gamma = tf.where(tree.norm(old) > 0, gamma, 1.0)  # 0 until somebody reports
        fresh = tree.sub(aggregate.mean["control"], old)
        return {**moved, "control": tree.axpy(gamma, fresh, old)}

    def downhill_momentum(self, server):
        return tree.scale(-1.0, server["control"])
