"""Statistics of a partition."""

import math

import numpy as np
import pytest

from tf_fedsam.data import partition as partitions
from tf_fedsam.data.partition import base


def test_many_clients_are_looked_at_a_part_at_a_time(monkeypatch):
    labels = np.random.default_rng(0).integers(0, 3, 100)
    partition = partitions.dirichlet(labels, 7, 0.5, seed=0)
    whole = partitions.statistics(partition, labels, 3)
    monkeypatch.setattr(base, "ENTRIES", 6)
    for name, value in partitions.statistics(partition, labels, 3).items():
        np.testing.assert_array_equal(value, whole[name], name)


def test_statistics_of_a_partition_worked_by_hand():
    labels = np.array([0, 0, 1, 1, 2, 2, 0, 1])
    partition = partitions.by_client_id([0, 0, 0, 0, 1, 1, 2, 2])
    values = partitions.statistics(partition, labels, 3)
    assert [values[f"size_{k}"] for k in ("min", "median", "max")] == [2, 2.0, 4]
    assert [values[f"classes_{k}"] for k in ("min", "median", "max")] == [1, 2.0, 2]
    # Mixes (1/2, 1/2, 0), (0, 0, 1), (1/2, 1/2, 0): entropies ln 2, 0, ln 2.
    assert values["mean_label_entropy"] == pytest.approx(2 * math.log(2) / 3)
    assert f"{values['label_entropy'][1]:.3f}" == "0.000"  # and not "-0.000"
    # Against (3/8, 3/8, 2/8): distances 1/4, 3/4, 1/4.
    assert values["mean_total_variation"] == pytest.approx(5 / 12)
    assert (values["num_repeated"], values["num_unused"]) == (0, 0)
    assert (values["num_clients"], values["num_examples"]) == (3, 8)
