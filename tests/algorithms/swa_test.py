"""Server SWA around any method (Caldarola et al. 2022, arXiv:2203.11834).

The rate falls in cycles; the mean of the models at the ends of cycles is reported, never trained.
"""

import keras
import numpy as np
import pytest

from tests.algorithms.eager import A, V, as_tree, setup
from tests.algorithms.harness import LR, LR_DECAY, PARTIAL, Toy, assert_close, flat, strategy
from tests.reference.plugins import run_swa
from tf_fedsam.algorithms.base import Round
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.fedavgm import FedAvgM
from tf_fedsam.algorithms.relaxed_init import RelaxedInit
from tf_fedsam.algorithms.swa import COUNT, MEAN, SWA
from tf_fedsam.engine import MODEL_STATE
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

pytestmark = pytest.mark.no_cover

EIGHT = [*PARTIAL, [1, 2], [0, 5], [2, 3, 4]]
MOMENTUM = {"server_momentum": 0.7}


def swa(cycle, start, lr=0.05, collect="end"):
    return {"cycle": cycle, "start": start, "lr": lr, "collect": collect}


def reported(process, state):
    return flat(process.get_model_weights(state).trainable)


class TestRate:
    def test_falls_within_a_cycle(self):
        """tau is 1/2, 1 from round 2 on: 0.4 -> (0.4 + 0.1) / 2 -> 0.1."""
        rate = SWA(FedAvg(), **swa(2, 2, lr=0.1)).round_lr
        np.testing.assert_allclose(
            [rate(0.4, t) for t in range(6)], [0.4, 0.4, 0.25, 0.1, 0.25, 0.1]
        )
        thirds = SWA(FedAvg(), **swa(3, 1, lr=0.1)).round_lr
        np.testing.assert_allclose([thirds(0.4, t) for t in range(5)], [0.4, 0.3, 0.2, 0.1, 0.3])

    def test_the_official_phase_is_counted_from_round_0(self):
        """With start 3 and cycle 2 the first rate of the cycle is its lowest."""
        rate = SWA(FedAvg(), **swa(2, 3, lr=0.1, collect="official")).round_lr
        np.testing.assert_allclose([rate(0.4, t) for t in range(2, 6)], [0.4, 0.1, 0.25, 0.1])

    def test_a_cycle_of_one_round_leaves_it_alone(self):
        assert [SWA(FedAvg(), **swa(1, 1)).round_lr(0.3, t) for t in range(3)] == [0.3] * 3

    def test_is_what_clients_train_with(self):
        """And what is logged: in a round of rate 0 nothing moves."""
        settings = {"swa": swa(2, 0, lr=0.0)}
        history, _, _, metrics = Toy().run("fedavg", PARTIAL[:4], **settings)
        decay = LR_DECAY
        np.testing.assert_allclose([m["lr"] for m in metrics], [LR / 2, 0, LR / 2 * decay**2, 0])
        assert np.array_equal(history[0], history[1])
        assert not np.array_equal(history[1], history[2])


@pytest.mark.parametrize(
    ("settings", "rounds"),
    [
        (swa(2, 2), [3, 5, 7]),
        (swa(2, 2, collect="official"), [4, 6]),
        (swa(1, 2), [2, 3, 4, 5, 6, 7]),
        (swa(1, 2, collect="official"), [3, 4, 5, 6, 7]),
        (swa(3, 1), [3, 6]),
        (swa(1, 7), [7]),
        (swa(1, 8), []),
        (swa(5, 4), []),  # the first cycle does not end
    ],
)
def test_which_models_are_collected(settings, rounds):
    """Of eight rounds, from 0; round t makes w^(t+1): mean of w^4, w^6, w^8 for cycle 2."""
    plugin = SWA(FedAvg(), **settings)
    assert [t for t in range(8) if plugin.collects(t)] == rounds
    assert plugin.num_collected(8) == len(rounds)


