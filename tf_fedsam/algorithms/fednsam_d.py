"""FedNSAM-D: FedNSAM with FedDyn's dual and proximal terms.

Named in a table of Liu et al. 2025 without a definition; the natural one:

    client:  w_i <- w_i - lr * (g(w_i + shift) + lamb * (h_i + w_i - start))
    server:  U = FedDyn's move,  m <- server_momentum * m + U,  w <- w + m
"""

import dataclasses

from tf_fedsam.algorithms.base import check_coefficient
from tf_fedsam.algorithms.feddyn import FedDyn, FedDynClient
from tf_fedsam.algorithms.fednsam import FedNSAM, NSAMClientMixin, NSAMMixin


class FedNSAMDClient(NSAMClientMixin, FedDynClient):
    def train_step(self, data):
        batch = self.unpack(data)
        return self.dual_step(batch, self.gradient(batch, shift=self.round.shift))


class FedNSAMD(NSAMMixin, FedDyn):
    name = "fednsam_d"
    title = "FedNSAM-D"
    paper = "Liu et al. 2025"
    summary = "FedNSAM with FedDyn's dual and proximal terms"
    Client = FedNSAMDClient
    downloads: tuple[str, ...] = ("weights", "momentum")

    @dataclasses.dataclass(frozen=True)
    class Hparams(FedNSAM.Hparams):
        lamb: float = 0.1

        def __post_init__(self):
            super().__post_init__()
            check_coefficient("lamb", self.lamb)
