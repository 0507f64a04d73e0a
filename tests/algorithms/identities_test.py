"""Methods that must become each other: at neutral hyper-parameters, and where the algebra says so.

All runs go through the compiled engine on softmax regression, in float32. A process is compiled
once for its method and settings and used for every schedule.
"""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import (
    FULL,
    LR,
    LR_DECAY,
    PARTIAL,
    Toy,
    assert_close,
    flat,
    plugged,
    some_in_gate,
)
from tf_fedsam import tree
from tf_fedsam.algorithms.fedgamma import FedGAMMA
from tf_fedsam.algorithms.fedgloss import FedGloSS
from tf_fedsam.algorithms.fedlesam_d import FedLESAMD
from tf_fedsam.algorithms.fedmoswa import FedMoSWA
from tf_fedsam.algorithms.fednsam import FedNSAM
from tf_fedsam.algorithms.scaffold import Scaffold
from tf_fedsam.client import ClientModel

pytestmark = pytest.mark.no_cover

SCHEDULES = {"partial": PARTIAL, "full": FULL}
FULL_BATCH = {"batch_size": 16}  # the largest client has 13 examples


class Frozen:
    """Keeps all controls at zero."""

    def report(self, client, outcome):
        upload, state = super().report(client, outcome)
        zero = tree.zeros_like(outcome.delta)
        return {**upload, "control_change": zero}, {**state, "control": zero}


class FrozenScaffold(Frozen, Scaffold):
    pass


class FrozenFedGAMMA(Frozen, FedGAMMA):
    pass


class ShiftedStart(FedNSAM):
    """Plain SGD from w + (server_momentum - rho / |m|) m, its update measured from there."""

    Client = ClientModel

    def start(self, received, state):
        momentum = received["momentum"]
        back = tf.math.divide_no_nan(self.hparams.rho, tree.norm(momentum))
        return tree.axpy(self.hparams.server_momentum - back, momentum, received["weights"])


class FrozenFedMoSWA(FedMoSWA):
    """Keeps all controls at zero."""

    def report(self, client, outcome):
        zero = tree.zeros_like(outcome.delta)
        return {"delta": outcome.delta, "control": zero}, {"control": zero}


class MeanMove(FedLESAMD):
    """FedLESAM-D along the mean of the updates, without the duals of the last move."""

    def server_step(self, server, aggregate, round_):
        moved = super().server_step(server, aggregate, round_)
        return {**moved, "last_move": tree.sub(aggregate.mean["model"], server["weights"])}


class WithoutDuals(FedGloSS):
    """The server's part of FedGloSS alone."""

    def report(self, client, outcome):
        return {"delta": outcome.delta}, {"dual": tree.zeros_like(outcome.delta)}

    def server_step(self, server, aggregate, round_):
        nothing = {"delta": tree.zeros_like(aggregate.mean["delta"])}
        return super().server_step(server, dataclasses.replace(aggregate, total=nothing), round_)


CLASSES = (
    *(FrozenScaffold, FrozenFedGAMMA, FrozenFedMoSWA),
    *(ShiftedStart, MeanMove, WithoutDuals),
)
OWN = {c.__name__: c for c in CLASSES}


@functools.cache
def toy(options):
    return Toy(**dict(options))


@functools.cache
def process(method, settings, training):
    options = {k: v for k, v in training if k == "batch_size"}
    rest = {k: v for k, v in training if k != "batch_size"}
    algorithm = (
        OWN[method](**dict(settings)) if method in OWN else plugged(method, **dict(settings))
    )
    problem = toy(tuple(options.items()))
    return problem, problem.process(algorithm, **rest)


@functools.cache
def run(method, settings, schedule, training, one_step):
    problem, learning = process(method, settings, training)
    state, history = learning.initialize(problem.initial()), []
    for cohort in schedule:
        fraction = np.zeros(len(cohort)) if one_step else None  # at least one step is done
        state, _ = learning.next(state, cohort, fraction)
        history.append(flat(state.server["weights"]))
    return np.asarray(history), state


