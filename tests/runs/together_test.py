"""What workers have in common; several of them are in integration/workers_test.py."""

import numpy as np
import pytest
import tensorflow as tf

from tf_fedsam.errors import InputError
from tf_fedsam.process import State
from tf_fedsam.runs import together
from tf_fedsam.state.client_store import ClientStore


class Pretended:
    """A worker of two, with what the other one says."""

    count = 2

    def __init__(self, number, other=None, told=()):
        self.number, self.is_chief = number, number == 0
        self.other, self.told = other, list(told)

    def messages(self, mine):
        both = [mine, self.other]
        return both if self.is_chief else both[::-1]

    def told_by_chief(self, numbers):
        if self.is_chief:
            self.told.append(numbers.copy())
            return numbers
        return self.told.pop(0)


def config(**changes):
    settings = {"lr": 0.1, "data_dir": "/here"} | changes
    return {
        "settings": settings,
        "inputs": {"data": "d1"},
        "versions": {"python": "3"},
        "source": {"fingerprint": "f", "revision": "r"},
    }


def decisive(**changes):
    return {
        "lr": 0.1,
        "data": "d1",
        "python": "3",
        "code": "f",
        "initial weights": "w",
        **changes,
    }


@pytest.mark.parametrize("number", [0, 1])
def test_workers_that_are_alike(number):
    together.agree(Pretended(number, decisive()), config(data_dir="/there"), "w")


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", ["lr", "data", "python", "code", "initial weights"])
def test_workers_that_differ(number, name):
    team = Pretended(number, decisive(**{name: "else"}))
    with pytest.raises(InputError, match=f"Worker 1 is not like worker 0: {name}: .*else"):
        together.agree(team, config(), "w")


def test_the_state_is_the_chiefs():
    """Bit for bit, with the sign of zero; what clients keep, too."""
    chief = State(
        3,
        {"weights": [tf.constant([[1.5, -0.0]])], "alpha": [tf.constant(0.25)]},
        ClientStore({"control": 2, "dual": 1}),
    )
    chief.clients.restore(7, np.asarray([1, 2, 3], np.float32))
    chief.clients.restore(2, np.asarray([4, 5, -0.0], np.float32))
    fresh = State(
        0,
        {"weights": [tf.zeros([1, 2])], "alpha": [tf.constant(0.0)]},
        ClientStore({"control": 2, "dual": 1}),
    )
    speaking = Pretended(0)
    positions = chief.clients.positions
    same = together.shared_state(speaking, chief, positions, 3)
    assert same.clients is chief.clients
    state = together.shared_state(Pretended(1, told=speaking.told), fresh, positions, 3)
    assert state.round_num == 3
    assert state.server["weights"][0].numpy().tobytes() == np.float32([1.5, -0.0]).tobytes()
    assert float(state.server["alpha"][0]) == 0.25
    assert state.clients.positions == [2, 7]
    assert state.clients.row(7)["control"].tolist() == [1, 2]
    assert np.signbit(state.clients.row(2)["dual"]).tolist() == [True]


def test_nothing_is_told_before_the_first_round():
    fresh = State(0, {"weights": [tf.zeros([2])]}, ClientStore({}))
    assert together.shared_state(Pretended(1), fresh, [], 0) is fresh
