"""FedLESAM-S: FedLESAM with SCAFFOLD's control variates.

Fan et al., ICML 2024, arXiv:2405.18890.

    client:  w_i <- w_i - lr * (g(w_i + e) + scale * (c - c_i))        e as in FedLESAM
    controls and server: SCAFFOLD

The authors' code multiplies the correction by 0.1 (scale=0.1), an argument it shares with the
proximal methods; 1 is SCAFFOLD's.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import check_coefficient, check_radius
from tf_fedsam.algorithms.fedlesam import LESAMClientMixin, LESAMMixin, check_direction
from tf_fedsam.algorithms.scaffold import Scaffold, ScaffoldClient


class FedLESAMSClient(LESAMClientMixin, ScaffoldClient):
    def begin_round(self):
        super().begin_round()
        self.round.drift = tree.scale(self.hparams.scale, self.round.drift)

    def train_step(self, data):
        batch = self.unpack(data)
        gradient = self.gradient(batch, shift=self.round.ascent)
        return self.step(batch, gradient, correction=self.round.drift)


class FedLESAMS(LESAMMixin, Scaffold):
    name = "fedlesam_s"
    title = "FedLESAM-S"
    paper = "Fan et al. 2024, arXiv:2405.18890"
    summary = "FedLESAM with SCAFFOLD's control variates"
    Client = FedLESAMSClient

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        rho: float = 0.01
        direction: str = "client_old"
        scale: float = 1.0

        def __post_init__(self):
            check_radius(self.rho)
            check_direction(self.direction)
            check_coefficient("scale", self.scale)
