"""Local against global flatness, against local training and losses in float64."""

import functools

import numpy as np
import pytest

from tests.algorithms.harness import LR, LR_DECAY, Toy, flat, plugged
from tf_fedsam.analysis.local_flatness import MEASURED, LocalFlatness
from tf_fedsam.analysis.samples import probe_examples, sampled_clients
from tf_fedsam.analysis.sharpness import Sharpness

RHO = 0.3


@functools.cache
def trained():
    """FedAvg after two rounds, on two devices."""
    toy = Toy(hidden=3)
    process = toy.process(plugged("fedavg"), devices=2)
    state = process.initialize(toy.initial())
    for cohort in ([0, 1, 2], [2, 3]):
        state, _ = process.next(state, cohort)
    return toy, process, state


@functools.cache
def measured(num_clients=4):
    _, process, state = trained()
    sharpness = Sharpness(process.engine, probe_examples(process, 1000))
    probe = LocalFlatness(process, sharpness, num_clients=num_clients, num_examples=1000, rho=RHO)
    return probe(state, sharpness.loss_and_sharpness(state.server, RHO))


def rise(problem, w, batch):
    uphill = problem.gradient(w, batch)
    moved = w + RHO * uphill / np.linalg.norm(uphill)
    return problem.loss(moved, batch) - problem.loss(w, batch)


def test_values():
    """Local SGD, losses and steps uphill in float64; a rise of 0.1 is known to 1e-4 of itself."""
    toy, process, state = trained()
    problem, everyone = toy.problem, np.arange(44)
    w = flat(state.server["weights"]).astype(float)
    expected = {name: [] for name in (*MEASURED, "losses")}
    clients = sampled_clients(process, 4)
    for client in clients:
        local, own = w.copy(), problem.client_indices[client]
        for batch in toy.batches(1, client):  # those of the second round, the one just done
            local -= LR * LR_DECAY * problem.gradient(local, batch)
        expected["local_on_own"].append(rise(problem, local, own))
        expected["local_on_all"].append(rise(problem, local, everyone))
        expected["global_on_own"].append(rise(problem, w, own))
        expected["losses"].append(
            [problem.loss(v, d) for v, d in ((local, own), (local, everyone), (w, own))]
        )
    found = measured()
    assert found["sharpness_clients"] == 4
    assert found["sharpness_client_ids"] == clients
    for name in MEASURED:
        each = found[f"sharpness_{name}_each"]
        np.testing.assert_allclose(each, expected[name], rtol=1e-3)
        assert found[f"sharpness_{name}"] == pytest.approx(np.mean(expected[name]), rel=1e-3)
    losses = np.mean(expected["losses"], axis=0)
    for name, loss in zip(MEASURED, losses, strict=True):
        assert found[f"loss_{name}"] == pytest.approx(loss, rel=1e-4)
    assert found["sharpness_global_on_all"] == pytest.approx(rise(problem, w, everyone), rel=1e-3)
    assert found["loss_global_on_all"] == pytest.approx(problem.loss(w, everyone), rel=1e-4)
    four = [found[f"sharpness_{n}"] for n in (*MEASURED, "global_on_all")]
    assert len({round(value, 4) for value in four}) == 4  # no two are mixed up


def test_the_state_is_left_alone():
    _, _, state = trained()
    before = flat(state.server["weights"])
    first = measured.__wrapped__()
    np.testing.assert_array_equal(flat(state.server["weights"]), before)
    assert first == measured()  # the same clients, examples and batches, bit for bit


def test_more_clients_than_there_are():
    assert measured(100)["sharpness_clients"] == 6


def test_nobody_has_a_model(monkeypatch):
    _, process, state = trained()
    sharpness = Sharpness(process.engine, probe_examples(process, 10))
    probe = LocalFlatness(process, sharpness, num_clients=2, num_examples=10, rho=RHO)
    monkeypatch.setattr(process, "rehearse", lambda state, names, **_: [None] * len(names))
    found = probe(state, (1.0, 0.5))
    assert found["sharpness_clients"] == 0
    assert found["sharpness_local_on_own"] is None
    assert found["sharpness_local_on_own_each"] == []
    assert found["sharpness_global_on_all"] == 0.5
