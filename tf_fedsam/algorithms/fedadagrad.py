"""FedAdagrad: Adagrad on the server.

Reddi et al., Adaptive Federated Optimization, ICLR 2021, arXiv:2003.00295.

    server:  FedAdam with  v <- v + D * D                  D = mean_i(delta_i)
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.fedadam import FedAdam
from tf_fedsam.hparams import Checked, hparam


class FedAdagrad(FedAdam):
    name = "fedadagrad"
    title = "FedAdagrad"
    summary = "Adagrad on the server"

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        beta1: float = hparam(0.9, "[0, 1)", "Decay of the mean of updates.")
        epsilon: float = hparam(
            1e-2,
            "(0, inf)",
            "Added to the root of the squares.",
            paper="1e-3",
        )

    def variance(self, old, square):
        return tree.add(old, square)
