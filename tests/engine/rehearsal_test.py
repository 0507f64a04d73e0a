"""Rounds that are only tried: the models are those of a real round, and nothing changes."""

import functools

import keras
import numpy as np
import pytest

from tests.algorithms.harness import (
    LR,
    LR_DECAY,
    Toy,
    assert_close,
    flat,
    plugged,
    some_in_gate,
    strategy,
)
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.data.partition import Partition
from tf_fedsam.engine import LOCAL_MODEL, MODEL_STATE
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

pytestmark = pytest.mark.no_cover

COHORTS = ([0, 1, 2], [2, 3])


def trained(process, state):
    for cohort in COHORTS:
        state, _ = process.next(state, cohort)
    return state


def everything(state):
    """All numbers of a state."""
    stored = [v for p in state.clients.positions for v in state.clients.row(p).values()]
    return flat([t for name in sorted(state.server) for t in state.server[name]] + stored)


@pytest.mark.parametrize("name", some_in_gate(["fedsmoo", "fedavg", "fedinit", "mimelite"], 2))
def test_the_models_of_the_coming_round(name):
    """Bit for bit, with what clients, the server for them and the server itself keep."""
    toy = Toy(hidden=2, sizes=[9, 4, 5, 1, 6])
    process = toy.process(plugged(name), devices=2, keep_local_models=True)
    state = trained(process, process.initialize(toy.initial()))
    before = everything(state)
    tried = process.rehearse(state, [1, 3, 4])
    np.testing.assert_array_equal(everything(state), before)
    assert state.round_num == 2
    after, _ = process.next(state.copy(), [1, 3, 4])
    for position, model in zip([1, 3, 4], tried, strict=True):
        really = after.clients.row(position)[LOCAL_MODEL]
        np.testing.assert_array_equal(flat(model["weights"]), really)
    assert len({flat(m["weights"]).tobytes() for m in tried}) == 3


def test_a_run_that_was_tried_in_between_is_the_same():
    def final(tries):
        toy = Toy(hidden=2)
        process = toy.process(plugged("scaffold"), devices=2)
        state = process.initialize(toy.initial())
        for cohort in (*COHORTS, [0, 5]):
            if tries:
                process.rehearse(state, [0, 1, 4, 5])
                process.rehearse(state, [5, 2], plain_epochs=2)
            state, _ = process.next(state, cohort)
        return everything(state), process.engine.num_traces

    plain, tried = final(False), final(True)
    np.testing.assert_array_equal(tried[0], plain[0])
    assert tried[1] == plain[1] == 1


def test_plain_local_sgd_has_no_radius():
    """Beside a method whose radius has a schedule."""
    toy = Toy(hidden=2)
    given = {"rho_schedule": "linear", "schedule_rounds": 4}
    process = toy.process(plugged("fedsam"), **given)
    state = process.initialize(toy.initial())
    [one] = process.rehearse(state, [2], plain_epochs=1)
    plain = toy.process(plugged("fedavg"))
    [other] = plain.rehearse(plain.initialize(toy.initial()), [2], plain_epochs=1)
    np.testing.assert_array_equal(flat(one["weights"]), flat(other["weights"]))


@pytest.mark.parametrize("name", ["scaffold", "mofedsam"])
def test_plain_local_sgd(name):
    """The steps of local SGD in float64 from the global model, whatever the method does."""
    toy = Toy(hidden=3)
    process = toy.process(plugged(name))
    state = trained(process, process.initialize(toy.initial()))
    tried = process.rehearse(state, [0, 2, 4], plain_epochs=2)
    weights = flat(state.server["weights"]).astype(float)
    for client, model in zip([0, 2, 4], tried, strict=True):
        expected = weights.copy()
        for batch in toy.batches(2, client):  # two epochs of the coming round, the third
            expected -= LR * toy.problem.gradient(expected, batch)
        assert_close(flat(model["weights"]), expected)
        assert np.abs(expected - weights).max() > 0.01


