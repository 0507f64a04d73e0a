"""Client-level differential privacy around any method (Shi et al. 2023, arXiv:2303.11242).

delta_i is shortened to C; the server adds N(0, (z C)^2) to the sum and divides by a fixed m.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.eager import FLAT, LR, NUM_CLIENTS, A, V, Visit, as_flats, as_tree, setup
from tests.algorithms.harness import LR as TOY_LR
from tests.algorithms.harness import LR_DECAY, Toy, assert_close, flat, some_in_gate, strategy
from tests.reference.plugins import clipped, run_dp
from tf_fedsam.algorithms.base import Aggregate, Algorithm, Round, TrainingSpec
from tf_fedsam.algorithms.dp import DP
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.fedcm import FedCM, FedCMClient
from tf_fedsam.algorithms.feddyn import FedDyn
from tf_fedsam.algorithms.fedinit import FedInit
from tf_fedsam.algorithms.fedspeed import FedSpeed
from tf_fedsam.algorithms.fedswa import FedSWAClient
from tf_fedsam.algorithms.nesterov import Nesterov
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.algorithms.relaxed_init import RelaxedInit
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

pytestmark = pytest.mark.no_cover

EQUAL = [8] * 6  # clients of two batches of 4, two epochs: four steps each
COHORTS = [[0, 2, 3], [1, 2, 4], [0, 1, 5]]
LARGE = {"clip_norm": 1e6, "noise_multiplier": 0.0, "divisor": 3}
TIGHT = {"clip_norm": 0.3, "noise_multiplier": 0.7, "divisor": 3}
ONE_VECTOR, MORE = "and only one vector is made private", "which is more than their clipped update"
REFUSED = {
    "scaffold": f"upload delta and control_change, {ONE_VECTOR}",
    "fedgamma": f"upload delta and control_change, {ONE_VECTOR}",
    "fedsmoo": f"upload model and mu, {ONE_VECTOR}",
    "mimelite": f"upload delta and full_gradient, {ONE_VECTOR}",
    "fedlesam_s": f"upload delta and control_change, {ONE_VECTOR}",
    "fednsam_s": f"upload delta and control_change, {ONE_VECTOR}",
    "fedmoswa": f"upload delta and control, {ONE_VECTOR}",
    "fedwmsam": "server keeps control of every client, without noise",
    "fedinit": f"upload model, {MORE}",  # as they are set by default
    "fedspeed": f"upload corrected_model, {MORE}",
}


def spec(num_steps=4, weighting="uniform", shares_statistics=False):
    return TrainingSpec(weighting, shares_statistics, num_steps)


def private(inner, clip_norm=1.0, noise_multiplier=0.0, **more):
    plugin = setup(DP(inner, clip_norm, noise_multiplier, **{"divisor": 4} | more))
    plugin.check_training(spec())
    return plugin


class TestClient:
    def test_a_long_update_is_shortened(self):
        """A step of LR/2 A, which is LR long, to half of that."""
        visit = Visit(private(FedAvg(), LR / 2))
        visit.step()
        upload, _, summands = visit.report()
        assert_close(upload["delta"], LR / 4 * A)
        assert_close(summands["delta"], LR / 4 * A)
        assert np.linalg.norm(upload["delta"]) <= LR / 2 * (1 + 1e-6)

    def test_a_short_one_is_not(self):
        visit = Visit(private(FedAvg(), 2 * LR))
        visit.step()
        assert_close(visit.report()[0]["delta"], LR / 2 * A)

    def test_nothing_stays_nothing(self):
        visit = Visit(private(FedAvg(), 1.0), weights=FLAT)  # where the gradient is 0
        visit.step()
        assert not visit.report()[0]["delta"].any()

    def test_every_tensor_by_itself(self):
        """The kernel's part of A is sqrt 2 long, the bias's too: C each, sqrt 2 C in all."""
        visit = Visit(private(FedAvg(), 0.1, scope="tensor"))
        visit.step()
        delta = visit.report()[0]["delta"]
        assert_close(delta, 0.1 / np.sqrt(2) * A)
        assert np.linalg.norm(delta) == pytest.approx(0.1 * np.sqrt(2))

    def test_what_the_client_keeps_is_clipped_too(self):
        visit = Visit(private(FedDyn(lamb=0.5), LR / 2), weights=V, state={"dual": 2 * A})
        visit.step()  # -A/2 + 0.5 * 2 A: a move of -LR/2 A, LR long
        upload, state, _ = visit.report()
        assert set(upload) == {"delta"}
        assert_close(state["dual"], 2 * A - LR / 4 * A)
        relaxed = Visit(private(RelaxedInit(FedAvg(), 0.5), LR / 2), state={"last_model": 2 * V})
        relaxed.step()  # from -V
        assert_close(relaxed.report()[1]["last_model"], -V + LR / 4 * A)


def after(plugin, total, number=0, server=None):
    """The server's vectors after a round with this sum, flat."""
    vectors = {"weights": as_tree(V), **plugin.server_vectors(as_tree(V))}
    vectors |= {name: as_tree(v) for name, v in (server or {}).items()}
    aggregate = Aggregate({}, {"delta": as_tree(total)}, {}, np.float32(2))
    round_ = Round(np.int32(number), np.float32(LR), NUM_CLIENTS)
    return as_flats(plugin.server_step(vectors, aggregate, round_))


