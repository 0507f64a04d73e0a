"""FedDyn: every client's loss gets a linear and a proximal term, so that local optima agree.

Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021, arXiv:2111.04263.

    client:  w_i <- w_i - lr * (g(w_i) + lamb * (h_i + w_i - start))
             h_i <- h_i + delta_i                          the dual, downhill, -gradient / lamb
    server:  w   <- mean_i(w_i) + h                        h = mean of h_j over all clients

All that a client sends is w_i: the server knows the model it sent and takes delta_i from there.
With lamb = 0 the duals still accumulate: there is no FedAvg limit.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import ClientModel, Proximal
from tf_fedsam.hparams import Checked, hparam


class FedDynClient(ClientModel):
    def begin_round(self):
        self.fixed.proximal = Proximal(self, self.hparams.lamb, self.round.state["dual"])

    def dual_step(self, batch, gradient):
        """A step with the dual and proximal terms, which FedDyn's relatives share."""
        return self.step(batch, gradient, **self.fixed.proximal.terms())

    def train_step(self, data):
        batch = self.unpack(data)
        return self.dual_step(batch, self.gradient(batch))


class FedDyn(Algorithm):
    name = "feddyn"
    title = "FedDyn"
    paper = "Acar et al. 2021, arXiv:2111.04263"
    summary = "a linear and a proximal term make local optima agree"
    Client = FedDynClient
    uploads: tuple[str, ...] = ("model",)
    client_state: tuple[str, ...] = ("dual",)
    means: tuple[str, ...] = ("model",)
    totals: tuple[str, ...] = ("delta",)
    model_form = True
    proximal = True

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        lamb: float = hparam(
            0.1, "[0, inf)", "Strength of the proximal term; alpha in the paper.", paper="0.1"
        )

    def server_vectors(self, weights):
        return {"dual_mean": tree.zeros_like(weights)}

    def report(self, client, outcome):
        dual = tree.add(client.round.state["dual"], outcome.delta)
        return {"model": outcome.weights}, {"dual": dual}

    def server_step(self, server, aggregate, round_):
        dual = tree.axpy(1 / round_.num_clients, aggregate.total["delta"], server["dual_mean"])
        return {**server, "weights": tree.add(aggregate.mean["model"], dual), "dual_mean": dual}
