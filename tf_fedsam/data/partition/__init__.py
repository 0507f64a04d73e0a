"""Cutting one labelled data set into clients.

    name                            sizes      examples          label skew
    iid                             balanced   disjoint          none
    dirichlet                       balanced   disjoint          p_i ~ Dir(alpha) per client
    dirichlet(replacement=True)     balanced   pools recycled    p_i ~ Dir(alpha) per client
    dirichlet_classes               unbalanced disjoint          Dir(alpha) over clients, per class
    pathological                    at most    disjoint          few classes per client, uniform
    pathological(replacement=True)  balanced   pools recycled    few classes per client, uniform
    shards                          balanced   disjoint          few label-sorted shards per client
    by_client_id                    as given   disjoint          as given

"Disjoint" schemes hand every example to exactly one client, unless explicit `sizes` ask for fewer
examples than there are; `pathological` leaves out what no client that has the class has room for.
"Pools recycled" is sampling with replacement: an image can be on several clients, or twice on one,
and some images are never used; `Partition.num_repeated` and `Partition.num_unused` count them.
`make` cuts by the name of a scheme, and `SCHEMES` tells which there are and which options each
takes.

Hsu, Qi, Brown. Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification. 2019. https://arxiv.org/abs/1909.06335 (a Dirichlet prior per client)
Acar et al. Federated Learning Based on Dynamic Regularization. ICLR 2021.
https://arxiv.org/abs/2111.04263 (a Dirichlet prior per client, clients take turns)
Yurochkin et al. Bayesian Nonparametric Federated Learning of Neural Networks. ICML 2019.
https://arxiv.org/abs/1905.12022 (a Dirichlet over clients for every class)
McMahan et al. Communication-Efficient Learning of Deep Networks from Decentralized Data. AISTATS
2017. https://arxiv.org/abs/1602.05629 (label-sorted shards)
"""

from tf_fedsam.data.partition.base import Partition
from tf_fedsam.data.partition.describe import statistics
from tf_fedsam.data.partition.registry import SCHEMES, Scheme, make
from tf_fedsam.data.partition.schemes import (
    by_client_id,
    dirichlet,
    dirichlet_classes,
    iid,
    pathological,
    shards,
    validation,
)
from tf_fedsam.data.partition.sizes import Sizes, client_sizes

__all__ = [
    "SCHEMES",
    "Partition",
    "Scheme",
    "Sizes",
    "by_client_id",
    "client_sizes",
    "dirichlet",
    "dirichlet_classes",
    "iid",
    "make",
    "pathological",
    "shards",
    "statistics",
    "validation",
]
