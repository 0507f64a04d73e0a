"""FedNSAM-S: FedNSAM with SCAFFOLD's control variates.

Named in a table of Liu et al. 2025 without a definition; the natural one:

    client:  w_i <- w_i - lr * (g(w_i + shift) + c - c_i)  shift as in FedNSAM
    server:  controls as in SCAFFOLD, momentum on the mean update as in FedNSAM
"""

from tf_fedsam.algorithms.fednsam import FedNSAM, NSAMServer, momentum_shift
from tf_fedsam.algorithms.scaffold import Scaffold, ScaffoldClient


class FedNSAMSClient(ScaffoldClient):
    perturbs = True

    def begin_round(self):
        super().begin_round()
        self.fixed.shift = momentum_shift(self)

    def train_step(self, data):
        batch = self.unpack(data)
        gradient = self.gradient(batch, shift=self.fixed.shift)
        return self.step(batch, gradient, correction=self.fixed.drift)


class FedNSAMS(NSAMServer, Scaffold):
    name = "fednsam_s"
    title = "FedNSAM-S"
    paper = "Liu et al. 2025"
    summary = "FedNSAM with SCAFFOLD's control variates"
    Client = FedNSAMSClient
    Hparams = FedNSAM.Hparams
    downloads: tuple[str, ...] = ("weights", "control", "momentum")
