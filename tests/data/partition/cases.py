"""Data sets and schemes that several tests look at."""

import numpy as np

from tf_fedsam.data import partition as partitions

N, C = 20, 10
LABELS = np.random.default_rng(0).integers(0, C, 2003)  # not a multiple of N
OWNERS = np.random.default_rng(1).integers(0, N, len(LABELS))
DISJOINT = {
    "iid": lambda seed: partitions.iid(LABELS, N, seed),
    "dirichlet": lambda seed: partitions.dirichlet(LABELS, N, 0.1, seed),
    "dirichlet, log-normal sizes": lambda seed: partitions.dirichlet(
        LABELS, N, 0.1, seed, sizes=partitions.client_sizes(len(LABELS), N, seed, 1.0)
    ),
    "dirichlet_classes": lambda seed: partitions.dirichlet_classes(LABELS, N, 0.1, seed),
    "shards": lambda seed: partitions.shards(LABELS, N, 2, seed),
    "by_client_id": lambda seed: partitions.by_client_id(OWNERS, seed),
    "validation": lambda seed: partitions.validation(LABELS, np.eye(N, C) + 0.01, seed),
}
RECYCLING = {
    "dirichlet": lambda seed: partitions.dirichlet(LABELS, N, 0.1, seed, replacement=True),
    "pathological": lambda seed: partitions.pathological(LABELS, N, 2, seed, replacement=True),
}
ALL = {f"{name}, disjoint": make for name, make in DISJOINT.items()} | {
    f"{name}, recycling": make for name, make in RECYCLING.items()
}


def uniform_labels(n):
    return np.arange(n) % C
