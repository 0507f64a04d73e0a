"""SCAFFOLD: control variates correct the drift of the local steps (option II).

Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020,
arXiv:1910.06378.

    client:  w_i <- w_i - lr * (g(w_i) + c - c_i)
             c_i <- c_i - c + G_i                          G_i = -delta_i / (num_steps_i * lr)
    server:  w   <- w + server_lr * mean_i(delta_i)
             c   <- c + sum_i(change of c_i) / num_clients

Controls are gradients, uphill. G_i is the mean effective step, with weight decay and clipping in
it, of the steps the client really did; the published simulators use the step count of client 0. As
in the paper a client sends delta_i and the change of c_i.
"""

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import ClientModel


class ScaffoldClient(ClientModel):
    def begin_round(self):
        self.fixed.drift = tree.sub(self.round.received["control"], self.round.state["control"])

    def train_step(self, data):
        batch = self.unpack(data)
        return self.step(batch, self.gradient(batch), correction=self.fixed.drift)


class Scaffold(Algorithm):
    name = "scaffold"
    title = "SCAFFOLD"
    paper = "Karimireddy et al. 2020, arXiv:1910.06378"
    summary = "control variates correct the drift of local steps"
    Client = ScaffoldClient
    downloads: tuple[str, ...] = ("weights", "control")
    uploads: tuple[str, ...] = ("delta", "control_change")
    client_state: tuple[str, ...] = ("control",)
    totals: tuple[str, ...] = ("control_change",)

    def server_vectors(self, weights):
        return {"control": tree.zeros_like(weights)}

    def report(self, client, outcome):
        change = tree.sub(outcome.mean_gradient(), client.round.received["control"])
        control = tree.add(client.round.state["control"], change)
        return {"delta": outcome.delta, "control_change": change}, {"control": control}

    def server_step(self, server, aggregate, round_):
        moved = super().server_step(server, aggregate, round_)
        control = tree.axpy(
            1 / round_.num_clients, aggregate.total["control_change"], server["control"]
        )
        return {**moved, "control": control}
