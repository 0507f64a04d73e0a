"""Nesterov's extrapolation on the server, on top of any algorithm.

Liu et al., Consistency of Local and Global Flatness for Federated Learning, 2025 (its ablation).

    clients: are sent z = w + momentum * m in place of w
    server:  U = the method's own move from z
             m <- momentum * m + U,  w <- w + m            downhill

On FedAvg this is FedACG without its proximal term.
"""

from tf_fedsam import checks, tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.plugin import Plugin
from tf_fedsam.errors import InputError

MOMENTUM = "nesterov_momentum"


class Nesterov(Plugin):
    def __init__(self, inner: Algorithm, momentum: float = 0.85):
        super().__init__(inner)
        if inner.own_momentum:
            raise InputError(
                f"nesterov makes no sense on {inner.name}: {inner.own_momentum}. Remove it.",
                "nesterov",
            )
        checks.number("nesterov", momentum, "[0, 1)")
        self.momentum = momentum

    def server_vectors(self, weights):
        return {**self.inner.server_vectors(weights), MOMENTUM: tree.zeros_like(weights)}

    def row_defaults(self, server):
        return self.inner.row_defaults(self._seen_by_inner(server))

    def download(self, server, row, round_):
        return self.inner.download(self._seen_by_inner(server), row, round_)

    def summands(self, contribution, server, round_):
        return self.inner.summands(contribution, self._seen_by_inner(server), round_)

    def new_row(self, contribution, server, round_):
        return self.inner.new_row(contribution, self._seen_by_inner(server), round_)

    def server_step(self, server, aggregate, round_):
        ahead = self._seen_by_inner(server)
        moved = self.inner.server_step(ahead, aggregate, round_)
        move = tree.sub(moved["weights"], ahead["weights"])
        momentum = tree.axpy(self.momentum, server[MOMENTUM], move)
        return {**moved, "weights": tree.add(server["weights"], momentum), MOMENTUM: momentum}

    def downhill_momentum(self, server):
        return server[MOMENTUM]

    def describe(self):
        return {**self.inner.describe(), "nesterov": self.momentum}

    def _seen_by_inner(self, server):
        seen = {name: vector for name, vector in server.items() if name != MOMENTUM}
        seen["weights"] = tree.axpy(self.momentum, server[MOMENTUM], server["weights"])
        return seen
