"""FedGAMMA: SCAFFOLD whose local steps are sharpness-aware.

Dai et al., FedGAMMA: Federated Learning with Global Sharpness-Aware Minimization, IEEE TNNLS 2023.

    client:  e   = rho * g(w_i) / |g(w_i)|                 not corrected
             w_i <- w_i - lr * (g(w_i + e) + c - c_i)
    controls and server: SCAFFOLD, so that controls estimate SAM gradients
"""

import dataclasses

from tf_fedsam.algorithms.base import check_radius
from tf_fedsam.algorithms.fedsam import sam_gradient
from tf_fedsam.algorithms.scaffold import Scaffold, ScaffoldClient


class FedGAMMAClient(ScaffoldClient):
    gradients_per_step = 2

    def train_step(self, data):
        batch = self.unpack(data)
        gradient = sam_gradient(self, batch, self.hparams.rho)
        return self.step(batch, gradient, correction=self.round.drift)


class FedGAMMA(Scaffold):
    name = "fedgamma"
    title = "FedGAMMA"
    paper = "Dai et al. 2023, IEEE TNNLS"
    summary = "SCAFFOLD with sharpness-aware local steps"
    Client = FedGAMMAClient

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        rho: float = 0.01

        def __post_init__(self):
            check_radius(self.rho)