def train(method, schedule=PARTIAL, *, training=None, one_step=False, **settings):
    """The global weights after every round."""
    cohorts = tuple(tuple(cohort) for cohort in schedule)
    training = tuple((training or {}).items())
    return run(method, tuple(settings.items()), cohorts, training, one_step)[0]


def last_state(method, schedule, **settings):
    cohorts = tuple(tuple(cohort) for cohort in schedule)
    return run(method, tuple(settings.items()), cohorts, (), False)[1]


def assert_differ(left, right):
    """Well apart, in relation to how far training went."""
    assert np.abs(np.asarray(left) - right).max() > 1e-3


# Pairs of methods that agree for every schedule.
EQUAL = [
    # the neutral settings of the first-order methods, and rho = 0
    (("fedavgm", {"server_momentum": 0}), ("fedavg", {})),
    (("fedadam", {"beta1": 0, "beta2": 1, "epsilon": 0.01, "server_lr": 0.01}), ("fedavg", {})),
    (("fedprox", {"mu": 0}), ("fedavg", {})),
    (("fedcm", {"alpha": 1}), ("fedavg", {})),
    (("mimelite", {"alpha": 1}), ("fedavg", {})),
    (("FrozenScaffold", {}), ("fedavg", {})),
    (("fedsam", {"rho": 0}), ("fedavg", {})),
    (("fedlesam", {"rho": 0}), ("fedavg", {})),
    (("fednsam", {"rho": 0, "server_momentum": 0}), ("fedavg", {})),
    (("fedinit", {"beta": 0}), ("fedavg", {})),
    (("fedrobust", {"perturbation_lr": 0}), ("fedavg", {})),
    (("fedacg", {"server_momentum": 0, "mu": 0}), ("fedavg", {})),
    # two terms, one of them off
    (("mofedsam", {"rho": 0.5, "beta": 1}), ("fedsam", {"rho": 0.5})),
    (("mofedsam", {"rho": 0, "beta": 0.3}), ("fedcm", {"alpha": 0.3})),
    (("fedgamma", {"rho": 0}), ("scaffold", {})),
    (("FrozenFedGAMMA", {"rho": 0.5}), ("fedsam", {"rho": 0.5})),
    (("fedlesam_s", {"rho": 0}), ("scaffold", {})),
    (("fedlesam_d", {"rho": 0, "lamb": 0.3}), ("feddyn", {"lamb": 0.3})),
    (("fedsmoo", {"rho": 0, "lamb": 0.3}), ("feddyn", {"lamb": 0.3})),
    (("fedspeed", {"rho": 0, "lamb": 0.3, "server": "all"}), ("feddyn", {"lamb": 0.3})),
    (("fedacg", {"server_momentum": 0, "mu": 0.4}), ("fedprox", {"mu": 0.4})),
    (("fednsam_s", {"rho": 0, "server_momentum": 0}), ("scaffold", {})),
    (("fednsam_d", {"rho": 0, "server_momentum": 0, "lamb": 0.3}), ("feddyn", {"lamb": 0.3})),
    # a shift that is constant in a round is a shifted start
    (
        ("fednsam", {"rho": 0, "server_momentum": 0.6}),
        ("fedacg", {"server_momentum": 0.6, "mu": 0}),
    ),
    (
        ("fednsam", {"rho": 0.3, "server_momentum": 0.6}),
        ("ShiftedStart", {"rho": 0.3, "server_momentum": 0.6}),
    ),
    # the momentum without extrapolation is the last move
    (
        ("fednsam", {"rho": 0.5, "server_momentum": 0}),
        ("fedlesam", {"rho": 0.5, "direction": "server_last"}),
    ),
    (
        ("fednsam_s", {"rho": 0.5, "server_momentum": 0}),
        ("fedlesam_s", {"rho": 0.5, "direction": "server_last"}),
    ),
    (
        ("fednsam_d", {"rho": 0.5, "server_momentum": 0, "lamb": 0.3}),
        ("fedlesam_d", {"rho": 0.5, "direction": "server_last", "lamb": 0.3}),
    ),
    # Nesterov's extrapolation, taken out and put on
    (
        ("fednsam", {"rho": 0, "server_momentum": 0.6, "extrapolate": False}),
        ("fedavgm", {"server_momentum": 0.6}),
    ),
    (("fedsam", {"rho": 0.5, "nesterov": 0}), ("fedsam", {"rho": 0.5})),
    (("fedsam", {"rho": 0, "nesterov": 0.6}), ("fedacg", {"server_momentum": 0.6, "mu": 0})),
    # FedWMSAM's switches
    (
        ("fedwmsam", {"rho": 0, "correction": False, "alpha": 0.3, "alpha_step": 0}),
        ("fedcm", {"alpha": 0.3}),
    ),
    (("fedwmsam", {"rho": 0, "alpha": 1.0, "alpha_step": 0}), ("scaffold", {})),
    # relaxed initialisation
    (("fedavg", {"relaxed_init": 0.3}), ("fedinit", {"beta": 0.3, "aggregate": "delta"})),
    # FedGloSS without one radius or both
    (("fedgloss", {"rho": 0, "rho_local": 0, "lamb": 0.3}), ("feddyn", {"lamb": 0.3})),
    (
        ("fedgloss", {"rho": 0, "rho_local": 0.5, "lamb": 0.3}),
        ("fedspeed", {"rho": 0.5, "lamb": 0.3, "server": "all"}),
    ),
    # a model that is sent perturbed is a perturbation that is constant in a round
    (
        ("fedgloss", {"rho": 0.5, "rho_local": 0, "lamb": 0.3}),
        ("MeanMove", {"rho": 0.5, "direction": "server_last", "lamb": 0.3}),
    ),
    (
        ("WithoutDuals", {"rho": 0.5, "rho_local": 0, "lamb": 0}),
        ("fednsam", {"rho": 0.5, "server_momentum": 0}),
    ),
    (
        ("WithoutDuals", {"rho": 0.5, "rho_local": 0, "lamb": 0}),
        ("fedlesam", {"rho": 0.5, "direction": "server_last"}),
    ),
    # rates that do not fall
    (("fedswa", {"lr_end": 1, "server_lr": 1}), ("fedavg", {})),
    (("fedswa", {"lr_end": 1}), ("fedavg", {"server_lr": 1.5})),
    (("FrozenFedMoSWA", {}), ("fedswa", {})),
    # no perturbation
    (("fedsol", {"rho": 0}), ("fedavg", {})),
]


