"""MoFedSAM: FedSAM whose local steps are mixed with the last global update.

Qu et al., Generalized Federated Learning via Sharpness Aware Minimization, ICML 2022,
arXiv:2206.02618.

    client:  e   = rho * g(w_i) / |g(w_i)|
             w_i <- w_i - lr * (beta * g(w_i + e) + (1 - beta) * D)
    server:  w   <- w + server_lr * mean_i(delta_i)
             D   <- -mean_i(delta_i / (num_steps_i * lr))  uphill, the mean local gradient

The paper's D is the downhill update, which would push backwards, and its main text omits the scale
1 / (num_steps * lr) that its appendix has; both are read as above, as the authors' code does.
"""

import dataclasses

from tf_fedsam.algorithms.fedcm import FedCM
from tf_fedsam.algorithms.fedsam import sam_gradient
from tf_fedsam.client import ClientModel
from tf_fedsam.hparams import Checked, hparam


class MoFedSAMClient(ClientModel):
    gradients_per_step = 2
    perturbs = True

    def train_step(self, data):
        batch = self.unpack(data)
        gradient = sam_gradient(self, batch, self.radius())
        return self.step(
            batch,
            gradient,
            scale=self.hparams.beta,
            correction=self.round.received["momentum"],
            correction_scale=1 - self.hparams.beta,
        )


class MoFedSAM(FedCM):
    name = "mofedsam"
    title = "MoFedSAM"
    paper = "Qu et al. 2022, arXiv:2206.02618"
    summary = "FedSAM steps mixed with the last global update"
    Client = MoFedSAMClient

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        rho: float = hparam(0.1, "[0, inf)", "Radius of the perturbation; 0 is FedCM.", paper="0.5")
        beta: float = hparam(
            0.1, "(0, 1]", "Weight of the local gradient; 1 is FedSAM.", paper="0.1"
        )