class TestServer:
    def test_the_divisor_is_fixed(self):
        """Two reported, and the sum is divided by 4."""
        assert_close(after(private(FedAvg(server_lr=0.5)), 2 * A)["weights"], V + A / 4)

    def test_a_gradient_is_that_of_the_mean(self):
        """D = -mean / (4 steps of LR)."""
        found = after(private(FedCM()), 2 * A)
        assert_close(found["weights"], V + A / 2)
        assert_close(found["momentum"], -A / 2 / (4 * LR))

    def test_a_model_and_a_total_are_those_of_the_mean(self):
        """FedDyn: h = 0 + 4 (A/2) / N, w = (V + A/2) + h."""
        found = after(private(FedDyn()), 2 * A)
        assert_close(found["dual_mean"], 2 / NUM_CLIENTS * A)
        assert_close(found["weights"], V + A / 2 + 2 / NUM_CLIENTS * A)

    def test_one_draw_of_noise_for_all(self):
        """With m = N = 4 the dual is s, the noise over m, and the model moves by s + s."""
        found = after(private(FedDyn(), 1.0, 2.0), 0 * A)
        assert np.abs(found["dual_mean"]).max() > 0.1
        assert_close(found["weights"] - V, 2 * found["dual_mean"])

    def test_is_inside_of_nesterov(self):
        """Its move from z = V + 0.5 m is A/2; m <- 0.5 m + A/2."""
        found = after(private(Nesterov(FedAvg(), 0.5)), 2 * A, server={"nesterov_momentum": 2 * V})
        assert_close(found["nesterov_momentum"], V + A / 2)
        assert_close(found["weights"], 2 * V + A / 2)


