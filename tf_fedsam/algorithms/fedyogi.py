"""FedYogi: Yogi on the server.

Reddi et al., Adaptive Federated Optimization, ICLR 2021, arXiv:2003.00295.

    server:  FedAdam with  v <- v - (1 - beta2) * D * D * sign(v - D * D)
"""

from tf_fedsam.algorithms.fedadam import FedAdam
from tf_fedsam.lazy import tf


class FedYogi(FedAdam):
    name = "fedyogi"
    title = "FedYogi"
    summary = "Yogi on the server"

    def variance(self, old, square):
        rate = 1 - self.hparams.beta2
        return [v - rate * s * tf.sign(v - s) for v, s in zip(old, square, strict=True)]
