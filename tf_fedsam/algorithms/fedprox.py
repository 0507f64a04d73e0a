"""FedProx: local steps are pulled back to the model they started from.

Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, arXiv:1812.06127.

    client:  w_i <- w_i - lr * (g(w_i) + mu * (w_i - start))
    server:  FedAvg
"""

import dataclasses

from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import ClientModel, Proximal
from tf_fedsam.hparams import Checked, hparam


class FedProxClient(ClientModel):
    def begin_round(self):
        self.fixed.proximal = Proximal(self, self.hparams.mu)

    def train_step(self, data):
        batch = self.unpack(data)
        return self.step(batch, self.gradient(batch), **self.fixed.proximal.terms())


class FedProx(Algorithm):
    name = "fedprox"
    title = "FedProx"
    paper = "Li et al. 2020, arXiv:1812.06127"
    summary = "local steps pulled back to where they started"
    Client = FedProxClient
    proximal = True

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        mu: float = hparam(
            0.1,
            "[0, inf)",
            "Strength of the proximal term; 0 is FedAvg.",
            paper="0.001 to 1",
        )
