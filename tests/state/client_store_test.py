"""What clients keep between rounds."""

import numpy as np
import pytest

from tf_fedsam.errors import CheckpointError
from tf_fedsam.state.client_store import ClientStore

LENGTHS = {"dual": 2, "last": 1}


def store() -> ClientStore:
    """Clients 4 and 7, with (1, 2 | 3) and (4, 5 | 6)."""
    clients = ClientStore(LENGTHS)
    matrices = {"dual": np.float32([[1, 2], [4, 5]]), "last": np.float32([[3], [6]])}
    clients.scatter(np.array([4, 7]), matrices, np.array([True, True]))
    return clients


def rows(clients) -> dict:
    return {
        p: {name: vector.tolist() for name, vector in clients.row(p).items()}
        for p in clients.positions
    }


def test_gather_gives_zeros_for_clients_without_a_row():
    matrices, seen = store().gather(np.array([7, 5, 4]))
    assert seen.tolist() == [True, False, True]
    assert matrices["dual"].tolist() == [[4, 5], [0, 0], [1, 2]]
    assert matrices["last"].tolist() == [[6], [0], [3]]


def test_scatter_keeps_what_the_mask_names_and_a_copy_of_it():
    clients = store()
    matrices = {"dual": np.float32([[8, 8], [9, 9]]), "last": np.float32([[8], [9]])}
    clients.scatter(np.array([4, 7]), matrices, np.array([False, True]))
    matrices["dual"][:] = 0
    assert rows(clients) == {4: {"dual": [1, 2], "last": [3]}, 7: {"dual": [9, 9], "last": [9]}}


def test_restore_cuts_a_row_into_its_vectors():
    clients = store()
    before = dict(clients.stamps)
    clients.restore(2, np.float32([1, 2, 3]))
    clients.restore(7, np.float32([4, 5, 7]))
    assert rows(clients) == {
        2: {"dual": [1, 2], "last": [3]},
        4: {"dual": [1, 2], "last": [3]},
        7: {"dual": [4, 5], "last": [7]},
    }
    assert clients.stamps[4] == before[4]
    assert clients.stamps[7] != before[7]
    assert clients.stamps[2] not in before.values()


def test_a_copy_is_independent_and_of_the_same_origin():
    clients = store()
    clients.origin = "a checkpoint"
    other = clients.copy()
    assert other.origin == "a checkpoint"
    assert other.stamps == clients.stamps
    other.restore(4, np.float32([0, 0, 0]))
    assert rows(clients)[4] == {"dual": [1, 2], "last": [3]}
    assert clients.stamps[4] != other.stamps[4]


def test_num_bytes_counts_the_rows():
    assert store().num_bytes == 2 * 3 * 4
    assert len(store()) == 2


def test_methods_without_client_state_keep_nothing():
    clients = ClientStore({})
    clients.scatter(np.array([1]), {}, np.array([True]))
    assert len(clients) == 0


class Elsewhere:
    """Rows that are made of their client's position."""

    def __init__(self):
        self.read_for = []

    def read(self, position):
        self.read_for.append(position)
        return np.float32([position, 0, -position])


def test_rows_that_are_elsewhere_are_read_when_they_are_needed():
    clients, source = store(), Elsewhere()
    before = dict(clients.stamps)
    clients.refer(2, source)
    assert clients.stamps[2] not in before.values()
    assert (clients.num_bytes, clients.bytes_in_memory) == (3 * 12, 2 * 12)
    assert not source.read_for
    matrices, seen = clients.gather(np.array([2, 4, 5]))
    assert seen.tolist() == [True, True, False]
    assert matrices["dual"].tolist() == [[2, 0], [1, 2], [0, 0]]
    assert matrices["last"].tolist() == [[-2], [3], [0]]
    assert source.read_for == [2]


def test_copies_release_a_row_together_and_new_rows_are_in_memory():
    clients, source = store(), Elsewhere()
    other = clients.copy()
    other.restore(7, np.float32([0, 0, 0]))
    clients.release(4, source)
    clients.release(7, source)
    assert clients.bytes_in_memory == 0
    assert other.bytes_in_memory == 12  # the other row of client 7
    assert rows(other) == {4: {"dual": [4, 0], "last": [-4]}, 7: {"dual": [0, 0], "last": [0]}}
    assert clients.stamps[4] == other.stamps[4]  # it is the same row
    matrices = {"dual": np.float32([[8, 8]]), "last": np.float32([[8]])}
    clients.scatter(np.array([4]), matrices, np.array([True]))
    assert clients.bytes_in_memory == 12
    assert rows(clients)[4] == {"dual": [8, 8], "last": [8]}


def test_rows_are_read_ahead_and_given_once():
    clients, source = store(), Elsewhere()
    for position in (1, 2, 3):
        clients.refer(position, source)
    clients.prefetch(np.array([4, 2, 9, 1]))  # in memory, away, unknown, away
    clients._ahead._thread.join()
    assert source.read_for == [2, 1]
    matrices, _ = clients.gather(np.array([1, 2]))
    assert matrices["last"].tolist() == [[-1], [-2]]
    assert source.read_for == [2, 1]
    clients.gather(np.array([1, 3]))
    assert source.read_for == [2, 1, 1, 3]
    clients.prefetch(np.array([4, 7]))
    assert clients._ahead is None


def test_what_was_read_ahead_is_not_used_for_another_row():
    clients, source = store(), Elsewhere()
    clients.refer(2, source)
    clients.prefetch(np.array([2]))
    clients.restore(2, np.float32([7, 7, 7]))
    assert rows(clients)[2] == {"dual": [7, 7], "last": [7]}

    class Another(Elsewhere):
        def read(self, position):
            return np.float32([9, 9, 9])

    clients.refer(2, source)
    clients.prefetch(np.array([2]))
    clients.refer(2, Another())
    assert rows(clients)[2] == {"dual": [9, 9], "last": [9]}


def test_a_row_that_cannot_be_read_ahead_is_told_to_who_asks():
    class Damaged(Elsewhere):
        def read(self, position):
            super().read(position)
            raise CheckpointError("damaged")

    clients, source = store(), Damaged()
    clients.refer(2, source)
    clients.prefetch(np.array([2]))
    clients._ahead._thread.join()
    assert source.read_for == [2]
    with pytest.raises(CheckpointError, match="damaged"):
        clients.gather(np.array([2]))
    assert clients.gather(np.array([4]))[1].all()