@pytest.mark.parametrize("settings", [swa(2, 2), swa(2, 2, collect="official"), swa(1, 2)])
def test_the_mean_of_exactly_these_models_is_reported(settings):
    toy = Toy()
    process = toy.process(SWA(FedAvgM(**MOMENTUM), **settings))
    state, models, taken = process.initialize(toy.initial()), [], []
    for t, cohort in enumerate(EIGHT):
        state, _ = process.next(state, cohort)
        models.append(flat(state.server["weights"]).astype(np.float64))
        taken += [models[-1]] if process.algorithm.collects(t) else []
        expected = np.mean(taken, axis=0) if taken else models[-1]
        assert_close(reported(process, state), expected)
        assert float(state.server[COUNT][0]) == len(taken)
        np.testing.assert_array_equal(
            flat(process.get_model_weights(state, last=True).trainable), models[-1]
        )
    assert len(taken) >= 2


@pytest.mark.parametrize(
    ("method", "hparams"),
    [
        ("fedsam", {"rho": 0.5}),
        ("fedcm", {"alpha": 0.3}),  # divides by the rate
        ("scaffold", {}),
        ("feddyn", {"lamb": 0.3}),
    ],
)
@pytest.mark.parametrize("collect", ["end", "official"])
def test_equals_its_reference(method, hparams, collect):
    toy, settings = Toy(hidden=5), swa(3, 1, collect=collect)
    history, state, process, _ = toy.run(method, EIGHT, swa=settings, **hparams)
    expected = run_swa(
        method,
        toy.problem,
        EIGHT,
        cycle=3,
        start=1,
        end_lr=settings["lr"],
        collect=collect,
        lr=LR,
        lr_decay=LR_DECAY,
        **hparams,
    )
    assert_close(history, expected[0], 1e-5)
    assert_close(reported(process, state), expected[1][-1], 1e-5)
    assert np.abs(expected[1][-1] - expected[0][-1]).max() > 1e-2  # they are two models


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedavg", {}),
        ("mofedsam", {"rho": 0.5}),
        ("fedavgm", MOMENTUM),
        ("feddyn", {"nesterov": 0.5}),
        ("scaffold", {"relaxed_init": 0.3}),
    ],
)
def test_training_with_cycles_of_one_round_is_that_of_the_method(method, settings):
    """Bit for bit: it never sees the mean."""
    toy = Toy()
    plain = toy.train(method, PARTIAL, **settings)
    np.testing.assert_array_equal(toy.train(method, PARTIAL, swa=swa(1, 1), **settings), plain)
    history, state, process, _ = toy.run(method, PARTIAL, swa=swa(1, 4), **settings)
    np.testing.assert_array_equal(reported(process, state), history[-1])  # the mean of one


def test_a_start_after_the_last_round_is_the_method():
    toy = Toy()
    _, state, process, _ = toy.run("fedsam", PARTIAL, swa=swa(2, len(PARTIAL)))
    assert process.reported(state) is state
    np.testing.assert_array_equal(reported(process, state), toy.train("fedsam", PARTIAL)[-1])


def test_a_round_in_which_nobody_reported_is_not_collected():
    """The inputs of client 1 are not finite, nor is its update."""
    toy = Toy(sizes=[4, 3, 5])
    toy.dataset.train.x[toy.problem.client_indices[1]] = np.nan
    process = toy.process(SWA(FedAvg(), **swa(1, 0)))
    state = process.initialize(toy.initial())
    for cohort in ([0], [1], [2]):
        state, _ = process.next(state, cohort)
    assert float(state.server[COUNT][0]) == 2


def test_what_the_server_keeps():
    """n = 2: mean <- (2 mean + w) / 3."""
    plugin = setup(SWA(FedAvg(), **swa(1, 3)))
    server = {"weights": as_tree(A), **plugin.server_vectors(as_tree(A))}
    server |= {MEAN: as_tree(V), COUNT: as_tree(2.0)}
    before = plugin.after_round(server, [], Round(np.int32(2), 0.1, 4))
    assert_close(flat(before[MEAN]), V)
    after = plugin.after_round(server, [], Round(np.int32(3), 0.1, 4))
    assert_close(flat(after[MEAN]), (2 * V + A) / 3)
    assert_close(flat(after["weights"]), A)
    assert float(after[COUNT][0]) == 3


