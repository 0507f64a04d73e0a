"""What holds for every algorithm, whatever its formulas: who counts, what stays, what is compiled.

Every method goes once through the same journey of rounds, on one compiled process; the tests look
at its legs. The clients have 9, 4, 13, 1, 0 and 3 examples and train two epochs in batches of 4.
"""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.contract_test import VARIANTS, ids
from tests.algorithms.eager import Visit
from tests.algorithms.harness import LR, Toy, assert_close, flat, plugged, some_in_gate, strategy
from tf_fedsam import rng, tree
from tf_fedsam.algorithms.plugin import Plugin
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.data.partition import Partition
from tf_fedsam.engine import MODEL_STATE
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

pytestmark = pytest.mark.no_cover

METHODS = dict(reversed(VARIANTS))  # the first variant of each
EMPTY = 4
FAILING = [(0, 1), (3, 2), (4, 0), (4, 1)]  # (round, client)
SEED = 0


class Failing(Plugin):
    """Lets the weights of the FAILING clients become NaN in every local step."""

    def make_client(self, network, local_step):
        client = self.inner.make_client(network, local_step)
        begin_step = client.begin_step
        seeds = [rng.key(SEED, "client", *where) for where in FAILING]

        def failing_begin_step(step):
            begin_step(step)
            factor = tf.where(tf.reduce_any(client.round.seed == seeds), float("nan"), 1.0)
            client.assign_weights(tree.scale(factor, client.read_weights()))

        client.begin_step = failing_begin_step
        return client


@functools.cache
def toy():
    return Toy(sizes=[9, 4, 13, 1, 3], seed=SEED)


@functools.cache
def dataset():
    """The toy problem with a client in fifth place that has no examples."""
    train, cut = toy().dataset.train, toy().dataset.partition
    offsets = np.insert(cut.offsets, EMPTY, cut.offsets[EMPTY])
    partition = Partition(cut.indices.copy(), offsets, cut.num_examples, "toy", False)
    assert partition.sizes().tolist() == [9, 4, 13, 1, 0, 3]
    return FederatedDataset(Examples(train.x, train.y), partition, num_classes=3)


def make_process(algorithm, network=None, devices=1):
    options = TrainingOptions(batch_size=4, local_epochs=2, lr=LR, lr_decay=0.9, weight_decay=0.01)
    return LearningProcess(
        network or toy().network,
        algorithm,
        dataset(),
        options=options,
        seed=SEED,
        strategy=strategy(devices),
    )


@dataclasses.dataclass
class Leg:
    """One round: the state before it, the one after it, and the round's metrics."""

    before: dict
    after: dict
    metrics: dict


class Journey:
    """Rounds of one method; every one is tried with several cohorts from the same state."""

    def __init__(self, method, **hparams):
        self.method, self.hparams = method, hparams
        self.process = make_process(Failing(plugged(method, **hparams)))
        self.state = self.process.initialize(toy().initial())
        self.one_fails, self.without_it = self.next([0, 1, 2, 5], [0, 2, 5])
        self.shuffled, self.sorted = self.next([3, 0, 1], [0, 1, 3])
        self.with_empty, self.without_empty = self.next([EMPTY, 2, 0], [2, 0])
        self.known_fails, self.without_known = self.next([0, 2, 3], [0, 3])
        [self.all_fail] = self.next([0, 1])
        self.scalars_kept = self.scalars()
        [self.only_empty] = self.next([EMPTY])
        self.process.options = dataclasses.replace(self.process.options, lr=0.0)
        [self.at_rest] = self.next([0, 1, 2, 3])

    def next(self, *cohorts):
        """Goes on with the first cohort; the others are only looked at."""
        legs, before = [], snapshot(self.state)
        for cohort in reversed(cohorts):
            state, metrics = self.process.next(self.state.copy(), cohort)
            legs.append(Leg(before, snapshot(state), metrics))
        self.state = state
        return legs[::-1]

    def scalars(self):
        server = {n: v for n, v in self.state.server.items() if n != MODEL_STATE}
        algorithm = self.process.algorithm
        found = {n: float(v) for n, v in algorithm.scalars(server).items()}
        momentum = algorithm.downhill_momentum(server)
        return found if momentum is None else {**found, "momentum_norm": float(tree.norm(momentum))}


@functools.cache
def journey(method):
    return Journey(method, **METHODS[method])


def snapshot(state):
    """All numbers of a state: by name for the server, by (client, name) for the clients."""
    server = {name: flat(v) for name, v in state.server.items() if v}
    clients = {
        (p, n): row for p in state.clients.positions for n, row in state.clients.row(p).items()
    }
    return server | clients


def clients(numbers):
    return {key[0] for key in numbers if isinstance(key, tuple)}


def assert_same(left, right):
    """The same numbers, bit for bit."""
    assert left.keys() == right.keys()
    for name, value in left.items():
        np.testing.assert_array_equal(value, right[name], err_msg=str(name))


every_method = pytest.mark.parametrize("method", some_in_gate(all_algorithms(), 3))