def name(side):
    return "-".join([side[0], *(f"{k}={v}" for k, v in side[1].items())])


@pytest.mark.parametrize("participation", some_in_gate(SCHEDULES, 2))
@pytest.mark.parametrize(("left", "right"), EQUAL, ids=[f"{name(a)}:{name(b)}" for a, b in EQUAL])
def test_equal(left, right, participation):
    schedule = SCHEDULES[participation]
    assert_close(
        train(left[0], schedule, **left[1]), train(right[0], schedule, **right[1]), tolerance=5e-6
    )


# The same terms switched on: an identity above must not hold because a term never acts.
DIFFERENT = [
    ("scaffold", {}),
    ("fedcm", {"alpha": 0.3}),
    ("fedavgm", {"server_momentum": 0.6}),
    ("fedprox", {"mu": 0.4}),
    ("fedacg", {"server_momentum": 0.6, "mu": 0}),
    ("fedsam", {"rho": 0.5}),
    ("fedlesam", {"rho": 0.5, "direction": "server_last"}),
    ("fednsam", {"rho": 0.3, "server_momentum": 0.6}),
    ("fedinit", {"beta": 0.3, "aggregate": "delta"}),
    ("fedswa", {"server_lr": 1}),
    ("fedmoswa", {"lr_end": 1, "server_lr": 1}),
    ("fedsol", {"rho": 1}),
    ("fedsol", {"rho": 1, "strength": "fixed"}),
    # no FedAvg limit: the duals accumulate although they do not act on the local steps
    ("feddyn", {"lamb": 0}),
]


@pytest.mark.parametrize(("method", "settings"), DIFFERENT, ids=map(name, DIFFERENT))
def test_differs_from_fedavg(method, settings):
    assert_differ(train(method, **settings)[1:], train("fedavg")[1:])