def test_another_round():
    """Batches and learning rate of the first, from the state after two."""
    toy = Toy()
    process = toy.process(FedAvg())
    state = trained(process, process.initialize(toy.initial()))
    for number in (0, 5):
        expected = flat(state.server["weights"]).astype(float)
        for batch in toy.batches(number, 2):
            expected -= LR * LR_DECAY**number * toy.problem.gradient(expected, batch)
        [model] = process.rehearse(state, [2], round_num=number)
        assert_close(flat(model["weights"]), expected)


def test_other_epochs_than_those_of_a_round():
    toy = Toy()
    process = toy.process(FedAvg())
    state = process.initialize(toy.initial())
    expected = flat(toy.initial())
    for batch in toy.batches(0, 2)[:4]:  # the first epoch: 13 examples in batches of 4
        expected = expected - LR * toy.problem.gradient(expected, batch)
    [one] = process.rehearse(state, [2], plain_epochs=1)
    assert_close(flat(one["weights"]), expected)


def test_clients_that_have_no_model():
    """No examples, or numbers that are not finite."""
    toy = Toy(sizes=[5, 4])
    partition = Partition(np.arange(9), np.array([0, 5, 5, 9]), 9, "toy", with_replacement=False)
    toy.dataset = FederatedDataset(toy.dataset.train, partition, num_classes=3)
    process = toy.process(FedAvg())
    found = process.rehearse(process.initialize(toy.initial()), [0, 1, 2])
    assert [model is None for model in found] == [False, True, False]
    diverging = [np.full_like(w, 1e38) for w in toy.initial()]
    assert process.rehearse(process.initialize(diverging), [0, 1, 2]) == [None] * 3


@functools.cache
def with_batch_norm(norm_state):
    generator = np.random.default_rng(0)
    x = (3 + 2 * generator.normal(size=(24, 4))).astype(np.float32)
    dataset = FederatedDataset.from_arrays(x, np.arange(24) % 2, np.repeat([0, 1, 2], 8))

    def model():
        layers = keras.layers
        return keras.Sequential(
            [keras.Input((4,)), layers.BatchNormalization(momentum=0.5), layers.Dense(2)]
        )

    options = TrainingOptions(batch_size=4, local_epochs=1, norm_state=norm_state)
    process = LearningProcess(model, FedAvg(), dataset, options=options, strategy=strategy(2))
    state, _ = process.next(process.initialize(), [0, 1])
    return process, state


@pytest.mark.parametrize("norm_state", ["average", "local", "keep_server"])
def test_statistics(norm_state):
    """A model has its own, which go on from the server's or, if they stay local, from its own.

    With momentum 0.5 two batches leave a quarter of the mean that training began with.
    """
    process, state = with_batch_norm(norm_state)
    tried = process.rehearse(state, [0, 2])
    cohort = process._plan(np.array([0, 2]), 1)
    for entry, (position, model) in enumerate(zip([0, 2], tried, strict=True)):
        begins = state.server[MODEL_STATE][0].numpy()
        if norm_state == "local" and position == 0:
            begins = state.clients.row(0)[MODEL_STATE][:4]  # the means, then the variances
        order = cohort.order[cohort.order_start[entry] :][:8]
        means = [process.dataset.train.x[order[i : i + 4]].mean(axis=0) for i in (0, 4)]
        expected = begins / 4 + means[0] / 4 + means[1] / 2
        np.testing.assert_allclose(model[MODEL_STATE][0], expected, rtol=1e-5)


def test_a_model_can_be_evaluated_like_a_server():
    process, state = with_batch_norm("average")
    [model] = process.rehearse(state, [2], plain_epochs=1)
    found = process.engine.evaluate(model, process.dataset.train)
    network = process.get_model(state)
    for variable, value in zip(network.trainable_variables, model["weights"], strict=True):
        variable.assign(value)
    for variable, value in zip(network.non_trainable_variables, model[MODEL_STATE], strict=True):
        variable.assign(value)
    classes = network(process.dataset.train.x).numpy().argmax(axis=1)
    assert found["accuracy"] == np.mean(classes == process.dataset.train.y)
