"""FedSWA: the learning rate falls in every round, and the server goes beyond the mean.

Liu et al., Improving Generalization in Federated Learning with Highly Heterogeneous Data via
Momentum-Based Stochastic Controlled Weight Averaging, ICML 2025, arXiv:2507.20016.

    client:  lr_k = lr * (1 - (1 - lr_end) * k / num_steps_i)          k = 0, 1, ...: the local step
             w_i <- w_i - lr_k * g(w_i)
    server:  w   <- w + server_lr * mean_i(delta_i)                    1.5 by default

lr_end is the paper's rho, which is no radius, and server_lr its alpha. The mean rate of a round is
lr * ((1 + lr_end) / 2 + (1 - lr_end) / (2 * num_steps_i)), 0.56 lr at the defaults and 50 steps:
compare with FedAvg at the same server_lr * mean rate. No mean over rounds is kept.

This is the authors' first code, but for a decay before round 0. Their present one ignores both
values: it has lr_end = 0, server_lr = 1, twice the rate, and a cosine over the rounds. In
`model.fit` the optimizer has the rate and its schedule.
"""

from __future__ import annotations

import dataclasses

from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import ClientModel
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.lazy import tf


class FedSWAClient(ClientModel):
    def schedule(self, step):
        num_steps = tf.cast(tf.maximum(self.round.num_steps, 1), tf.float32)
        return 1 - (1 - self.hparams.lr_end) * step / num_steps


class FedSWA(Algorithm):
    name = "fedswa"
    title = "FedSWA"
    paper = "Liu et al. 2025, arXiv:2507.20016"
    summary = "a rate that falls in every round, and a server step beyond the mean"
    Client = FedSWAClient
    default_server_lr = 1.5

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        lr_end: float = hparam(
            0.1,
            "[0, 1]",
            "Share of the rate at a round's end; rho in the paper.",
            paper="0.1 in code",
        )
