"""FedLESAM-D: FedLESAM with FedDyn's dual and proximal terms.

Fan et al., ICML 2024, arXiv:2405.18890.

    client:  w_i <- w_i - lr * (g(w_i + e) + lamb * (h_i + w_i - start))   e as in FedLESAM
    duals and server: FedDyn
"""

import dataclasses

from tf_fedsam.algorithms.feddyn import FedDyn, FedDynClient
from tf_fedsam.algorithms.fedlesam import FedLESAM, LESAMServer, estimated_ascent
from tf_fedsam.hparams import hparam


class FedLESAMDClient(FedDynClient):
    perturbs = True

    def begin_round(self):
        super().begin_round()
        self.fixed.ascent = estimated_ascent(self)

    def train_step(self, data):
        batch = self.unpack(data)
        return self.dual_step(batch, self.gradient(batch, shift=self.fixed.ascent))


class FedLESAMD(LESAMServer, FedDyn):
    name = "fedlesam_d"
    title = "FedLESAM-D"
    paper = "Fan et al. 2024, arXiv:2405.18890"
    summary = "FedLESAM with FedDyn's dual and proximal terms"
    Client = FedLESAMDClient

    @dataclasses.dataclass(frozen=True)
    class Hparams(FedLESAM.Hparams):
        lamb: float = hparam(0.1, "[0, inf)", "Strength of the proximal term.", paper="0.1")
