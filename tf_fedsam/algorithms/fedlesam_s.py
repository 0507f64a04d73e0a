"""FedLESAM-S: FedLESAM with SCAFFOLD's control variates.

Fan et al., ICML 2024, arXiv:2405.18890.

    client:  w_i <- w_i - lr * (g(w_i + e) + scale * (c - c_i))        e as in FedLESAM
    controls and server: SCAFFOLD

The authors' code multiplies the correction by 0.1 (scale=0.1), an argument it shares with the
proximal methods; 1 is SCAFFOLD's.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.fedlesam import FedLESAM, LESAMServer, estimated_ascent
from tf_fedsam.algorithms.scaffold import Scaffold, ScaffoldClient
from tf_fedsam.hparams import hparam


class FedLESAMSClient(ScaffoldClient):
    perturbs = True

    def begin_round(self):
        super().begin_round()
        self.fixed.ascent = estimated_ascent(self)
        self.fixed.drift = tree.scale(self.hparams.scale, self.fixed.drift)

    def train_step(self, data):
        batch = self.unpack(data)
        gradient = self.gradient(batch, shift=self.fixed.ascent)
        return self.step(batch, gradient, correction=self.fixed.drift)


class FedLESAMS(LESAMServer, Scaffold):
    name = "fedlesam_s"
    title = "FedLESAM-S"
    paper = "Fan et al. 2024, arXiv:2405.18890"
    summary = "FedLESAM with SCAFFOLD's control variates"
    Client = FedLESAMSClient

    @dataclasses.dataclass(frozen=True)
    class Hparams(FedLESAM.Hparams):
        scale: float = hparam(
            1.0, "[0, inf)", "Factor of the correction c - c_i.", paper="1; 0.1 in code"
        )
