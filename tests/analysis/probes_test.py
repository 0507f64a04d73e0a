"""Probes of a global model, each against a value computed another way."""

import functools

import numpy as np
import pytest

from tests.algorithms.harness import Toy, flat, plugged
from tf_fedsam.analysis import samples
from tf_fedsam.analysis.probes import Probes
from tf_fedsam.analysis.samples import probe_examples, shuffled
from tf_fedsam.analysis.sharpness import Sharpness
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
    assert found["client_test_accuracy_mean"] == pytest.approx(np.mean(each))
    assert found["client_test_accuracy_worst"] == pytest.approx(min(each))
    everyone = accuracy(dataset.train.x, dataset.train.y)
    assert found["global_train_accuracy"] == pytest.approx(everyone)
    assert found["global_train_loss"] == pytest.approx(
        process.evaluate(state, Examples(dataset.train.x, dataset.train.y))["loss"], rel=1e-6
    )


def test_some_of_many_clients():
    """The same each time; of all there are, nothing changes."""
    process, state = trained()
    dataset = process.dataset
    everyone = Probes(process, ["clients"])(state)
    assert "client_train_accuracy_clients" not in everyone
    enough = Probes(process, ["clients"], accuracy_clients=dataset.num_clients)(state)
    found = Probes(process, ["clients"], accuracy_clients=2)(state)
    again = Probes(process, ["clients"], accuracy_clients=2)(state)
    for values in (everyone, enough, found, again):
        del values["probe_seconds"]
    assert everyone == enough
    assert found == again
    chosen = [dataset.client_examples(p) for p in samples.sampled_clients(process, 2)]
    each = [accuracy(c.x, c.y) for c in chosen]
    assert found["client_train_accuracy_clients"] == 2
    assert found["client_train_accuracy_mean"] == pytest.approx(np.mean(each))
    assert found["client_train_accuracy_worst"] == pytest.approx(min(each))
    x, y = (np.concatenate([getattr(c, name) for c in chosen]) for name in ("x", "y"))
    assert found["global_train_accuracy"] == pytest.approx(accuracy(x, y))


def test_without_validation():
    process, state = trained()
    found = Probes(process, ["clients"])(state)
    assert "client_test_accuracy_mean" not in found
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


def test_of_the_model_that_is_reported():
    """With a mean of two models the probes see the mean; local models are as far as they are."""
    process, _ = trained()
    toy = Toy(hidden=3)
    toy.dataset = process.dataset
    swa = toy.process(
        plugged("fedavg", swa={"cycle": 1, "start": 0}), devices=2, keep_local_models=True
    )
    state = swa.initialize(toy.initial())
    for cohort in ([0, 1, 2], [2, 3]):
        state, _ = swa.next(state, cohort)
    names, initial = ("confusion", "clients", "sharpness", "divergence"), toy.initial()
    probes = Probes(swa, names, initial=initial)
    found, mean = probes(state), swa.reported(state)
    assert mean is not state
    test = process.dataset.test
    classes = swa.engine.predict(mean.server, test)[1]
    assert np.trace(found["confusion"]) == np.sum(classes == test.y)
    assert found["sharpness"] == probes(mean)["sharpness"]
    plain = Probes(process, ("divergence",), initial=initial)
    assert found["divergence"] == plain(trained()[1])["divergence"]
    assert found["divergence"] != probes(mean)["divergence"]


def test_only_what_was_asked_for():
    process, state = trained()
    found = Probes(process, ["sharpness"])(state)
    assert set(found) == {"sharpness", "probe_seconds"}
    assert found["sharpness"] > 0
    assert "hessian_eigenvalue" in Probes(process, ["eigenvalue"])(state)


def test_the_hessian():
    """As many eigenvalues as asked for; the largest under the name it always had."""
    process, state = trained()
    found = Probes(process, ["hessian", "eigenvalue"], num_eigenvalues=3, num_trace_vectors=4)(
        state
    )
    assert set(found) == {
        *("hessian_eigenvalue", "hessian_eigenvalue_2", "hessian_eigenvalue_3", "probe_seconds"),
        *("hessian_eigenvalue_error", "hessian_products", "hessian_trace", "hessian_trace_error"),
    }
    measured = Sharpness(process.engine, probe_examples(process, 2000))
    values = measured.hessian_eigenvalues(state.server, 3).values
    named = [found[f"hessian_eigenvalue{end}"] for end in ("", "_2", "_3")]
    assert named == values.tolist()
    assert found["hessian_trace"] == measured.hessian_trace(state.server, 4).value
    assert named[0] == pytest.approx(measured.hessian_eigenvalue(state.server), rel=1e-3)


def test_m_sharpness():
    """Of batches in a random order; by default of those of a local step, four."""
    process, state = trained()
    examples = shuffled(process, probe_examples(process, 2000))
    measured = Sharpness(process.engine, examples)
    for m, batch in ((None, 4), (11, 11)):
        found = Probes(process, ["m_sharpness"], m=m, rho=0.2)(state)
        assert found["m_sharpness"] == pytest.approx(
            measured.m_sharpness(state.server, batch, 0.2), rel=1e-5
        )


def test_flatness_and_sharpness_agree():
    process, state = trained()
    found = Probes(process, ["sharpness", "flatness"], num_clients=2, rho=0.2)(state)
    assert found["sharpness_global_on_all"] == found["sharpness"]
    assert found["sharpness_clients"] == 2


def test_personal():
    process, state = trained()
    shards = iid(process.dataset.test.y, 6, seed=1)
    found = Probes(process, ["personal"], shards=shards, num_clients=3)(state)
    assert found["personal_clients"] == 3
    assert 0 <= found["personal_accuracy_after_mean"] <= 1


def test_refusals():
    process, _ = trained()
    with pytest.raises(InputError, match="sharpnes"):
        Probes(process, ["sharpnes"])
    plain = Toy().process(plugged("fedavg"))
    with pytest.raises(InputError, match="keep_local_models"):
        Probes(plain, ["divergence"])
    with pytest.raises(InputError, match="shards=None"):
        Probes(process, ["personal"])
