"""FedGAMMA: SCAFFOLD whose local steps are sharpness-aware.

Dai et al., FedGAMMA: Federated Learning with Global Sharpness-Aware Minimization, IEEE TNNLS 2023.

    client:  e   = rho * g(w_i) / |g(w_i)|                 not corrected
             w_i <- w_i - lr * (g(w_i + e) + c - c_i)
    controls and server: SCAFFOLD, so that controls estimate SAM gradients
"""

import dataclasses

from tf_fedsam.algorithms.fedsam import sam_gradient
from tf_fedsam.algorithms.scaffold import Scaffold, ScaffoldClient
from tf_fedsam.hparams import Checked, hparam


class FedGAMMAClient(ScaffoldClient):
    gradients_per_step = 2
    perturbs = True

    def train_step(self, data):
        batch = self.unpack(data)
        gradient = sam_gradient(self, batch, self.radius())
        return self.step(batch, gradient, correction=self.fixed.drift)


class FedGAMMA(Scaffold):
    name = "fedgamma"
    title = "FedGAMMA"
    paper = "Dai et al. 2023, IEEE TNNLS"
    summary = "SCAFFOLD with sharpness-aware local steps"
    Client = FedGAMMAClient

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        rho: float = hparam(
            0.01, "[0, inf)", "Radius of the perturbation; 0 is none.", paper="0.01 in code"
        )
