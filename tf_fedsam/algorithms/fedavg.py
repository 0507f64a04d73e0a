"""FedAvg: local SGD, then the mean of the updates.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data,
AISTATS 2017, arXiv:1602.05629.

    client:  w_i <- w_i - lr * g(w_i)                      num_steps times, from w
    server:  w   <- w + server_lr * mean_i(delta_i)
"""

from tf_fedsam.algorithms.base import Algorithm


class FedAvg(Algorithm):
    name = "fedavg"
    title = "FedAvg"
    paper = "McMahan et al. 2017, arXiv:1602.05629"
    summary = "local SGD, then the mean of the updates"
