"""FedAdagrad: Adagrad on the server.

Reddi et al., Adaptive Federated Optimization, ICLR 2021, arXiv:2003.00295.

    server:  FedAdam with  v <- v + D * D                  D = mean_i(delta_i)
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import check_momentum, check_positive
from tf_fedsam.algorithms.fedadam import FedAdam


class FedAdagrad(FedAdam):
    name = "fedadagrad"
    title = "FedAdagrad"
    summary = "Adagrad on the server"

    @dataclasses.dataclass(frozen=True)
    class Hparams:
        beta1: float = 0.9
        epsilon: float = 1e-2

        def __post_init__(self):
            check_momentum(self.beta1, "beta1")
            check_positive("epsilon", self.epsilon)

    def variance(self, old, square):
        return tree.add(old, square)