class TestNoise:
    toy = Toy(hidden=80, sizes=EQUAL)  # 80 * 5 + 81 * 3 = 643 weights

    def moves(self, rounds, devices=1, seed=0, **given):
        """How the model moves with a learning rate of 0: by nothing but noise."""
        dp = {"clip_norm": 0.5, "noise_multiplier": 2.0, "divisor": 3, "seed": seed, **given}
        training = {"lr": 0.0}
        history = self.toy.train("fedavg", rounds, devices=devices, training=training, dp=dp)
        return np.diff(history, axis=0, prepend=[flat(self.toy.initial())])

    def test_level(self):
        """Normal with z C / m = 1/3 a round: deviations of the moments are under 4 sigma."""
        moves = self.moves([[0, 1, 2]] * 4) * 3
        n = moves.shape[1]
        assert n == 643
        assert np.abs(moves.mean(axis=1)).max() < 4 / np.sqrt(n)
        assert np.abs(moves.std(axis=1) - 1).max() < 4 / np.sqrt(2 * n)
        together = moves.sum(axis=0) / 2  # of four rounds: sqrt 4 times as much
        assert abs(together.std() - 1) < 4 / np.sqrt(2 * n)
        assert abs((together**4).mean() - 3) < 4 * np.sqrt(96 / n)  # the kurtosis of normal numbers

    def test_rounds_and_tensors_have_their_own(self):
        first, second = self.moves([[0], [0]])
        assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(643)
        kernel, bias, head, _ = np.split(first, [320, 400, 640])  # 4 * 80, 80, 80 * 3, 3
        for one, other in ((kernel, bias), (kernel, head), (bias, head)):
            n = min(len(one), len(other))
            assert abs(np.corrcoef(one[:n], other[:n])[0, 1]) < 4 / np.sqrt(n)

    def test_is_a_function_of_seed_and_round(self):
        """Whoever takes part, on however many devices."""
        first = self.moves([[0, 1, 2], [3, 4]])
        np.testing.assert_allclose(first, self.moves([[5], [0, 1]], devices=2), atol=1e-6)
        other = self.moves([[0, 1, 2], [3, 4]], seed=1)
        assert abs(np.corrcoef(first[0], other[0])[0, 1]) < 4 / np.sqrt(643)

    def test_nobody_is_no_exception(self):
        """An empty cohort releases the same noise; the round is not skipped."""
        first = self.moves([[0, 1], [2]])
        np.testing.assert_allclose(first, self.moves([[], []], devices=2), atol=1e-6)
        plugin = DP(FedAvg(), 0.5, 2.0, divisor=3)
        process = self.toy.process(plugin, devices=2)
        state, metrics = process.next(process.initialize(), [])
        assert state.round_num == 1
        assert not metrics["skipped"]
        assert metrics["update_norm"] > 1
        assert metrics["num_reported"] == 0
        with pytest.raises(InputError, match="at least one client"):
            self.toy.process(FedAvg()).next(process.initialize(), [])


@pytest.mark.parametrize("method", some_in_gate(sorted({*all_algorithms()} - {*REFUSED}), 4))
def test_neither_clipped_nor_noisy_it_is_the_method(method):
    toy = Toy(sizes=EQUAL)
    assert_close(toy.train(method, COHORTS, dp=LARGE), toy.train(method, COHORTS))


@pytest.mark.parametrize(
    ("method", "settings"),
    [("fedinit", {"aggregate": "delta"}), ("fedspeed", {"server": "all"})],
)
def test_other_settings_of_refused_methods(method, settings):
    toy = Toy(sizes=EQUAL)
    found = toy.train(method, COHORTS, dp=LARGE, **settings)
    assert_close(found, toy.train(method, COHORTS, **settings))


class FallingClient(FedSWAClient, FedCMClient):
    pass


class Falling(FedCM):
    """FedCM at FedSWA's rates."""

    Client = FallingClient

    @dataclasses.dataclass(frozen=True)
    class Hparams(FedCM.Hparams):
        lr_end: float = 0.1


@pytest.mark.parametrize(
    ("method", "training"), [(FedCM, {"local_momentum": 0.9}), (Falling, {"lr_decay": 0.5})]
)
def test_a_gradient_is_that_of_the_rates_really_used(method, training):
    """Without noise the server divides by the same sum as without the plug-in."""
    toy = Toy(sizes=EQUAL)

    def momentum(algorithm):
        process = toy.process(algorithm, **training)
        state = process.initialize(toy.initial())
        for cohort in COHORTS:
            state, _ = process.next(state, cohort)
        return flat(state.server["momentum"])

    expected = momentum(method(alpha=0.5))
    assert np.abs(expected).max() > 0.05
    assert_close(momentum(DP(method(alpha=0.5), **LARGE)), expected)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedsam", {"rho": 0.5}),
        ("fedcm", {"alpha": 0.3}),
        ("fedcm", {"alpha": 0.3, "local_momentum": 0.5}),
        ("feddyn", {"lamb": 0.3}),
        ("fedavg", {"nesterov": 0.5, "relaxed_init": 0.3}),
        ("fedavg", {"scope": "tensor"}),
    ],
)
def test_equals_its_reference(method, settings):
    toy, hparams = Toy(hidden=5, sizes=EQUAL), dict(settings)
    scope = hparams.pop("scope", "global")
    training = {"local_momentum": hparams.pop("local_momentum", 0.0)}
    cohorts = [*COHORTS, [], [3]]
    dp = {**TIGHT, "scope": scope, "seed": 5}
    found = toy.train(method, cohorts, training=training, dp=dp, **hparams)
    shapes = [w.shape for w in toy.initial()]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    parts = [slice(*ends[i : i + 2]) for i in range(len(shapes))] if scope == "tensor" else None
    drawn = DP(FedAvg(), **TIGHT, seed=5)
    weights = [tf.constant(w, tf.float32) for w in toy.initial()]
    expected = run_dp(
        method,
        toy.problem,
        cohorts,
        **TIGHT,
        noise=lambda t: flat(drawn._noise(weights, np.int32(t))).astype(np.float64),
        lr=TOY_LR,
        lr_decay=LR_DECAY,
        tensors=parts,
        **training,
        **hparams,
    )
    assert_close(found, expected, 1e-5)


