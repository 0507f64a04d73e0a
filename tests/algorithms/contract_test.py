"""What every algorithm must fulfil, one by one against its independent NumPy reference."""

import numpy as np
import pytest

from tests.algorithms.harness import FULL, PARTIAL, Toy, assert_close
from tf_fedsam.algorithms.registry import all_algorithms

# Settings that make every term of a method matter within a few rounds of a small problem.
VARIANTS = [
    ("fedavg", {}),
    ("fedavg", {"server_lr": 0.5}),
    ("fedavgm", {"server_momentum": 0.7}),
    ("fedavgm", {"server_momentum": 0.7, "server_lr": 0.5}),
    ("fedadam", {}),
    ("fedadagrad", {}),
    ("fedyogi", {}),
    ("fedprox", {"mu": 0.5}),
    ("scaffold", {}),
    ("scaffold", {"server_lr": 0.7}),
    ("feddyn", {"lamb": 0.3}),
    ("fedcm", {"alpha": 0.3}),
    ("mimelite", {"alpha": 0.3}),
    ("fedacg", {"mu": 0.4}),
    ("fedrobust", {"perturbation_lr": 0.3, "penalty": 0.2, "transform": "full"}),
    ("fedsam", {"rho": 0.5}),
    ("fedasam", {"rho": 0.7, "eta": 0.2}),
    ("mofedsam", {"rho": 0.5, "beta": 0.3}),
    ("fedgamma", {"rho": 0.5}),
    ("fedsmoo", {"rho": 0.5, "lamb": 0.3}),
    ("fedsmoo", {"rho": 0.5, "lamb": 0.3, "server": "mu_minus_e"}),
    ("fedspeed", {"rho": 0.5, "lamb": 0.3, "alpha": 0.6}),
    ("fedspeed", {"rho": 0.5, "lamb": 0.3, "server": "all"}),
    ("fedlesam", {"rho": 0.5}),
    ("fedlesam", {"rho": 0.5, "direction": "server_last"}),
    ("fedlesam_s", {"rho": 0.5}),
    ("fedlesam_s", {"rho": 0.5, "scale": 0.1, "direction": "server_last"}),
    ("fedlesam_d", {"rho": 0.5, "lamb": 0.3}),
    ("fedlesam_d", {"rho": 0.5, "lamb": 0.3, "direction": "server_last"}),
    ("fednsam", {"rho": 0.3}),
    ("fednsam", {"rho": 0.3, "extrapolate": False}),
    ("fednsam", {"rho": 0.3, "extrapolate": False, "apply_momentum": False}),
    ("fednsam_s", {"rho": 0.3}),
    ("fednsam_d", {"rho": 0.3, "lamb": 0.3}),
    ("fedwmsam", {"rho": 0.3, "alpha": 0.3, "alpha_step": 0.2}),
    ("fedwmsam", {"rho": 0.3, "alpha": 0.3, "direction": "deviation"}),
    ("fedwmsam", {"rho": 0.3, "alpha": 0.3, "direction": "descent", "correction": False}),
    ("fedwmsam", {"rho": 0.3, "alpha": 0.3, "alpha_step": 0.2, "alpha_rule": "momentum"}),
    ("fedinit", {"beta": 0.3}),
    ("fedinit", {"beta": 0.3, "aggregate": "delta"}),
]
REGULARISED = {"weight_decay": 0.05, "clip_norm": 0.8}
PROXIMAL = ("fedprox", "feddyn", "fedacg", "fedsmoo", "fedspeed", "fedlesam_d", "fednsam_d")


def ids(variant):
    return "-".join([variant[0], *(f"{k}={v}" for k, v in variant[1].items())])


def test_every_algorithm_has_a_variant():
    assert {name for name, _ in VARIANTS} == set(all_algorithms())


@pytest.mark.parametrize("variant", VARIANTS, ids=ids)
def test_equals_its_reference(variant):
    """Partial participation, unequal clients, several batches, decay and clipping, an MLP."""
    method, hparams = variant
    toy = Toy(hidden=5)
    received = toy.train(method, PARTIAL, training=REGULARISED, **hparams)
    expected = toy.reference(method, PARTIAL, training=REGULARISED, **hparams).weights
    assert_close(received, expected)


@pytest.mark.parametrize("variant", VARIANTS, ids=ids)
def test_equals_its_reference_linear_full(variant):
    """Full participation, a linear model, no clipping, clients weighted by their samples."""
    method, hparams = variant
    toy = Toy(hidden=None, seed=1)
    training = {"weighting": "samples"}
    received = toy.train(method, FULL, devices=2, training=training, **hparams)
    expected = toy.reference(method, FULL, training=training, **hparams).weights
    assert_close(received, expected)


@pytest.mark.parametrize("method", PROXIMAL)
def test_official_clip_scope(method):
    """The published order of clipping differs from ours and equals its own reference."""
    toy = Toy(hidden=5)
    training = {**REGULARISED, "clip_scope": "official"}
    received = toy.train(method, PARTIAL, training=training)
    assert_close(received, toy.reference(method, PARTIAL, training=training).weights)
    full = toy.reference(method, PARTIAL, training=REGULARISED).weights
    assert np.abs(received - full).max() > 1e-4


def test_official_clip_scope_is_for_proximal_methods():
    assert {n for n, a in all_algorithms().items() if a.proximal} == set(PROXIMAL)
