"""Probes of a global model, each against a value computed another way."""

import functools

import numpy as np
import pytest

from tests.algorithms.harness import Toy, flat, plugged
from tf_fedsam.analysis.probes import Probes, probe_examples
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.data.partition import iid
from tf_fedsam.engine import LOCAL_MODEL
from tf_fedsam.errors import InputError


@functools.cache
def trained():
    """(process, state) after two rounds; client 4 and 5 never took part."""
    toy = Toy(hidden=3)
    p = toy.problem
    generator = np.random.default_rng(5)
    x_test = generator.normal(size=(30, *p.x.shape[1:])).astype(np.float32)
    owner = np.zeros(len(p.y), int)
    for client, indices in enumerate(p.client_indices):
        owner[indices] = client
    toy.dataset = FederatedDataset.from_arrays(
        p.x.astype(np.float32),
        p.y,
        owner,
        x_test=x_test,
        y_test=generator.integers(0, p.num_classes, 30),
        num_classes=p.num_classes,
    )
    process = toy.process(plugged("fedavg"), devices=2, keep_local_models=True)
    state = process.initialize(toy.initial())
    for cohort in ([0, 1, 2], [2, 3]):
        state, _ = process.next(state, cohort)
    return process, state


def accuracy(x, y):
    process, state = trained()
    logits = process.get_model(state)(x).numpy()
    return np.mean(logits.argmax(axis=1) == y)


def test_prediction():
    process, state = trained()
    test = process.dataset.test
    losses, classes = process.engine.predict(state.server, test)
    logits = process.get_model(state)(test.x).numpy().astype(np.float64)
    expected = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(30), test.y]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_array_equal(classes, logits.argmax(axis=1))
    told = process.evaluate(state)
    assert told["loss"] == pytest.approx(expected.mean(), rel=1e-6)
    assert told["accuracy"] == np.mean(classes == test.y)


def test_clients():
    process, state = trained()
    dataset = process.dataset
    validation = iid(dataset.test.y, 5, seed=1)
    found = Probes(process, ["clients"], validation=validation)(state)
    clients = [dataset.client_examples(c) for c in dataset.client_ids]
    train = [accuracy(c.x, c.y) for c in clients]
    assert found["client_train_accuracy_mean"] == pytest.approx(np.mean(train))
    assert found["client_train_accuracy_std"] == pytest.approx(np.std(train))
    assert found["client_train_accuracy_worst"] == pytest.approx(min(train))
    shards = [validation.client(i) for i in range(5)]
    each = [accuracy(dataset.test.x[s], dataset.test.y[s]) for s in shards]
    assert found["client_validation_accuracy_mean"] == pytest.approx(np.mean(each))
    assert found["client_validation_accuracy_worst"] == pytest.approx(min(each))
    everyone = accuracy(dataset.train.x, dataset.train.y)
    assert found["global_train_accuracy"] == pytest.approx(everyone)
    assert found["global_train_loss"] == pytest.approx(
        process.evaluate(state, Examples(dataset.train.x, dataset.train.y))["loss"], rel=1e-6
    )


def test_without_validation():
    process, state = trained()
    found = Probes(process, ["clients"])(state)
    assert "client_validation_accuracy_mean" not in found
    assert found["probe_seconds"] > 0


def test_confusion():
    process, state = trained()
    matrix = np.asarray(Probes(process, ["confusion"])(state)["confusion"])
    test = process.dataset.test
    assert matrix.sum(axis=1).tolist() == np.bincount(test.y, minlength=len(matrix)).tolist()
    assert np.trace(matrix) / 30 == pytest.approx(process.evaluate(state)["accuracy"])


def test_divergence():
    """Clients that never took part are where training began."""
    process, state = trained()
    initial = Toy(hidden=3).initial()
    weights = flat(state.server["weights"])
    models = [state.clients.row(c)[LOCAL_MODEL] for c in range(4)] + [flat(initial)] * 2
    expected = np.mean([np.square(m - weights).sum() for m in models])
    found = Probes(process, ["divergence"], initial=initial)(state)
    assert found["divergence"] == pytest.approx(expected, rel=1e-5)


def test_only_what_was_asked_for():
    process, state = trained()
    found = Probes(process, ["sharpness"])(state)
    assert set(found) == {"sharpness", "probe_seconds"}
    assert found["sharpness"] > 0
    assert "hessian_eigenvalue" in Probes(process, ["eigenvalue"])(state)


def test_the_examples_are_fixed_and_of_the_clients():
    process, _ = trained()
    first, again = probe_examples(process, 10), probe_examples(process, 10)
    np.testing.assert_array_equal(first.x, again.x)
    rows = {row.tobytes() for row in process.dataset.train.x}
    assert len({row.tobytes() for row in first.x} & rows) == 10
    assert len(probe_examples(process, 10**6)) == len(process.dataset.train)


def test_refusals():
    process, _ = trained()
    with pytest.raises(InputError, match="sharpnes"):
        Probes(process, ["sharpnes"])
    plain = Toy().process(plugged("fedavg"))
    with pytest.raises(InputError, match="keep_local_models"):
        Probes(plain, ["divergence"])
