"""Who trains whom, and what is added up over replicas."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import strategy
from tf_fedsam.engine.placement import Placement


def test_the_longest_goes_first_to_whoever_has_least_to_do():
    """5 to the first, 4 and 3 to the second, 2 and, both having 7 steps now, 1 to the first."""
    shares = Placement(strategy(2)).shares(np.array([5, 1, 4, 2, 3]))
    assert [s.tolist() for s in shares] == [[0, 1, 3], [2, 4]]


def test_clients_without_steps_are_spread_too():
    """They cost something: each counts as one step."""
    shares = Placement(strategy(3)).shares(np.zeros(6, int))
    assert [s.tolist() for s in shares] == [[0, 3], [1, 4], [2, 5]]


def test_a_replica_may_have_nobody():
    shares = Placement(strategy(3)).shares(np.array([2]))
    assert [s.tolist() for s in shares] == [[0], [], []]


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_totals_over_replicas(devices):
    """Replica r gives r + 1 and 10 (r + 1), of any structure: 1 + ... + devices in total."""
    placement = Placement(strategy(devices))

    @tf.function
    def run():
        def one():
            number = tf.cast(placement.replica(), tf.float32) + 1
            return {"a": number, "b": [(10 * number,)]}

        values = placement.run(one)
        return placement.total(values), placement.each(values["a"])

    total, each = run()
    expected = devices * (devices + 1) / 2
    assert float(total["a"]) == expected
    assert float(total["b"][0][0]) == 10 * expected
    assert [float(v) for v in each] == [r + 1 for r in range(devices)]
