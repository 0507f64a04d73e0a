"""Arguments that no scheme can work with."""

import math
import warnings

import numpy as np
import pytest

from tf_fedsam.data import partition as partitions
from tf_fedsam.errors import InputError

Y = np.arange(12) % 3
BAD = {
    "alpha zero": lambda: partitions.dirichlet(Y, 3, 0.0, 1),
    "alpha negative": lambda: partitions.dirichlet(Y, 3, -1.0, 1, replacement=True),
    "alpha nan": lambda: partitions.dirichlet_classes(Y, 3, math.nan, 1),
    "alpha infinite": lambda: partitions.dirichlet(Y, 3, math.inf, 1),
    "alpha a word": lambda: partitions.dirichlet(Y, 3, "iid", 1),
    "too many clients, iid": lambda: partitions.iid(12, 13, 1),
    "too many clients, dirichlet": lambda: partitions.dirichlet(Y, 13, 1.0, 1),
    "too many clients, classes": lambda: partitions.dirichlet_classes(Y, 13, 1.0, 1),
    "too many clients, sizes": lambda: partitions.client_sizes(12, 13, 1),
    "too many clients, pathological": lambda: partitions.pathological(Y, 13, 1, 1),
    "too many clients, validation": lambda: partitions.validation(Y, np.ones((13, 3)), 1),
    "too many shards": lambda: partitions.shards(Y, 5, 3, 1),
    "min_size too large": lambda: partitions.dirichlet_classes(Y, 3, 1.0, 1, min_size=5),
    "min_size negative": lambda: partitions.dirichlet_classes(Y, 3, 1.0, 1, min_size=-1),
    "no clients": lambda: partitions.dirichlet(Y, 0, 1.0, 1),
    "no clients, iid": lambda: partitions.iid(Y, 0, 1),
    "no clients, sizes": lambda: partitions.client_sizes(5, -1, 1),
    "clients with a fraction": lambda: partitions.iid(Y, 2.5, 1),
    "no shards": lambda: partitions.shards(Y, 3, 0, 1),
    "a class too small to share": lambda: partitions.pathological([0, 1, 1, 1], 2, 2, 1),
    "no classes per client": lambda: partitions.pathological(Y, 3, 0, 1),
    "too many classes per client": lambda: partitions.pathological(Y, 3, 4, 1),
    "no labels": lambda: partitions.iid([], 1, 1),
    "no labels, dirichlet": lambda: partitions.dirichlet(np.array([], int), 1, 1.0, 1),
    "no examples": lambda: partitions.iid(0, 1, 1),
    "negative labels": lambda: partitions.dirichlet(Y - 1, 3, 1.0, 1),
    "labels with a fraction": lambda: partitions.shards(Y * 0.5, 3, 1, 1),
    "labels in a column": lambda: partitions.dirichlet(Y[:, None], 3, 1.0, 1),
    "huge label": lambda: partitions.dirichlet(np.array([0, 2**40]), 1, 1.0, 1),
    "huge table": lambda: partitions.dirichlet(np.arange(600_000), 1000, 1.0, 1),
    "too few sizes": lambda: partitions.dirichlet(Y, 3, 1.0, 1, sizes=[4, 4]),
    "no sizes": lambda: partitions.dirichlet(Y, 3, 1.0, 1, sizes=[]),
    "a size of zero": lambda: partitions.iid(Y, 3, 1, sizes=[6, 6, 0]),
    "sizes with fractions": lambda: partitions.iid(Y, 3, 1, sizes=[4.0, 4.0, 4.0]),
    "sizes too large": lambda: partitions.dirichlet(Y, 3, 1.0, 1, sizes=[5, 5, 5]),
    "sigma negative": lambda: partitions.client_sizes(12, 3, 1, -0.1),
    "sigma nan": lambda: partitions.client_sizes(12, 3, 1, math.nan),
    "ids with fractions": lambda: partitions.by_client_id([0.5, 1.0]),
    "no ids": lambda: partitions.by_client_id([]),
    "ids of several types": lambda: partitions.by_client_id(np.array([1, "a"], object)),
    "unknown test class": lambda: partitions.validation(Y, np.ones((3, 2)), 1),
    "negative priors": lambda: partitions.validation(Y, -np.ones((3, 3)), 1),
    "priors of one client": lambda: partitions.validation(Y, np.ones(3), 1),
    "labels of another data set": lambda: partitions.iid(Y, 3, 1).class_counts(Y[:-1], 3),
    "too few classes": lambda: partitions.iid(Y, 3, 1).class_counts(Y, 2),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_explained(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=r"^Received .*Expected .*\. [A-Z].*\.$"):
            BAD[name]()
