"""FedInit: clients start away from where they ended last time.

Sun, Shen and Tao, Rethinking the Personalized Relaxed Initialization in Federated Learning, 2023
and 2026, arXiv:2306.05706.

    client:  start = w + beta * (w - last_i)               last_i = w^0 before the first time
             w_i <- w_i - lr * g(w_i),  last_i <- w_i
    server:  w   <- mean_i(w_i)

The authors' code adds the mean of w_i - start to w instead (aggregate="delta"); the two agree under
full participation only. That form is relaxed initialisation as a plug-in on FedAvg.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.hparams import Checked, hparam


class FedInit(Algorithm):
    name = "fedinit"
    title = "FedInit"
    paper = "Sun et al. 2023, arXiv:2306.05706"
    summary = "clients start away from where they ended last time"
    beforehand: tuple[str, ...] = ("initial",)
    client_state: tuple[str, ...] = ("last_model",)
    own_start = "it already has a relaxed initialisation, beta"

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        beta: float = hparam(
            0.1, "[0, inf)", "How far clients start beyond the global model.", paper="0.1 in code"
        )
        aggregate: str = hparam(
            "model",
            {"model": "the mean of the local models", "delta": "w and the mean of the updates"},
            "What the server makes the new model from.",
            paper="model; delta in code",
        )

    def __init__(self, **kwargs):
        aggregate = kwargs.get("aggregate", self.Hparams.aggregate)
        self.model_form = aggregate == "model"
        self.uploads = self.means = (aggregate,)
        super().__init__(**kwargs)

    def server_vectors(self, weights):
        return {"initial": weights}

    def client_defaults(self, known):
        return {"last_model": known["initial"]}

    def start(self, received, state):
        return relaxed_start(received["weights"], state["last_model"], self.hparams.beta)

    def report(self, client, outcome):
        upload = {"model": outcome.weights} if self.model_form else {"delta": outcome.delta}
        return upload, {"last_model": outcome.weights}

    def server_step(self, server, aggregate, round_):
        if self.model_form:
            return {**server, "weights": aggregate.mean["model"]}
        return super().server_step(server, aggregate, round_)


def relaxed_start(weights, last, beta):
    """``weights + beta * (weights - last)``."""
    return tree.axpy(beta, tree.sub(weights, last), weights)
