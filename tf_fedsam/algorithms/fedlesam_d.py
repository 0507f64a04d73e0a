"""FedLESAM-D: FedLESAM with FedDyn's dual and proximal terms.

Fan et al., ICML 2024, arXiv:2405.18890.

    client:  w_i <- w_i - lr * (g(w_i + e) + lamb * (h_i + w_i - start))   e as in FedLESAM
    duals and server: FedDyn
"""

import dataclasses

from tf_fedsam.algorithms.base import check_coefficient, check_radius
from tf_fedsam.algorithms.feddyn import FedDyn, FedDynClient
from tf_fedsam.algorithms.fedlesam import LESAMClientMixin, LESAMMixin, check_direction


class FedLESAMDClient(LESAMClientMixin, FedDynClient):
    def train_step(self, data):
        batch = self.unpack(data)
        return self.dual_step(batch, self.gradient(batch, shift=self.round.ascent))


class FedLESAMD(LESAMMixin, FedDyn):
    name = "fedlesam_d"
    title = "FedLESAM-D"
    paper = "Fan et al. 2024, arXiv:2405.18890"
    summary = "FedLESAM with FedDyn's dual and proximal terms"
    Client = FedLESAMDClient

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        rho: float = 0.01
        direction: str = "client_old"
        lamb: float = 0.1

        def __post_init__(self):
            check_radius(self.rho)
            check_direction(self.direction)
            check_coefficient("lamb", self.lamb)
