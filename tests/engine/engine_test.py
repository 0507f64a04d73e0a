"""What the rest of the library calls: results are in the order of the cohort, wherever computed.

That devices agree for every method: tests/algorithms/behaviour_test.py.
"""

import dataclasses

import numpy as np
import pytest

from tests.algorithms.harness import Toy, flat
from tf_fedsam.algorithms.scaffold import Scaffold
from tf_fedsam.data import batches


@pytest.fixture(scope="module")
def toy():
    return Toy()


@pytest.fixture(scope="module")
def process(toy):
    """SCAFFOLD, which keeps a vector for every client, on three devices."""
    return toy.process(Scaffold(), devices=3)


def run(process, positions, server=None, num_steps=None):
    """A round of some clients that were never there."""
    state = process.initialize()
    cohort = batches.plan(
        process.dataset.partition, np.asarray(positions), 0, 0, batch_size=4, local_epochs=2
    )
    if num_steps is not None:
        cohort = dataclasses.replace(cohort, num_steps=np.asarray(num_steps))
    rows = {"control": np.full((len(positions), 15), np.nan, np.float32)}
    seen = np.zeros(len(positions), bool)
    nobody = np.array([], int)
    server = state.server if server is None else server
    return process.engine.run_round(server, cohort, 0, 0.1, rows, seen, nobody)


def test_results_are_in_the_order_of_the_cohort(process):
    """Sizes 9, 4, 13, 1, 6 and 11 share out as they like; each alone gives the same numbers."""
    together = run(process, range(6))
    assert together.clients.reported.tolist() == [1] * 6
    for position in range(6):
        alone = run(process, [position])
        np.testing.assert_allclose(
            together.rows["control"][position], alone.rows["control"][0], rtol=1e-5, atol=1e-6
        )
        assert together.clients.loss[position] == pytest.approx(alone.clients.loss[0], rel=1e-5)
    assert len({tuple(row) for row in together.rows["control"]}) == 6


def test_nothing_happens_if_nobody_reports(process):
    """The very same vectors, whatever the server step would have made of nothing."""
    server = process.initialize().server
    result = run(process, [0, 3], server, num_steps=[0, 0])
    assert result.server is server
    assert result.clients.reported.tolist() == [0, 0]


def test_scalars_are_plain_numbers(process):
    before = process.initialize().server
    result = run(process, [0, 1, 2])
    assert all(type(value) is float for value in result.scalars.values())
    moved = flat(result.server["weights"]) - flat(before["weights"])
    assert result.scalars["update_norm"] == pytest.approx(np.linalg.norm(moved), rel=1e-4)


def test_it_is_traced_once(process):
    for cohort in ([0], [5, 1], [0, 1, 2, 3, 4, 5]):
        run(process, cohort)
    process.trace(process.initialize())
    assert process.engine.num_traces == 1


def test_evaluation_is_the_mean_over_predictions(process):
    server, train = process.initialize().server, process.dataset.train
    losses, classes = process.engine.predict(server, train)
    assert losses.shape == classes.shape == train.y.shape
    found = process.engine.evaluate(server, train)
    assert found["loss"] == pytest.approx(losses.mean())
    assert found["accuracy"] == np.mean(classes == train.y)


def test_row_lengths(process):
    assert process.engine.row_lengths(process.initialize().server) == {"control": 15}
