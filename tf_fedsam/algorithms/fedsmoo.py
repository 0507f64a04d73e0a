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

from tf_fedsam import tree
from tf_fedsam.algorithms.feddyn import FedDyn, FedDynClient
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.lazy import tf


class FedSMOOClient(FedDynClient):
    gradients_per_step = 2
    perturbs = True

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
        ascent = tree.resize(tree.sub(self.gradient(batch), pull), self.radius())
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
    class Hparams(Checked):
        rho: float = hparam(0.1, "[0, inf)", "Radius of the perturbation; 0 is none.", paper="0.1")
        lamb: float = hparam(
            0.1, "[0, inf)", "Strength of the proximal term; 1 / beta in the paper.", paper="0.1"
        )
        server: str = hparam(
            "mu",
            {"mu": "mu_i", "mu_minus_e": "mu_i - e of the last step"},
            "What the server makes the common perturbation from.",
            paper="mu_minus_e; mu in code",
        )

    def server_vectors(self, weights):
        return {**super().server_vectors(weights), "perturbation": tree.zeros_like(weights)}

    def report(self, client, outcome):
        upload, state = super().report(client, outcome)
        mu = tree.sub(client.read_local(client.pull), client.round.received["perturbation"])
        sent = mu if client.ascent is None else tree.sub(mu, client.read_local(client.ascent))
        return {**upload, "mu": sent}, {**state, "mu": mu}

    def server_step(self, server, aggregate, round_):
        moved = super().server_step(server, aggregate, round_)
        perturbation = tree.resize(
            aggregate.mean["mu"], tf.convert_to_tensor(round_.radius(self.hparams.rho))
        )
        return {**moved, "perturbation": perturbation}