def test_first_round_of_fedinit_is_fedavg():
    for aggregate in ("model", "delta"):
        relaxed = train("fedinit", beta=0.3, aggregate=aggregate)
        assert_close(relaxed[0], train("fedavg")[0])
        assert_differ(relaxed[2:], train("fedavg")[2:])


def test_the_two_servers_of_fedinit_agree_under_full_participation_only():
    model, delta = {"beta": 0.3, "aggregate": "model"}, {"beta": 0.3, "aggregate": "delta"}
    assert_close(train("fedinit", FULL, **model), train("fedinit", FULL, **delta), 5e-6)
    assert_differ(train("fedinit", PARTIAL, **model), train("fedinit", PARTIAL, **delta))


def test_the_two_servers_of_fedspeed_agree_under_full_participation_only():
    settings = {"rho": 0.5, "lamb": 0.3}
    one, other = {**settings, "server": "participants"}, {**settings, "server": "all"}
    assert_close(train("fedspeed", FULL, **one), train("fedspeed", FULL, **other), 5e-6)
    assert_differ(train("fedspeed", PARTIAL, **one), train("fedspeed", PARTIAL, **other))


def test_directions_of_fedlesam_agree_under_full_participation_only():
    """A client's last model is everybody's last model if all take part."""
    old, last = {"rho": 0.5}, {"rho": 0.5, "direction": "server_last"}
    assert_close(train("fedlesam", FULL, **old), train("fedlesam", FULL, **last), 5e-6)
    assert_differ(train("fedlesam", PARTIAL, **old), train("fedlesam", PARTIAL, **last))


def test_weight_decay_tells_fednsam_from_a_shifted_start():
    """The decay acts on the unshifted weights."""
    settings = {"rho": 0.3, "server_momentum": 0.6}
    decay = {"training": {"weight_decay": 0.05}}
    assert_differ(
        train("fednsam", FULL, **decay, **settings),
        train("ShiftedStart", FULL, **decay, **settings),
    )


@pytest.mark.parametrize("participation", SCHEDULES)
def test_the_server_duals_of_fedgloss_differ(participation):
    settings, schedule = {"rho": 0.5, "rho_local": 0, "lamb": 0.3}, SCHEDULES[participation]
    assert_differ(
        train("fedgloss", schedule, **settings),
        train("fedgloss", schedule, server_dual="official", **settings),
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("fedgloss", {"rho_local": 0, "lamb": 0.3}), ("MeanMove", {"lamb": 0.3})),
        (("WithoutDuals", {"rho_local": 0, "lamb": 0}), ("fedlesam", {})),
    ],
    ids=["fedlesam_d", "fedlesam"],
)
def test_weight_decay_tells_fedgloss_from_perturbed_clients(left, right):
    """The decay acts on the perturbed weights of the one and the unperturbed of the other."""
    decay = {"training": {"weight_decay": 0.05}, "rho": 0.5}
    assert_differ(
        train(left[0], **decay, **left[1]),
        train(right[0], **decay, direction="server_last", **right[1]),
    )


def test_fedgloss_is_not_fedlesam_d_along_the_last_move():
    """The last move has the duals in it."""
    assert_differ(
        train("fedgloss", rho=0.5, rho_local=0, lamb=0.3),
        train("fedlesam_d", rho=0.5, direction="server_last", lamb=0.3),
    )


@pytest.mark.parametrize("participation", SCHEDULES)
def test_one_step_of_fedswa_is_fedavg(participation):
    """The first rate is the round's."""
    schedule = SCHEDULES[participation]
    assert_close(
        train("fedswa", schedule, one_step=True, lr_end=0.1),
        train("fedavg", schedule, one_step=True, server_lr=1.5),
    )


def test_first_round_of_fedmoswa_is_fedswa():
    controlled, plain = train("fedmoswa"), train("fedswa")
    assert_close(controlled[0], plain[0])
    assert_differ(controlled[1:], plain[1:])


def test_fedmoswa_is_scaffold_under_full_participation_only():
    """With gamma = 1 its control is the mean of the fresh ones, SCAFFOLD's that of all."""
    settings = {"lr_end": 1, "server_lr": 1, "gamma": 1.0}
    assert_close(train("fedmoswa", FULL, **settings), train("scaffold", FULL), 5e-6)
    assert_differ(train("fedmoswa", PARTIAL, **settings), train("scaffold", PARTIAL))


