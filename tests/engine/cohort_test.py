"""A cohort as arrays."""

import numpy as np
import pytest
import tensorflow as tf

from tf_fedsam.data.batches import Cohort
from tf_fedsam.engine import cohort as cohorts

# Three clients: three examples for two epochs in steps of two, none, one example once.
COHORT = Cohort(
    positions=np.array([2, 5, 9]),
    num_examples=np.array([3, 0, 1]),
    num_steps=np.array([4, 0, 1]),
    order=np.array([7, 5, 6, 5, 6, 7, 11]),
    order_start=np.array([0, 6, 6]),
    seeds=np.array([2**31 - 1, 1, 2]),
)
SEEN = np.array([1, 0, 0])
MEMBERS = [np.array([0]), np.array([1, 2])]


def made(weighting="uniform", members=MEMBERS):
    return cohorts.make(COHORT, SEEN, weighting, members)


@pytest.mark.parametrize(("weighting", "weights"), [("uniform", [1, 0, 1]), ("samples", [3, 0, 1])])
def test_weights(weighting, weights):
    """Who does no step has none."""
    assert made(weighting).clients.weight.tolist() == weights


def test_a_client():
    inputs = made()
    assert int(inputs.size) == 3
    client = inputs.client(2)
    assert (client.order_start, client.num_examples, client.num_steps) == (6, 1, 1)
    assert not client.seen
    assert inputs.client(0).seen
    assert inputs.client(0).seed == 2**31 - 1


def test_members_are_filled_up_with_nobody():
    inputs = made()
    assert inputs.members.tolist() == [[0, -1], [1, 2]]
    assert inputs.num_members.tolist() == [1, 2]
    alone = made(members=[np.arange(3), np.array([], int)])
    assert alone.members.tolist() == [[0, 1, 2], [-1, -1, -1]]
    assert alone.num_members.tolist() == [3, 0]


@pytest.mark.parametrize("members", [MEMBERS, [np.arange(3), np.array([], int)]])
def test_cohorts_of_any_size_fit_the_signature(members):
    """So that nothing is compiled twice."""
    specs = tf.nest.flatten(cohorts.signature(2))
    arrays = tf.nest.flatten(made(members=members))
    assert len(specs) == len(arrays)
    for spec, array in zip(specs, arrays, strict=True):
        assert spec.is_compatible_with(tf.constant(array))