@every_method
def test_order_of_the_cohort_does_not_matter(method):
    legs = journey(method)
    assert_same(legs.shuffled.after, legs.sorted.after)
    assert legs.shuffled.metrics["client_ids"] == [0, 1, 3]
    assert np.abs(legs.sorted.after["weights"] - legs.sorted.before["weights"]).max() > 1e-3


@every_method
def test_clients_with_few_examples(method):
    """9, 4 and a single example, and 3 of them, less than a batch: two epochs each."""
    legs = journey(method)
    assert legs.shuffled.metrics["num_steps"] == [6, 2, 2]
    assert legs.without_it.metrics["num_steps"] == [6, 8, 2]
    for leg in (legs.shuffled, legs.without_it):
        assert leg.metrics["num_reported"] == 3
        assert leg.metrics["failed_client_ids"] == []
        assert 0 < leg.metrics["train_loss"] < 5


@every_method
def test_a_client_without_examples_is_not_there(method):
    legs = journey(method)
    assert_same(legs.with_empty.after, legs.without_empty.after)
    metrics = legs.with_empty.metrics
    assert metrics["num_steps"] == [6, 8, 0]
    assert (metrics["num_reported"], metrics["failed_client_ids"]) == (2, [])
    assert metrics["train_loss"] == legs.without_empty.metrics["train_loss"]


@every_method
def test_a_client_that_fails_is_left_out(method):
    """As if it had not been there: its state stays, and no mean counts it."""
    legs = journey(method)
    assert legs.one_fails.metrics["failed_client_ids"] == [1]
    assert legs.one_fails.metrics["num_reported"] == 3
    assert_same(legs.one_fails.after, legs.without_it.after)
    assert 1 not in clients(legs.one_fails.after)
    assert legs.known_fails.metrics["failed_client_ids"] == [2]
    assert_same(legs.known_fails.after, legs.without_known.after)
    for key in legs.known_fails.before:
        if isinstance(key, tuple) and key[0] == 2:
            np.testing.assert_array_equal(legs.known_fails.after[key], legs.known_fails.before[key])
    algorithm = legs.process.algorithm
    has_state = bool(algorithm.client_state or algorithm.server_rows)
    assert clients(legs.known_fails.after) == ({0, 1, 2, 3, 5} if has_state else set())


@every_method
def test_nothing_changes_if_nobody_reports(method):
    legs = journey(method)
    assert legs.all_fail.metrics["failed_client_ids"] == [0, 1]
    assert legs.only_empty.metrics["failed_client_ids"] == []
    for leg in (legs.all_fail, legs.only_empty):
        assert_same(leg.after, leg.before)
        assert leg.metrics["num_reported"] == 0
        assert leg.metrics["train_loss"] is None


@pytest.mark.parametrize("method", ["fedwmsam", "fednsam", "fednsam_s", "fednsam_d"])
def test_logs_only_what_is_in_force_if_nobody_reports(method):
    """The numbers of a server step that was not taken are not logged."""
    legs = journey(method)
    assert set(legs.scalars_kept) >= {"momentum_norm"}
    for name, value in legs.scalars_kept.items():
        assert name in legs.known_fails.metrics
        assert legs.all_fail.metrics.get(name, value) == pytest.approx(value, rel=1e-6)
    assert legs.all_fail.metrics["update_norm"] == 0
    assert legs.all_fail.metrics["skipped"]
    assert not legs.known_fails.metrics["skipped"]


@every_method
def test_compiled_once(method):
    """For cohorts of 1 to 4 clients of all sizes, at every learning rate."""
    assert journey(method).process.engine.num_traces == 1


@every_method
def test_learning_rate_0(method):
    """No client moves; momenta coast, duals and relaxed starts still act on the server."""
    legs = journey(method)
    before, after = legs.at_rest.before, legs.at_rest.after
    hparams = legs.process.algorithm.hparams
    w, m, v = (before.get(n) for n in ("weights", "momentum", "variance"))
    cohort = range(4)
    if method in ("fedavgm", "fedacg", "fednsam", "fednsam_s"):
        expected = w + hparams.server_momentum * m
    elif method in ("fedadam", "fedadagrad", "fedyogi"):
        v = hparams.beta2 * v if method == "fedadam" else v  # the squared update is 0
        expected = w + 0.1 * hparams.beta1 * m / (np.sqrt(v) + hparams.epsilon)
    elif method in ("feddyn", "fedsmoo", "fedlesam_d", "fedgloss"):
        expected = w + before["dual_mean"]
    elif method == "fedspeed":
        expected = w + np.mean([before[i, "dual"] for i in cohort], axis=0)
    elif method == "fednsam_d":
        expected = w + hparams.server_momentum * m + before["dual_mean"]
    elif method == "fedinit":
        last = np.mean([before[i, "last_model"] for i in cohort], axis=0)
        expected = w + hparams.beta * (w - last)
    else:
        np.testing.assert_array_equal(after["weights"], w)
        expected = w
    assert_close(after["weights"], expected)
    assert np.abs(expected - w).max() > 1e-3 or expected is w
    for i in cohort:
        if (i, "dual") in before:
            np.testing.assert_array_equal(after[i, "dual"], before[i, "dual"])
    if method in ("fedcm", "mofedsam", "fedwmsam"):
        np.testing.assert_array_equal(after["momentum"], 0 * w)  # the mean of no move
    if method == "mimelite":  # full gradients do not depend on the learning rate
        assert np.abs(after["momentum"] - (1 - hparams.alpha) * m).max() > 1e-3


