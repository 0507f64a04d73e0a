"""Methods that must become each other: at neutral hyper-parameters, and where the algebra says so.

All runs go through the compiled engine on softmax regression, in float32. A process is compiled
once for its method and settings and used for every schedule.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import FULL, LR, LR_DECAY, PARTIAL, Toy, assert_close, flat, plugged
from tf_fedsam import tree
from tf_fedsam.algorithms.fedgamma import FedGAMMA
from tf_fedsam.algorithms.fednsam import FedNSAM
from tf_fedsam.algorithms.scaffold import Scaffold
from tf_fedsam.client import ClientModel

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

    def start(self, client_round):
        momentum = client_round.received["momentum"]
        back = tf.math.divide_no_nan(self.hparams.rho, tree.norm(momentum))
        weights = client_round.received["weights"]
        return tree.axpy(self.hparams.server_momentum - back, momentum, weights)


OWN = {c.__name__: c for c in (FrozenScaffold, FrozenFedGAMMA, ShiftedStart)}


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
]


def name(side):
    return "-".join([side[0], *(f"{k}={v}" for k, v in side[1].items())])


@pytest.mark.parametrize("participation", SCHEDULES)
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
