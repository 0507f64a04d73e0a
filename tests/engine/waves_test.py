"""A cohort in waves gives the same bits as in one wave."""

import numpy as np
import pytest

from tests.algorithms.harness import Toy, plugged
from tf_fedsam.data import batches
from tf_fedsam.engine import waves
from tf_fedsam.state.client_store import ClientStore


def test_every_client_is_in_one_wave_and_in_its_place():
    members = [np.array([0, 3, 4, 6]), np.array([1]), np.array([2, 5])]
    found = waves.split(members, 6)
    assert [[own.tolist() for own in wave] for wave in found] == [
        [[0, 3], [1], [2, 5]],
        [[4, 6], [], []],
    ]
    assert len(waves.split(members, 1)) == 4  # one a replica is the least
    assert len(waves.split(members, 100)) == 1


def test_a_part_of_a_cohort():
    partition = Toy().process(plugged("fedavg")).dataset.partition
    cohort = batches.plan(partition, np.arange(6), 0, 0, batch_size=4, local_epochs=2)
    some = waves.part(cohort, np.array([1, 4]))
    assert some.positions.tolist() == [1, 4]
    for entry, number in enumerate((1, 4)):
        received = batches.client_batches(some, entry, 4)
        expected = batches.client_batches(cohort, number, 4)
        assert [b.tolist() for b in received] == [b.tolist() for b in expected]
    assert some.seeds.tolist() == cohort.seeds[[1, 4]].tolist()


def test_rows_are_gathered_a_few_at_a_time():
    store = ClientStore({"a": 3, "b": 1})
    for position in (1, 20):
        store.restore(position, np.arange(4, dtype=np.float32) + position)
    positions = np.arange(2 * waves.GATHERED + 5)
    rows, seen = waves.gathered(store, positions)
    expected, expected_seen = store.gather(positions)
    np.testing.assert_array_equal(seen, expected_seen)
    assert list(rows) == ["a", "b"]
    for name, matrix in expected.items():
        np.testing.assert_array_equal(rows[name], matrix)


@pytest.mark.parametrize(
    ("algo", "devices", "wave"), [("scaffold", 2, 2), ("scaffold", 1, 3), ("feddyn", 2, 4)]
)
def test_the_same_bits(algo, devices, wave):
    """Weights, client state and log, over rounds in which clients come back."""
    toy = Toy()
    runs = []
    for size in (wave, 100):
        process = toy.process(plugged(algo), devices=devices, wave=size)
        state, told = process.initialize(toy.initial()), []
        for cohort in ([0, 1, 2, 3, 4, 5], [1, 3], [5, 4, 2, 1, 0]):
            state, metrics = process.next(state, cohort)
            del metrics["seconds"]
            told.append(metrics)
        runs.append((state, told))
    (a, log), (b, expected) = runs
    assert log == expected
    for name in b.server:
        for x, y in zip(a.server[name], b.server[name], strict=True):
            np.testing.assert_array_equal(x, y, name)
    assert a.clients.positions == b.clients.positions == list(range(6))
    for position in b.clients.positions:
        for name, row in b.clients.row(position).items():
            np.testing.assert_array_equal(a.clients.row(position)[name], row)


def test_it_is_traced_once():
    toy = Toy()
    process = toy.process(plugged("scaffold"), devices=2, wave=2)
    state = process.initialize(toy.initial())
    for cohort in (range(6), range(3), [5, 1, 2, 0]):
        state, _ = process.next(state, cohort)
    functions = process.engine._waves._functions
    assert [f.experimental_get_tracing_count() for f in functions] == [1, 1, 1]


def test_who_does_not_report_keeps_what_it_had():
    toy = Toy()
    process = toy.process(plugged("scaffold"), devices=2, wave=2)
    state = process.initialize(toy.initial())
    state.clients.restore(3, np.full(sum(state.clients.lengths.values()), np.nan, np.float32))
    stamp = state.clients.stamps[3]
    new, metrics = process.next(state, range(6))
    assert metrics["failed_client_ids"] == [3]
    assert new.clients.stamps[3] == stamp
    assert new.clients.positions == list(range(6))
    assert all(np.isfinite(w).all() for w in new.server["weights"])
