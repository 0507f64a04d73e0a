"""FedNSAM-D: FedNSAM with FedDyn's dual and proximal terms.

Named in a table of Liu et al. 2025 without a definition; the natural one:

    client:  w_i <- w_i - lr * (g(w_i + shift) + lamb * (h_i + w_i - start))
    server:  U = FedDyn's move,  m <- server_momentum * m + U,  w <- w + m
"""

import dataclasses

from tf_fedsam.algorithms.feddyn import FedDyn, FedDynClient
from tf_fedsam.algorithms.fednsam import FedNSAM, NSAMServer, momentum_shift
from tf_fedsam.hparams import hparam


class FedNSAMDClient(FedDynClient):
    perturbs = True

    def begin_round(self):
        super().begin_round()
        self.fixed.shift = momentum_shift(self)

    def train_step(self, data):
        batch = self.unpack(data)
        return self.dual_step(batch, self.gradient(batch, shift=self.fixed.shift))


class FedNSAMD(NSAMServer, FedDyn):
    name = "fednsam_d"
    title = "FedNSAM-D"
    paper = "Liu et al. 2025"
    summary = "FedNSAM with FedDyn's dual and proximal terms"
    Client = FedNSAMDClient
    downloads: tuple[str, ...] = ("weights", "momentum")

    @dataclasses.dataclass(frozen=True)
    class Hparams(FedNSAM.Hparams):
        lamb: float = hparam(0.1, "[0, inf)", "Strength of the proximal term.")
