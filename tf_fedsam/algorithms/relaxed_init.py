"""Relaxed initialisation on top of any algorithm.

Sun, Shen and Tao, 2023, arXiv:2306.05706; the plug-in of their comparison with other methods.

    client:  start = w + beta * (w - last_i),  last_i <- w_i at the end

Whatever the method defines relative to the start (delta_i, proximal centres) uses this start; its
server step is unchanged.
"""

from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.fedinit import relaxed_start
from tf_fedsam.algorithms.plugin import Plugin
from tf_fedsam.errors import InputError


class RelaxedInit(Plugin):
    def __init__(self, inner: Algorithm, beta: float = 0.1):
        super().__init__(inner)
        if inner.own_start:
            raise InputError(
                f"relaxed_init makes no sense on {inner.name}: {inner.own_start}. "
                f"Remove it, or set --hparams.beta."
            )
        if not 0 <= beta < float("inf"):
            raise InputError(f"relaxed_init must be a number >= 0. Received: {beta}.")
        self.beta = beta
        self.client_state = (*inner.client_state, "last_model")

    def server_vectors(self, weights):
        return {**self.inner.server_vectors(weights), "initial": weights}

    def client_defaults(self, server):
        return {**self.inner.client_defaults(server), "last_model": server["initial"]}

    def start(self, client_round):
        last = client_round.state["last_model"]
        return relaxed_start(self.inner.start(client_round), last, self.beta)

    def report(self, client, outcome):
        upload, state = self.inner.report(client, outcome)
        return upload, {**state, "last_model": outcome.weights}

    def describe(self):
        return {**self.inner.describe(), "relaxed_init": self.beta}