def test_the_reference_clips():
    delta = np.array([3.0, 4.0, 0.3])
    np.testing.assert_allclose(clipped(delta, 1.0, [slice(0, 2), slice(2, 3)]), [0.6, 0.8, 0.3])
    np.testing.assert_allclose(np.linalg.norm(clipped(delta, 1.0, [slice(None)])), 1.0)


def test_an_update_that_is_not_finite_counts_as_nothing():
    toy = Toy(sizes=EQUAL)
    alone = toy.train("fedavg", [[1]], dp=TIGHT)
    toy.dataset.train.x[toy.problem.client_indices[0]] = np.nan
    history, _, _, (metrics,) = toy.run("fedavg", [[0, 1]], dp=TIGHT)
    assert metrics["failed_client_ids"] == [0]
    assert_close(history, alone)


def test_is_the_same_on_any_number_of_devices():
    toy = Toy(sizes=EQUAL)
    settings = {"dp": TIGHT, "swa": {"cycle": 1, "start": 1}}
    _, one, process, _ = toy.run("fedsam", COHORTS, **settings)
    _, two, other, _ = toy.run("fedsam", COHORTS, devices=2, **settings)
    assert_close(
        flat(other.get_model_weights(two).trainable), flat(process.get_model_weights(one).trainable)
    )


def test_swa_on_top_averages_noisy_models():
    toy = Toy(sizes=EQUAL)
    history, state, process, _ = toy.run(
        "fedavg", [*COHORTS, []], dp=TIGHT, swa={"cycle": 1, "start": 2}
    )
    np.testing.assert_array_equal(history, toy.train("fedavg", [*COHORTS, []], dp=TIGHT))
    assert_close(flat(process.get_model_weights(state).trainable), history[2:].mean(axis=0))


# What is refused.


@pytest.mark.parametrize(("method", "why"), REFUSED.items(), ids=REFUSED)
def test_methods_that_tell_more(method, why):
    with pytest.raises(InputError, match=rf"dp_clip_norm makes no sense on {method}\b.* {why}"):
        DP(all_algorithms()[method](), divisor=3, clip_norm=1.0)


def test_weights_of_clients():
    with pytest.raises(InputError, match=r"weighting=uniform.*at most clip_norm.*samples"):
        setup(DP(FedAvg(), 1.0, divisor=1)).check_training(spec(weighting="samples"))


def test_the_process_asks():
    with pytest.raises(InputError, match="weighting=uniform"):
        Toy().process(DP(FedAvg(), 1.0, divisor=1), weighting="samples")


@pytest.mark.parametrize("method", ["fedcm", "mofedsam"])
def test_unequal_steps_where_they_matter(method):
    """The toy's clients have from 1 to 13 examples."""
    with pytest.raises(InputError, match=rf"{method}.*number of local steps.*Use local_steps"):
        Toy().process(DP(all_algorithms()[method](), 1.0, divisor=1))
    equal = DP(all_algorithms()[method](), 1.0, divisor=1)
    process = Toy().process(equal, local_steps=3)
    assert equal.equal_steps
    process.next(process.initialize(), [0, 2], np.array([1.0, 1.0]))
    with pytest.raises(
        InputError, match=rf"client of {method} must do all.*Received: a share of 0.5"
    ):
        process.next(process.initialize(), [0, 2], np.array([1.0, 0.5]))
    indifferent = DP(FedAvg(), 1.0, divisor=1)
    Toy().process(indifferent)
    assert not indifferent.equal_steps