class Own(FedAvg):
    """A method with a rate and a model of its own."""

    def round_lr(self, lr, round_num):
        return lr / 2

    def server_vectors(self, weights):
        return {"best": weights}

    def after_round(self, server, statistics, round_):
        return {**server, "best": [2 * w for w in server["weights"]]}

    def reported(self, server, statistics):
        return server["best"], statistics


def test_what_a_method_does_besides_stays():
    """Its rate is where a cycle begins, and its model is reported until there is a mean."""
    plugin = setup(SWA(Own(), **swa(2, 2, lr=0.1)))
    np.testing.assert_allclose([plugin.round_lr(0.4, t) for t in range(4)], [0.2, 0.2, 0.15, 0.1])
    server = {"weights": as_tree(A), **plugin.server_vectors(as_tree(V))}
    early = plugin.after_round(server, [], Round(np.int32(0), 0.1, 4))
    assert_close(flat(plugin.reported(early, [])[0]), 2 * A)
    late = plugin.after_round(server, [], Round(np.int32(3), 0.1, 4))
    assert_close(flat(late["best"]), 2 * A)
    assert_close(flat(plugin.reported(late, [])[0]), A)


def test_batch_norm_statistics_are_averaged_alike():
    toy = Toy()

    def network():
        return keras.Sequential(
            [keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
        )

    process = LearningProcess(
        network,
        SWA(FedAvg(), **swa(1, 1)),
        toy.dataset,
        options=TrainingOptions(batch_size=4, local_epochs=1),
        strategy=strategy(),
    )
    state, seen = process.initialize(), []
    for cohort in PARTIAL[:3]:
        state, _ = process.next(state, cohort)
        seen.append(flat(state.server[MODEL_STATE]))
    received = process.get_model_weights(state)
    assert_close(flat(received.non_trainable), np.mean(seen[1:], axis=0))
    assert np.abs(seen[2] - seen[1]).max() > 1e-2
    model = process.get_model(state)
    assert_close(flat(model.get_layer(index=0).non_trainable_variables), np.mean(seen[1:], axis=0))
    last = flat(process.get_model_weights(state, last=True).non_trainable)
    np.testing.assert_array_equal(last, seen[2])


def test_is_the_same_on_any_number_of_devices():
    toy, settings = Toy(), {"swa": swa(2, 1), "rho": 0.5}
    _, one, process, _ = toy.run("fedsam", PARTIAL, **settings)
    _, two, other, _ = toy.run("fedsam", PARTIAL, devices=2, **settings)
    assert_close(reported(other, two), reported(process, one))


def test_is_outside_of_the_other_plug_ins():
    """Nothing of theirs is averaged; what each says stands side by side."""
    plugin = SWA(RelaxedInit(FedAvg(), 0.3), **swa(2, 4))
    assert plugin.client_state == ("last_model",)
    own = {"swa_cycle": 2, "swa_start": 4, "swa_lr": 0.05, "swa_collect": "end"}
    assert plugin.describe() == {"relaxed_init": 0.3} | own
    assert "swa_lr" not in SWA(FedAvg(), **swa(1, 4)).describe()  # it has no effect


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"cycle": 0}, "swa_cycle must be at least 1. Received: 0"),
        ({"cycle": 2.5}, "swa_cycle must be a whole number"),
        ({"start": -1}, "swa_start must be at least 0. Received: -1"),
        ({"lr": -0.1}, "swa_lr must be at least 0"),
        ({"collect": "start"}, "swa_collect must be end or official. Received: 'start'"),
    ],
)
def test_values_are_checked(wrong, words):
    with pytest.raises(InputError, match=words):
        SWA(FedAvg(), **(swa(2, 2) | wrong))