@pytest.mark.parametrize("participation", SCHEDULES)
@pytest.mark.parametrize("strength", ["adaptive", "fixed"])
def test_one_step_of_fedsol_is_fedavg(strength, participation):
    """The first step is not perturbed."""
    schedule = SCHEDULES[participation]
    assert_close(
        train("fedsol", schedule, one_step=True, rho=1, strength=strength),
        train("fedavg", schedule, one_step=True),
    )


@pytest.mark.parametrize("participation", SCHEDULES)
def test_one_step_of_fedprox_is_fedavg(participation):
    """The first proximal gradient is zero."""
    schedule = SCHEDULES[participation]
    assert_close(
        train("fedprox", schedule, one_step=True, mu=0.4), train("fedavg", schedule, one_step=True)
    )


def test_one_step_of_scaffold_is_fedavg_under_full_participation():
    """The corrections c - c_i of all clients add up to zero."""
    assert_close(train("scaffold", FULL, one_step=True), train("fedavg", FULL, one_step=True), 5e-6)
    assert_differ(train("scaffold", PARTIAL, one_step=True), train("fedavg", one_step=True))


def test_one_full_batch_step_of_mimelite_is_fedcm():
    """The full gradient at the model sent is then the one of the step."""
    settings = {"training": FULL_BATCH, "alpha": 0.3}
    mime = train("mimelite", FULL, one_step=True, **settings)
    assert_close(mime, train("fedcm", FULL, one_step=True, **settings), 5e-6)
    assert_differ(train("mimelite", FULL, **settings), train("fedcm", FULL, **settings))


def test_mean_of_the_controls_is_the_servers():
    """sum_i c_i / N = c, also over clients that never took part, whose control is 0."""
    for schedule in (PARTIAL[:2], PARTIAL):
        state = last_state("scaffold", schedule)
        rows, _ = state.clients.gather(np.arange(6))
        control = flat(state.server["control"])
        assert np.abs(control).max() > 0.01
        assert_close(rows["control"].sum(axis=0) / 6, control, 5e-6)


def test_mean_of_the_duals_is_the_servers():
    state = last_state("feddyn", PARTIAL, lamb=0.3)
    rows, _ = state.clients.gather(np.arange(6))
    assert_close(rows["dual"].sum(axis=0) / 6, flat(state.server["dual_mean"]), 5e-6)


def test_one_client_is_centralised_sgd():
    problem = toy(()).problem
    w, expected = problem.initial, []
    for round_num in range(3):
        for batch in problem.batches(round_num, 2):
            w = w - LR * LR_DECAY**round_num * problem.gradient(w, batch)
        expected.append(w)
    assert_close(train("fedavg", [[2]] * 3), expected)


def test_one_full_batch_step_weighted_by_samples_is_gradient_descent_on_all_data():
    problem = toy(tuple(FULL_BATCH.items())).problem
    everything = np.arange(len(problem.y))
    w, expected = problem.initial, []
    for round_num in range(4):
        w = w - LR * LR_DECAY**round_num * problem.gradient(w, everything)
        expected.append(w)
    training = {**FULL_BATCH, "weighting": "samples"}
    assert_close(train("fedavg", FULL, training=training, one_step=True), expected)


def test_feddyn_clients_rest_where_the_dual_balances_the_gradient():
    """With h_i = -gradient_i / lamb no client moves; the server's mean dual is 0 here."""
    lamb = 0.3
    problem, learning = process("feddyn", (("lamb", lamb),), tuple(FULL_BATCH.items()))
    numbers = problem.problem
    gradients = [numbers.gradient(numbers.initial, rows) for rows in numbers.client_indices]
    duals = -np.asarray(gradients, np.float32) / lamb
    state = learning.initialize(problem.initial())
    state.clients.scatter(np.arange(6), {"dual": duals}, np.ones(6, bool))
    state, metrics = learning.next(state, range(6))
    assert_close(flat(state.server["weights"]), numbers.initial)
    assert_close(state.clients.gather(np.arange(6))[0]["dual"], duals)
    assert metrics["num_reported"] == 6
