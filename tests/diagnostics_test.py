"""The round's numbers against the local models themselves, which the process keeps here."""

import functools

import keras
import numpy as np
import pytest

from tests.algorithms.harness import Toy, assert_close, flat, plugged, some_in_gate, strategy
from tf_fedsam.analysis.probes import NAMES, Probes
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.data.partition import iid
from tf_fedsam.engine import LOCAL_MODEL
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

pytestmark = pytest.mark.no_cover

COHORTS = [[0, 2, 3], [2, 4, 0, 1], [1, 5]]


@functools.cache
def toy():
    return Toy(hidden=3)


@functools.cache
def rounds(method, devices=1, **settings):
    """For every round: (server before, local models, server after, metrics)."""
    process = toy().process(plugged(method, **settings), devices=devices, keep_local_models=True)
    state, seen = process.initialize(toy().initial()), []
    for cohort in COHORTS:
        before = {name: flat(v) for name, v in state.server.items() if v}
        state, metrics = process.next(state, cohort)
        after = {name: flat(v) for name, v in state.server.items() if v}
        local = np.stack([state.clients.row(c)[LOCAL_MODEL] for c in sorted(cohort)])
        seen.append((before, local.astype(np.float64), after, metrics))
    return seen


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


@pytest.mark.parametrize(
    ("method", "devices"), [("fedavg", 1), ("mofedsam", 1), ("fedacg", 1), ("fedavgm", 2)]
)
def test_distances(method, devices):
    for before, local, after, metrics in rounds(method, devices):
        assert np.abs(before["weights"] - after["weights"]).max() > 0
        to_new = np.square(local - after["weights"]).sum(axis=1).mean()
        to_mean = np.square(local - local.mean(axis=0)).sum(axis=1).mean()
        assert_close(metrics["flatness_distance"], to_new, 1e-5)
        assert_close(metrics["dispersion"], to_mean, 1e-5)
        moved = np.linalg.norm(after["weights"].astype(np.float64) - before["weights"])
        assert_close(metrics["update_norm"], moved, 1e-5)


def test_plain_averaging_ends_at_the_mean_of_the_local_models():
    for *_, metrics in rounds("fedavg"):
        assert_close(metrics["flatness_distance"], metrics["dispersion"], 1e-5)


def test_momentum_moves_the_model_away_from_that_mean():
    *_, metrics = rounds("fedavgm", 2)[1]
    assert metrics["flatness_distance"] > 1.01 * metrics["dispersion"]


def deltas(method, before, local):
    """Updates from where the clients started."""
    start = before["weights"]
    if method == "fedacg":
        start = start + 0.85 * before["momentum"]
    return local - start


@pytest.mark.parametrize("method", ["fedavg", "mofedsam", "fedacg"])
def test_agreement_between_updates(method):
    for before, local, _, metrics in rounds(method):
        d = deltas(method, before, local)
        pairs = [cosine(d[i], d[j]) for i in range(len(d)) for j in range(len(d)) if i != j]
        assert_close(metrics["update_cosine"], np.mean(pairs), 1e-5)


# Which way the momentum of each method points in its own file.
@pytest.mark.parametrize(
    ("method", "sign"),
    [
        *((name, 1) for name in ("fedacg", "fedavgm", "fednsam")),
        *((name, -1) for name in ("mofedsam", "fedcm", "mimelite", "fedwmsam")),
    ],
)
def test_agreement_with_the_momentum(method, sign):
    (_, _, _, first), *later = rounds(method)
    assert first["momentum_cosine"] == 0  # there is none yet
    for before, local, after, metrics in later:
        downhill = sign * before["momentum"].astype(np.float64)
        start = before["weights"]
        if method == "fedacg":
            start = start + 0.85 * before["momentum"]
        expected = np.mean([cosine(d, downhill) for d in local - start])
        assert_close(metrics["momentum_cosine"], expected, 1e-5)
        assert_close(metrics["momentum_norm"], np.linalg.norm(after["momentum"]), 1e-5)


