"""Relaxed initialisation on top of any algorithm.

Sun, Shen and Tao, 2023, arXiv:2306.05706; the plug-in of their comparison with other methods.

    client:  start = w + beta * (w - last_i),  last_i <- w_i at the end

Whatever the method defines relative to the start (delta_i, proximal centres) uses this start; its
server step is unchanged. The server does not know the start, so a method that uploads the local
model alone and whose server needs delta_i (FedDyn and its relatives) uploads both with it.
"""

from tf_fedsam import checks
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.fedinit import relaxed_start
from tf_fedsam.algorithms.plugin import Plugin
from tf_fedsam.errors import InputError


class RelaxedInit(Plugin):
    def __init__(self, inner: Algorithm, beta: float = 0.1):
        super().__init__(inner)
        if inner.own_start:
            raise InputError(
                f"relaxed_init makes no sense on {inner.name}: {inner.own_start}. Remove it.",
                "relaxed_init",
            )
        checks.number("relaxed_init", beta, "[0, inf)")
        self.beta = beta
        self.beforehand = (*inner.beforehand, "initial")
        self.client_state = (*inner.client_state, "last_model")
        if "delta" in (*inner.means, *inner.totals) and "delta" not in inner.uploads:
            self.uploads = (*inner.uploads, "delta")

    def server_vectors(self, weights):
        return {**self.inner.server_vectors(weights), "initial": weights}

    def client_defaults(self, known):
        return {**self.inner.client_defaults(known), "last_model": known["initial"]}

    def start(self, received, state):
        return relaxed_start(self.inner.start(received, state), state["last_model"], self.beta)

    def report(self, client, outcome):
        upload, state = self.inner.report(client, outcome)
        if "delta" in self.uploads:
            upload = {**upload, "delta": outcome.delta}
        return upload, {**state, "last_model": outcome.weights}

    def describe(self):
        return {**self.inner.describe(), "relaxed_init": self.beta}