@pytest.mark.parametrize("variant", VARIANTS, ids=ids)
def test_gradients_per_step(variant):
    """As many gradients are evaluated in a step as the method says."""
    method, hparams = variant
    visit = Visit(plugged(method, **hparams))
    client = visit.client
    visit.step()
    assert len(visit.shifts) == client.gradients_per_step - client.spared_gradients
    visit.step()
    assert len(visit.shifts) == 2 * client.gradients_per_step - client.spared_gradients
    assert isinstance(client, visit.algorithm.Client)
    assert type(client).__name__ == visit.algorithm.Client.__name__  # no other subclass


@every_method
def test_gradient_evaluations_of_a_round(method):
    """9, 13 and 3 examples: 6 + 8 + 2 steps; MimeLite also goes once through 3 + 4 + 1 batches.

    FedSOL takes one gradient in the first step of each of the three.
    """
    per_step = journey(method).process.algorithm.Client.gradients_per_step
    expected = 16 * per_step + {"mimelite": 8, "fedsol": -3}.get(method, 0)
    assert journey(method).without_it.metrics["gradient_evaluations"] == expected
    sharpness_aware = (
        *("fedsam", "fedasam", "mofedsam", "fedgamma", "fedsmoo", "fedspeed"),
        *("fedgloss", "fedsol"),
    )
    assert per_step == (2 if method in sharpness_aware else 1)


@every_method
def test_vectors_of_a_round(method):
    """Three clients take part; one of four that fails has downloaded and does not upload."""
    legs = journey(method)
    algorithm, size = legs.process.algorithm, 4 * toy().problem.initial.size
    for leg, down in ((legs.without_it, 3), (legs.one_fails, 4)):
        metrics = leg.metrics
        assert metrics["vectors_down"] == down * len(algorithm.downloads)
        assert metrics["vectors_up"] == 3 * len(algorithm.uploads)
        assert metrics["bytes_down"] == size * metrics["vectors_down"]
        assert metrics["bytes_up"] == size * metrics["vectors_up"]


@every_method
def test_says_whether_it_perturbs(method):
    """Rounds log the norm of the shift of the methods that have one, in any round."""
    visit = Visit(plugged(method, **METHODS[method]))
    visit.step()
    visit.step()
    shifted = any(shift is not None for shift in visit.shifts)
    assert visit.client.perturbs == shifted
    assert ("perturbation_norm" in journey(method).sorted.metrics) == shifted


@pytest.mark.parametrize(
    ("method", "devices"),
    [
        *(("scaffold", 2), ("scaffold", 3), ("fedwmsam", 2), ("fedwmsam", 3)),
        *(("fedsmoo", 3), ("fedrobust", 2), ("fedinit", 3)),
        *(("fedgloss", 2), ("fedmoswa", 3), ("fedsol", 2)),
    ],
)
def test_devices_agree(method, devices):
    """Client states of every kind, scalars and failing clients; the cohort is cut differently."""
    process = make_process(Failing(plugged(method, **METHODS[method])), devices=devices)
    state = process.initialize(toy().initial())
    legs = journey(method)
    for cohort, expected in (
        ([0, 1, 2, 5], legs.one_fails),
        ([0, 1, 3], legs.sorted),
        ([0, 2, EMPTY], legs.with_empty),
        ([0, 2, 3], legs.known_fails),
    ):
        state, metrics = process.next(state, cohort)
        received = snapshot(state)
        assert received.keys() == expected.after.keys()
        for name, value in expected.after.items():
            # Controls and momenta are moves divided by num_steps * lr, rounding and all.
            assert_close(received[name], value, 1e-6 if name == "weights" else 1e-5)
        for key in ("client_ids", "num_steps", "failed_client_ids", "gradient_evaluations"):
            assert metrics[key] == expected.metrics[key]
        assert metrics["train_loss"] == pytest.approx(expected.metrics["train_loss"], rel=1e-5)
    assert process.engine.num_traces == 1


def normalised_network():
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(3),
            keras.layers.BatchNormalization(momentum=0.8),
            keras.layers.Dense(3),
        ]
    )


def test_statistics_are_averaged_over_those_who_report():
    """Of 1 to 3 devices alike: the plain mean of what each client ends with on its own."""
    results = []
    for devices in (1, 2, 3):
        process = make_process(Failing(plugged("fedavg")), normalised_network, devices)
        state = process.initialize()
        results.append(process.next(state.copy(), [0, 1, 2, 5]).state)
        if devices == 1:
            alone = [process.next(state.copy(), [client]).state for client in (0, 2, 5)]
            start = state
    for name in ("weights", MODEL_STATE):
        expected = np.mean([flat(each.server[name]) for each in alone], axis=0)
        assert np.abs(expected - flat(start.server[name])).max() > 0.05
        for result in results:
            assert_close(flat(result.server[name]), expected, 1e-6)