def test_the_momentum_of_every_method_points_where_the_model_went():
    """After one round from rest, momentum is the last move, up to its size."""
    for method in (
        *("fedavgm", "fedacg", "fednsam", "fedcm", "mofedsam", "fedwmsam", "mimelite"),
        "fedmoswa",
    ):
        process = toy().process(plugged(method))
        state = process.initialize(toy().initial())
        before = flat(state.server["weights"])
        state, _ = process.next(state, [0, 1, 2, 3, 4, 5])
        vectors = {n: v for n, v in state.server.items() if n != "model_state"}
        momentum = flat(process.algorithm.downhill_momentum(vectors))
        assert cosine(momentum, flat(state.server["weights"]) - before) > 0.8, method


def test_nesterov_plugin_has_a_momentum():
    *_, (before, local, _, metrics) = rounds("fedavg", nesterov=0.5)
    momentum = before["nesterov_momentum"].astype(np.float64)
    expected = np.mean([cosine(d, momentum) for d in local - before["weights"] - 0.5 * momentum])
    assert_close(metrics["momentum_cosine"], expected, 1e-5)


@pytest.mark.parametrize("method", ["fedsam", "fedgamma"])
def test_perturbation_norm_is_rho(method):
    for *_, metrics in rounds(method, rho=0.03):
        assert metrics["perturbation_norm"] == pytest.approx(0.03, rel=1e-5)


def test_perturbation_norm_is_a_mean_over_clients():
    """Of the last cohort only client 1 has taken part before; FedLESAM spares client 5."""
    assert rounds("fedlesam", rho=0.03)[-1][-1]["perturbation_norm"] == pytest.approx(0.015)


def test_perturbation_norm_is_that_of_the_last_step():
    """FedWMSAM's first step is where the client started, so it has no direction; the last has."""
    for *_, metrics in rounds("fedwmsam", rho=0.03):
        assert metrics["perturbation_norm"] == pytest.approx(0.03, rel=1e-5)


def test_perturbation_norm_is_that_of_the_whole_shift():
    """FedNSAM looks ahead along its momentum and takes a step of length rho back."""
    before, _, _, metrics = rounds("fednsam", rho=0.03)[-1]
    ahead = 0.85 * np.linalg.norm(before["momentum"])
    assert metrics["perturbation_norm"] == pytest.approx(ahead - 0.03, rel=1e-5)


def test_no_perturbation_no_number():
    assert "perturbation_norm" not in rounds("fedavg")[0][-1]
    assert "momentum_cosine" not in rounds("fedavg")[0][-1]


def test_one_client_agrees_with_itself():
    process = toy().process(plugged("fedavg"))
    _, metrics = process.next(process.initialize(), [2])
    assert metrics["update_cosine"] is None  # there is no pair
    assert metrics["dispersion"] is None
    assert metrics["flatness_distance"] == 0


def network():
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(5),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Dense(3),
        ]
    )


@pytest.mark.parametrize("method", some_in_gate(["fedwmsam", "fedsam", "fedinit"], 3))
def test_looking_changes_nothing(method):
    """Not the weights, nor the BatchNorm statistics, nor dropout: bit for bit."""
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(44, 4)).astype(np.float32), np.arange(44) % 3
    dataset = FederatedDataset.from_arrays(x, y, np.arange(44) % 4, x_test=x[:9], y_test=y[:9])
    ends = []
    for looking in (False, True):
        process = LearningProcess(
            network,
            plugged(method),
            dataset,
            options=TrainingOptions(
                batch_size=4, diagnostics=looking, keep_local_models=looking, clip_norm=1.0
            ),
            strategy=strategy(2),
        )
        shards = iid(dataset.test.y, 4, seed=0)
        probes = Probes(process, NAMES, shards=shards, num_clients=2) if looking else None
        state = process.initialize()
        for cohort in ([0, 1, 2], [1, 3], [0, 1, 2, 3]):
            state, metrics = process.next(state, cohort)
            assert ("dispersion" in metrics) == looking
            if probes is not None:
                probes(state)
        ends.append(np.concatenate([flat(v) for v in state.server.values() if v]))
    np.testing.assert_array_equal(*ends)
