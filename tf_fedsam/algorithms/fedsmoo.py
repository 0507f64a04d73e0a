"""FedSMOO: FedDyn whose clients agree on a global perturbation.

Sun et al., Dynamic Regularized Sharpness Aware Minimization in Federated Learning, ICML 2023,
arXiv:2305.11584.

    client:  e    = rho * u(g(w_i) - mu_i - s)             u(v) = v / |v|
             mu_i <- mu_i + e - s                          in every local step
             w_i  <- w_i - lr * (g(w_i + e) + lamb * (h_i + w_i - start))
             h_i  <- h_i + delta_i
    server:  w    <- mean_i(w_i) + h,   s <- rho * u(mean_i(mu_i))

The paper's s normalises the mean of mu_i - e_i, with the last perturbation e_i; the authors' code
drops e_i and says so. `server` chooses: "mu" (the code, default) or "mu_minus_e" (the paper).
"""

import dataclasses

import tensorflow as tf

from tf_fedsam import tree
from tf_fedsam.algorithms.base import check, check_coefficient, check_radius
from tf_fedsam.algorithms.feddyn import FedDyn, FedDynClient


class FedSMOOClient(FedDynClient):
    gradients_per_step = 2

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.pull = self.local_vector("pull")  # mu_i + s
        self.ascent = self.local_vector("ascent") if self.hparams.server == "mu_minus_e" else None

    def begin_round(self):
        super().begin_round()
        s = self.round.received["perturbation"]
        self.set_local(self.pull, tree.add(self.round.state["mu"], s))

    def train_step(self, data):
        batch = self.unpack(data)
        pull, s = self.read_local(self.pull), self.round.received["perturbation"]
        ascent = tree.resize(tree.sub(self.gradient(batch), pull), self.hparams.rho)
        self.set_local(self.pull, tree.add(pull, tree.sub(ascent, s)))
        if self.ascent is not None:
            self.set_local(self.ascent, ascent)
        return self.dual_step(batch, self.gradient(batch, shift=ascent))


class FedSMOO(FedDyn):
    name = "fedsmoo"
    title = "FedSMOO"
    paper = "Sun et al. 2023, arXiv:2305.11584"
    summary = "FedDyn whose clients agree on a global perturbation"
    Client = FedSMOOClient
    downloads: tuple[str, ...] = ("weights", "perturbation")
    uploads: tuple[str, ...] = ("model", "mu")
    client_state: tuple[str, ...] = ("dual", "mu")
    means: tuple[str, ...] = ("model", "mu")

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        rho: float = 0.1
        lamb: float = 0.1
        server: str = "mu"

        def __post_init__(self):
            check_radius(self.rho)
            check_coefficient("lamb", self.lamb)
            check(self.server in ("mu", "mu_minus_e"), "server", self.server, "mu or mu_minus_e")

    def server_vectors(self, weights):
        return {**super().server_vectors(weights), "perturbation": tree.zeros_like(weights)}

    def report(self, client, outcome):
        upload, state = super().report(client, outcome)
        mu = tree.sub(client.read_local(client.pull), client.round.received["perturbation"])
        sent = mu if client.ascent is None else tree.sub(mu, client.read_local(client.ascent))
        return {**upload, "mu": sent}, {**state, "mu": mu}

    def summands(self, upload, outcome, client):
        return {**super().summands(upload, outcome, client), "mu": upload["mu"]}

    def server_step(self, server, aggregate, round_):
        moved = super().server_step(server, aggregate, round_)
        perturbation = tree.resize(aggregate.mean["mu"], tf.constant(self.hparams.rho))
        return {**moved, "perturbation": perturbation}
