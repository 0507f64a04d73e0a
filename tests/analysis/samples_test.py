"""Fixed samples of examples and clients."""

import functools

import numpy as np

from tests.algorithms.harness import SIZES, Toy, flat
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.analysis import samples
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.data.partition import Partition
from tf_fedsam.process import LearningProcess


@functools.cache
def process():
    return Toy().process(FedAvg(), devices=2)


def test_examples_are_fixed_and_of_the_clients():
    first, again = (samples.probe_examples(process(), 10) for _ in range(2))
    np.testing.assert_array_equal(first.x, again.x)
    rows = {row.tobytes() for row in process().dataset.train.x}
    assert len({row.tobytes() for row in first.x} & rows) == 10
    assert len(samples.probe_examples(process(), 10**6)) == sum(SIZES)


def test_examples_of_a_client():
    dataset = process().dataset
    for position, size in enumerate(SIZES):
        own = {row.tobytes() for row in dataset.client_examples(position).x}
        some = samples.client_examples(process(), position, 5)
        assert len(some) == min(5, size)
        assert {row.tobytes() for row in some.x} <= own
        assert len(samples.client_examples(process(), position, 100)) == size


def test_shuffled():
    examples = Examples(np.arange(50.0)[:, None], np.arange(50))
    mixed = samples.shuffled(process(), examples)
    np.testing.assert_array_equal(mixed.x[:, 0], mixed.y)
    assert sorted(mixed.y) == list(range(50))
    assert np.abs(np.diff(mixed.y)).mean() > 5  # 1 in order, about 50 / 3 at random
    np.testing.assert_array_equal(mixed.y, samples.shuffled(process(), examples).y)


def test_clients_are_fixed_and_more_are_more():
    three, five = (samples.sampled_clients(process(), n) for n in (3, 5))
    assert len(set(three)) == 3
    assert three == sorted(three) == samples.sampled_clients(process(), 3)
    assert set(three) < set(five)
    assert samples.sampled_clients(process(), 100) == list(range(6))


def test_clients_of_another_seed():
    other = Toy(seed=1).process(FedAvg())
    drawn = {tuple(samples.sampled_clients(p, 3)) for p in (process(), other)}
    assert len(drawn) == 2


def test_clients_that_cannot_be_drawn():
    """Those without examples, and those that the caller has no use for."""
    toy = Toy()
    offsets = np.array([0, 10, 10, 20, 44])
    partition = Partition(np.arange(44), offsets, 44, "toy", with_replacement=False)
    dataset = FederatedDataset(toy.dataset.train, partition, num_classes=3)
    learning = LearningProcess(toy.network, FedAvg(), dataset)
    assert samples.sampled_clients(learning, 4) == [0, 2, 3]
    among = np.array([True, True, False, True])
    assert samples.sampled_clients(learning, 4, among) == [0, 3]


def test_a_few_models_at_a_time(monkeypatch):
    """Two devices with one model each: three groups of five clients, in order, the same models."""
    monkeypatch.setattr(samples, "MODELS_A_DEVICE", 1)
    state, groups = process().initialize(Toy().initial()), []
    rehearse = process().rehearse

    def watched(state, names, **options):
        groups.append(list(names))
        return rehearse(state, names, **options)

    monkeypatch.setattr(process(), "rehearse", watched)
    found = list(samples.rehearsed(process(), state, [0, 1, 2, 4, 5]))
    assert groups == [[0, 1], [2, 4], [5]]
    assert [position for position, _ in found] == [0, 1, 2, 4, 5]
    whole = rehearse(state, [0, 1, 2, 4, 5])
    for (_, model), expected in zip(found, whole, strict=True):
        np.testing.assert_array_equal(flat(model["weights"]), flat(expected["weights"]))


def test_models_that_are_not_there_are_left_out(monkeypatch):
    monkeypatch.setattr(process(), "rehearse", lambda state, names: [None, {"weights": 1}])
    assert list(samples.rehearsed(process(), None, [3, 5])) == [(5, {"weights": 1})]
