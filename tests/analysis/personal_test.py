"""Personalised accuracy, against fine-tuning in float64."""

import functools

import numpy as np
import pytest

from tests.algorithms.harness import LR, Toy, flat, plugged
from tests.reference.toy import unflatten
from tf_fedsam.analysis.personal import Personalisation
from tf_fedsam.data import validation
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.data.partition import iid
from tf_fedsam.errors import InputError


@functools.cache
def trained():
    """(toy, process, state, shards): SCAFFOLD's second round is coming; 60 test examples."""
    toy = Toy()
    p, generator = toy.problem, np.random.default_rng(5)
    chosen = generator.integers(0, 44, 60)
    test = p.x[chosen] + 0.3 * generator.normal(size=(60, 4))
    owner = np.zeros(44, int)
    for client, indices in enumerate(p.client_indices):
        owner[indices] = client
    toy.dataset = FederatedDataset.from_arrays(
        p.x.astype(np.float32),
        p.y,
        owner,
        x_test=test.astype(np.float32),
        y_test=p.y[chosen],
        num_classes=p.num_classes,
    )
    process = toy.process(plugged("scaffold"), devices=2)
    state, _ = process.next(process.initialize(toy.initial()), [0, 1, 2])
    dataset = toy.dataset
    shards = validation.same(dataset.partition, dataset.train.y, dataset.test.y, 3, 0)
    return toy, process, state, shards


def accuracy(toy, w, shard):
    [(kernel, bias)] = unflatten(w, toy.problem.layer_shapes)
    test = toy.dataset.test
    return np.mean((test.x[shard] @ kernel + bias).argmax(axis=1) == test.y[shard])


def test_values():
    """Two epochs of plain SGD on each of the six clients, whatever SCAFFOLD corrects."""
    toy, process, state, shards = trained()
    w = flat(state.server["weights"]).astype(float)
    before, after = [], []
    for client in range(6):
        local = w.copy()
        for batch in toy.batches(1, client):  # the toy's two epochs, of the coming round
            local -= LR * toy.problem.gradient(local, batch)
        before.append(accuracy(toy, w, shards.client(client)))
        after.append(accuracy(toy, local, shards.client(client)))
    assert np.mean(after) != np.mean(before)
    found = Personalisation(process, shards, num_clients=10, num_epochs=2)(state)
    assert found["personal_clients"] == 6
    for name, each in (("before", before), ("after", after)):
        assert found[f"personal_accuracy_{name}_mean"] == pytest.approx(np.mean(each))
        assert found[f"personal_accuracy_{name}_std"] == pytest.approx(np.std(each))
        assert found[f"personal_accuracy_{name}_worst_decile"] == pytest.approx(min(each))
        assert sum(found[f"personal_accuracy_{name}_histogram"]) == 6
    gain = np.mean(after) - np.mean(before)
    assert found["personal_accuracy_gain"] == pytest.approx(gain)


def test_some_clients_and_the_state_is_left_alone():
    _, process, state, shards = trained()
    weights = flat(state.server["weights"])
    rows = {p: dict(state.clients.row(p)) for p in state.clients.positions}
    probe = Personalisation(process, shards, num_clients=2, num_epochs=1)
    first, again = probe(state), probe(state)
    assert first == again
    assert first["personal_clients"] == 2
    np.testing.assert_array_equal(flat(state.server["weights"]), weights)
    for position, row in rows.items():
        np.testing.assert_array_equal(state.clients.row(position)["control"], row["control"])


def test_nobody_ends_with_finite_numbers(monkeypatch):
    _, process, state, shards = trained()
    probe = Personalisation(process, shards, num_clients=2, num_epochs=1)
    monkeypatch.setattr(process, "rehearse", lambda state, names, **_: [None] * len(names))
    assert probe(state) == {"personal_clients": 0}


def test_shards_of_other_clients():
    _, process, _, _ = trained()
    fresh = iid(process.dataset.test.y, 4, seed=0)
    with pytest.raises(InputError, match=r"each of the 6 clients.*those of 4 clients"):
        Personalisation(process, fresh, num_clients=2, num_epochs=1)
    with pytest.raises(InputError, match="Received: none"):
        Personalisation(Toy().process(plugged("fedavg")), fresh, num_clients=2, num_epochs=1)
