"""What every algorithm must fulfil, one by one against its independent NumPy reference."""

import dataclasses

import numpy as np
import pytest

from tests.algorithms.harness import FULL, PARTIAL, Toy, assert_close, some_in_gate
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions

pytestmark = pytest.mark.no_cover

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
    ("fedgloss", {"rho": 0.5, "rho_local": 0.3, "lamb": 0.3}),
    ("fedgloss", {"rho": 0.5, "rho_local": 0.0, "lamb": 0.3, "server_dual": "official"}),
    ("fedgloss", {"rho": 0.5, "rho_local": 0.3, "warmup_rounds": 3, "rho_start": 0.1}),
    ("fedswa", {}),
    ("fedswa", {"lr_end": 0.5, "server_lr": 0.8}),
    ("fedmoswa", {"gamma": 0.4}),
    ("fedmoswa", {"gamma": 0.4, "lr_end": 0.5, "normaliser": "midpoint", "first_round": "gamma"}),
    ("fedsol", {"rho": 2.0}),
    ("fedsol", {"rho": 2.0, "strength": "fixed", "temperature": 1.5}),
    ("fedsol", {"rho": 2.0, "perturb": "head"}),
]
REGULARISED = {"weight_decay": 0.05, "clip_norm": 0.8}
PROXIMAL = (
    *("fedprox", "feddyn", "fedacg", "fedsmoo", "fedspeed", "fedlesam_d", "fednsam_d"),
    "fedgloss",
)


def ids(variant):
    return "-".join([variant[0], *(f"{k}={v}" for k, v in variant[1].items())])


def first_in_gate(variants):
    """The first variant of each method in the gate, the others with ``-m slow``."""
    seen, chosen = set(), []
    for variant in variants:
        marks = [pytest.mark.slow] if variant[0] in seen else []
        chosen.append(pytest.param(variant, marks=marks))
        seen.add(variant[0])
    return chosen


def test_every_algorithm_has_a_variant():
    assert {name for name, _ in VARIANTS} == set(all_algorithms())


@pytest.mark.parametrize("variant", first_in_gate(VARIANTS), ids=ids)
def test_equals_its_reference(variant):
    """Partial participation, unequal clients, several batches, decay and clipping, an MLP."""
    method, hparams = variant
    toy = Toy(hidden=5)
    received = toy.train(method, PARTIAL, training=REGULARISED, **hparams)
    expected = toy.reference(method, PARTIAL, training=REGULARISED, **hparams).weights
    assert_close(received, expected)


@pytest.mark.parametrize("variant", some_in_gate(VARIANTS, 10), ids=ids)
def test_equals_its_reference_linear_full(variant):
    """Full participation, a linear model, no clipping, clients weighted by their samples."""
    method, hparams = variant
    toy = Toy(hidden=None, seed=1)
    training = {"weighting": "samples"}
    received = toy.train(method, FULL, devices=2, training=training, **hparams)
    expected = toy.reference(method, FULL, training=training, **hparams).weights
    assert_close(received, expected)


@pytest.mark.parametrize("variant", some_in_gate(VARIANTS, 10), ids=ids)
def test_equals_its_reference_with_xla(variant):
    """Local steps that XLA compiles, for whole and partial batches, on two devices."""
    method, hparams = variant
    toy = Toy(hidden=5)
    training = {**REGULARISED, "xla": True}
    received = toy.train(method, PARTIAL, devices=2, training=training, **hparams)
    expected = toy.reference(method, PARTIAL, training=REGULARISED, **hparams).weights
    assert_close(received, expected)


@pytest.mark.parametrize("method", some_in_gate(PROXIMAL, 2))
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


FIRST = dict(reversed(VARIANTS))  # the first variant of each
MOMENTUM = {"local_momentum": 0.6}
# Five rounds: the rate rises for two and falls over three, the radius grows to its double.
LR_SCHEDULE = {"lr_schedule": "cosine", "lr_warmup_rounds": 2, "lr_final_factor": 0.2}
RHO_SCHEDULE = {"rho_schedule": "linear", "rho_warmup_rounds": 1, "rho_final_factor": 2.0}
SCHEDULED = {
    "lr_schedule": {"kind": "cosine", "warmup": 2, "final": 0.2, "rounds": 5},
    "rho_schedule": {"kind": "linear", "warmup": 1, "final": 2.0, "rounds": 5},
}