def test_a_velocity_that_only_clients_know():
    """It is in the update, and no gradient of the round; who takes none does not mind."""
    kept = {"local_momentum": 0.9, "local_momentum_state": "keep"}
    with pytest.raises(InputError, match=r"local_momentum_state=keep.*Use local_momentum_state"):
        Toy(sizes=EQUAL).process(DP(FedCM(), 1.0, divisor=1), **kept)
    Toy(sizes=EQUAL).process(DP(FedAvg(), 1.0, divisor=1), **kept)


@pytest.mark.parametrize("norm_state", ["average", "local", "keep_server"])
def test_statistics_that_are_sent(norm_state):
    def make():
        network = keras.Sequential(
            [keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
        )
        return LearningProcess(
            network,
            DP(FedAvg(), 1.0, divisor=1),
            Toy().dataset,
            options=TrainingOptions(norm_state=norm_state),
            strategy=strategy(),
        )

    if norm_state == "keep_server":
        make()
        return
    with pytest.raises(InputError, match=r"BatchNorm statistics.*norm_state=keep_server"):
        make()


class Scores(FedAvg):
    """Its server averages a number of every client."""

    mean_scalars = ("score",)


class Doubles(FedAvg):
    """What it calls its update is twice as long."""

    def report(self, client, outcome):
        return {"delta": [2 * x for x in outcome.delta]}, {}


class Counts(FedAvg):
    """Its server weights updates by examples."""

    def summands(self, contribution, server, round_):
        return {"delta": [contribution.num_examples * x for x in contribution.delta()]}


def test_own_methods_that_tell_more():
    with pytest.raises(InputError, match=r"scores: its server also averages score"):
        DP(Scores(), 1.0, divisor=1)
    with pytest.raises(InputError, match="doubles as it is set"):
        Visit(private(Doubles())).report()
    with pytest.raises(InputError, match="counts: its server uses the clients' numbers"):
        private(Counts())


def test_a_start_that_the_server_does_not_know():
    """A model that is uploaded holds it."""
    with pytest.raises(InputError, match="fedinit as it is set"):
        DP(FedInit(), 1.0, divisor=1)
    with pytest.raises(InputError, match=r"feddyn.*upload model and delta"):
        DP(RelaxedInit(FedDyn()), 1.0, divisor=1)
    with pytest.raises(InputError, match="fedspeed as it is set: its clients upload corrected"):
        DP(FedSpeed(), 1.0, divisor=1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"clip_norm": 0.0}, "dp_clip_norm must be > 0. Received: 0.0"),
        ({"clip_norm": float("inf")}, "dp_clip_norm must be a finite number"),
        ({"noise_multiplier": -1.0}, "dp_noise_multiplier must be at least 0"),
        ({"divisor": 0}, "divisor must be > 0"),
        ({"scope": "layer"}, "dp_clip_scope must be global or tensor. Received: 'layer'"),
        ({"seed": -1}, "dp_seed must be at least 0"),
    ],
)
def test_values_are_checked(wrong, words):
    with pytest.raises(InputError, match=words):
        DP(FedAvg(), **({"clip_norm": 1.0, "divisor": 2} | wrong))


def test_is_the_method_in_all_else():
    plugin = DP(FedDyn(lamb=0.3), 0.2, divisor=10)
    assert (plugin.name, plugin.client_state) == ("feddyn", ("dual",))
    assert plugin.uploads == ("delta",)
    assert plugin.acts_alone
    assert not Algorithm.acts_alone
    assert plugin.describe() == {
        "lamb": 0.3,
        "dp_clip_norm": 0.2,
        "dp_noise_multiplier": 0.95,
        "dp_divisor": 10,
        "dp_clip_scope": "global",
    }