def radii(method):
    return RHO_SCHEDULE if hasattr(all_algorithms()[method].Hparams, "rho") else {}


@pytest.mark.parametrize("method", some_in_gate(FIRST, 4))
def test_schedules_and_local_momentum_equal_the_reference(method):
    """Rates and radii of every round, and mean gradients of steps that momentum mixes."""
    toy, hparams = Toy(hidden=5), FIRST[method]
    options = {**REGULARISED, **MOMENTUM, **LR_SCHEDULE, **radii(method), "schedule_rounds": 5}
    received = toy.train(method, PARTIAL, training=options, **hparams)
    told = {**REGULARISED, **MOMENTUM, **SCHEDULED}
    assert_close(received, toy.reference(method, PARTIAL, training=told, **hparams).weights)
    without = {**REGULARISED, **SCHEDULED}
    other = toy.reference(method, PARTIAL, training=without, **hparams).weights
    assert np.abs(received - other).max() > 1e-3


def test_deviation_looks_as_far_ahead_as_momentum_goes():
    toy, hparams = Toy(hidden=5), {"rho": 0.3, "alpha": 0.3, "direction": "deviation"}
    received = toy.train("fedwmsam", PARTIAL, training=MOMENTUM, **hparams)
    assert_close(received, toy.reference("fedwmsam", PARTIAL, training=MOMENTUM, **hparams).weights)


KEPT = {**REGULARISED, **MOMENTUM, "local_momentum_state": "keep"}


REFUSE_KEPT = ("fedcm", "mofedsam", "fedwmsam")  # their servers divide an update by its rates
KEEP = ("fedavg", "scaffold", "feddyn", "mimelite", "fedlesam_s")  # one of each kind, in the gate


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=[] if name in KEEP else [pytest.mark.slow])
        for name in FIRST
        if name not in REFUSE_KEPT
    ],
)
def test_kept_momentum_equals_the_reference(method):
    """SCAFFOLD's controls are made of the directions of the round, whatever was kept."""
    toy, hparams = Toy(hidden=5), FIRST[method]
    received, state, _, _ = toy.run(method, PARTIAL, training=KEPT, **hparams)
    assert_close(received, toy.reference(method, PARTIAL, training=KEPT, **hparams).weights)
    reset = {**KEPT, "local_momentum_state": "reset"}
    other = toy.reference(method, PARTIAL, training=reset, **hparams).weights
    assert np.abs(received - other).max() > 1e-3
    assert state.clients.lengths["local_velocity"] == received.shape[1]


@pytest.mark.parametrize("method", REFUSE_KEPT)
def test_kept_momentum_is_refused_where_the_server_divides(method):
    with pytest.raises(InputError, match="local_momentum_state=keep makes no sense on this"):
        Toy().run(method, [[0]], training=KEPT)


WITH_RADIUS = [name for name, a in all_algorithms().items() if hasattr(a.Hparams, "rho")]


@pytest.mark.parametrize("method", some_in_gate(WITH_RADIUS, 3))
def test_the_radius_is_what_the_round_says(method, monkeypatch):
    """Half of rho in every round is half of rho."""
    toy, fields = Toy(), dataclasses.fields(all_algorithms()[method].Hparams)
    radii = {f.name: 0.6 for f in fields if f.name.startswith("rho")}
    hparams = {**FIRST[method], **radii}
    halved = toy.train(method, PARTIAL[:3], **{**hparams, **dict.fromkeys(radii, 0.3)})
    monkeypatch.setattr(TrainingOptions, "rho_factor", lambda self, round_num: 0.5)
    assert_close(toy.train(method, PARTIAL[:3], **hparams), halved)


@pytest.mark.parametrize("option", [{"rho_schedule": "step"}, {"rho_warmup_rounds": 3}])
def test_a_radius_that_is_not_there_has_no_schedule(option):
    [name] = option
    with pytest.raises(InputError, match=f"{name} is for methods with a radius rho, and fedavg"):
        Toy().run("fedavg", [[0]], training=option)


def test_a_method_that_ignores_the_schedule_is_found(monkeypatch):
    client = all_algorithms()["fedsam"].Client
    monkeypatch.setattr(client, "radius", lambda self: self.hparams.rho)
    with pytest.raises(InputError, match="rho_schedule would have no effect on fedsam"):
        Toy().run("fedsam", [[0]], training={"rho_schedule": "step"})
