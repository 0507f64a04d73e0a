"""The learning process: what it makes, what it refuses, what a round reports.

What a round computes is checked method by method in tests/algorithms.
"""

import random

import keras
import numpy as np
import pytest

from tests.algorithms.harness import flat, strategy
from tf_fedsam.algorithms.base import TrainingSpec
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.scaffold import Scaffold
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

NUM_FEATURES, NUM_CLASSES = 4, 3
SIZES = {"ann": 4, "bob": 9, "eve": 14}
NUM_PARAMETERS = NUM_FEATURES * NUM_CLASSES + NUM_CLASSES


def examples(num: int, seed: int) -> Examples:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(num, NUM_FEATURES)).astype(np.float32)
    return Examples(x, np.arange(num) % NUM_CLASSES)


def linear():
    return keras.Sequential([keras.Input((NUM_FEATURES,)), keras.layers.Dense(NUM_CLASSES)])


@pytest.fixture(scope="module")
def dataset():
    train, test = examples(27, 0), examples(10, 1)
    owner = np.repeat(list(SIZES), list(SIZES.values()))
    return FederatedDataset.from_arrays(train.x, train.y, owner, x_test=test.x, y_test=test.y)


def make(dataset, model=linear, algorithm=None, seed=0, **options):
    return LearningProcess(
        model,
        algorithm or FedAvg(),
        dataset,
        options=TrainingOptions(batch_size=5, local_epochs=2, **options),
        seed=seed,
        strategy=strategy(),
    )


@pytest.fixture(scope="module")
def process(dataset):
    """Its rounds are compiled once for all tests here."""
    return make(dataset, lr=0.5, lr_decay=0.5)


class TestInitialize:
    def test_weights_are_those_of_the_seed(self, dataset):
        before = random.getstate(), np.random.get_state()
        first, again, other = (make(dataset, seed=s).initialize() for s in (1, 1, 2))
        np.testing.assert_array_equal(flat(first.server["weights"]), flat(again.server["weights"]))
        assert np.abs(flat(first.server["weights"]) - flat(other.server["weights"])).max() > 1e-3
        # Nobody else's random numbers are touched.
        assert random.getstate() == before[0]
        np.testing.assert_array_equal(np.random.get_state()[1], before[1][1])

    def test_state(self, process):
        state = process.initialize()
        assert state.round_num == 0
        assert set(state.server) == {"weights", "model_state"}
        assert state.clients.lengths == {}
        assert process.num_parameters == NUM_PARAMETERS

    def test_given_weights(self, process):
        given = [np.arange(12.0).reshape(4, 3), np.ones(3)]
        received = process.get_model_weights(process.initialize(given))
        assert [w.dtype for w in received.trainable] == [np.float32, np.float32]
        np.testing.assert_array_equal(flat(received.trainable), flat(given))
        assert received.non_trainable == []

    @pytest.mark.parametrize(
        ("weights", "words"),
        [
            ([np.zeros((4, 3))], r"Received: \[\(4, 3\)\]. Expected: \[\(4, 3\), \(3,\)\]"),
            ([np.zeros(3), np.zeros((4, 3))], "must have the shapes"),
            ([np.zeros((4, 3)), np.array([0, np.nan, 0])], "must be finite.*w1"),
            ([np.full((4, 3), np.inf), np.zeros(3)], "must be finite.*w0"),
        ],
    )
    def test_weights_that_do_not_fit(self, process, weights, words):
        with pytest.raises(InputError, match=words):
            process.initialize(weights)


class TestNext:
    def test_metrics(self, process):
        """Batches of 5 for 2 epochs: 2 * ceil(4 / 5) and 2 * ceil(14 / 5) steps."""
        first = process.initialize()
        state, metrics = process.next(first, ["eve", "ann"])
        assert state.round_num == metrics["round"] == 1
        assert metrics["client_ids"] == ["ann", "eve"]
        assert metrics["num_steps"] == [2, 6]
        assert metrics["num_reported"] == 2
        assert metrics["failed_client_ids"] == []
        assert not metrics["skipped"]
        assert metrics["lr"] == 0.5
        assert metrics["vectors_down"] == metrics["vectors_up"] == 2
        assert metrics["bytes_down"] == metrics["bytes_up"] == 2 * 4 * NUM_PARAMETERS
        assert metrics["gradient_evaluations"] == 8
        moved = flat(state.server["weights"]) - flat(first.server["weights"])
        assert metrics["update_norm"] == pytest.approx(np.linalg.norm(moved), rel=1e-5)
        assert metrics["train_loss"] > 0
        assert metrics["seconds"] > 0
        assert process.next(state, ["bob"]).metrics["lr"] == 0.25  # 0.5 * 0.5

    def test_it_learns(self, process):
        state = process.initialize()
        before = process.evaluate(state, process.dataset.train)["loss"]
        for _ in range(3):
            state, _ = process.next(state, SIZES)
        assert process.evaluate(state, process.dataset.train)["loss"] < before - 0.05

    def test_slow_clients(self, process):
        """The fractions are in the order of the ids that were given: 0.5 * 6 and 0.1 * 2."""
        fractions = np.array([0.5, 0.1])
        _, metrics = process.next(process.initialize(), ["eve", "ann"], step_fraction=fractions)
        assert metrics["client_ids"] == ["ann", "eve"]
        assert metrics["num_steps"] == [1, 3]

    def test_one_client_has_no_distances_to_others(self, process):
        """What is of pairs of clients is null, what is of each client is not."""
        _, metrics = process.next(process.initialize(), ["ann"])
        assert metrics["dispersion"] is None
        assert metrics["update_cosine"] is None
        assert metrics["flatness_distance"] is not None
        _, metrics = process.next(process.initialize(), ["ann", "eve"])
        assert metrics["dispersion"] > 0

    def test_clients_that_are_lost(self, process):
        """They are sent the model, which is counted, and are named."""
        _, one = process.next(process.initialize(), ["ann"])
        _, two = process.next(process.initialize(), ["ann"], dropped=["bob", "eve"])
        assert "dropped_client_ids" not in one
        assert two["dropped_client_ids"] == ["bob", "eve"]
        assert two["bytes_down"] == 3 * one["bytes_down"]
        assert two["vectors_down"] == 3 * one["vectors_down"]
        assert two["bytes_up"] == one["bytes_up"]

    @pytest.mark.parametrize(
        ("cohort", "words"),
        [
            ([], r"at least one client.*Received: \[\]"),
            (["ann", "bob", "ann"], "each once"),
            (["ann", "mallory"], "mallory"),
            ([0], "0"),
        ],
    )
    def test_cohorts_that_cannot_be(self, process, cohort, words):
        with pytest.raises(InputError, match=words):
            process.next(process.initialize(), cohort)

    def test_a_state_is_copied_to_come_back_to_it(self, dataset):
        """Scaffold's clients keep a vector each, which next() writes to."""
        process = make(dataset, algorithm=Scaffold())
        state = process.initialize()
        assert state.clients.lengths == {"control": NUM_PARAMETERS}
        saved = state.copy()
        one, _ = process.next(state, ["ann"])
        assert saved.clients.gather(np.array([0]))[1].tolist() == [False]
        assert one.clients.gather(np.array([0]))[1].tolist() == [True]
        again, _ = process.next(saved, ["ann"])
        for here, there in zip(one.server.values(), again.server.values(), strict=True):
            np.testing.assert_array_equal(flat([*here, [0]]), flat([*there, [0]]))


class TestEvaluate:
    def test_by_hand(self, process):
        """Logits that are the bias alone: class 2 always wins; -log softmax in closed form."""
        bias = np.array([0.0, 1.0, 2.0])
        state = process.initialize([np.zeros((4, 3)), bias])
        received = process.evaluate(state)
        y = process.dataset.test.y  # 0, 1, 2, 0, 1, 2, 0, 1, 2, 0
        assert received["accuracy"] == pytest.approx(0.3)
        expected = np.log(np.exp(bias).sum()) - bias[y].mean()
        assert received["loss"] == pytest.approx(expected, rel=1e-6)

    def test_other_examples(self, process):
        state = process.initialize([np.zeros((4, 3)), np.array([5.0, 0, 0])])
        only = Examples(np.zeros((7, 4), np.float32), np.zeros(7, np.int64))
        assert process.evaluate(state, only)["accuracy"] == 1

    def test_nothing_to_test_on(self, dataset):
        train = dataset.train
        process = make(FederatedDataset.from_arrays(train.x, train.y, train.y))
        with pytest.raises(InputError, match="no test examples"):
            process.evaluate(process.initialize())


class Backwards(FedAvg):
    """Reports the model turned around, once it has trained."""

    def reported(self, server, statistics):
        if not server["weights"][1].numpy().any():
            return super().reported(server, statistics)
        return [-w for w in server["weights"]], statistics


class TestReported:
    def test_is_the_global_model(self, process):
        state = process.initialize()
        assert process.reported(state) is state

    def test_another_one(self, dataset):
        """What is tested and taken out is reported; training goes on from the global model."""
        process = make(dataset, algorithm=Backwards())
        state = process.initialize()
        assert process.reported(state) is state
        plain = make(dataset)
        other, _ = plain.next(plain.initialize(), SIZES)
        state, _ = process.next(state, SIZES)
        np.testing.assert_array_equal(flat(state.server["weights"]), flat(other.server["weights"]))
        here = flat(process.get_model_weights(state).trainable)
        np.testing.assert_array_equal(here, -flat(other.server["weights"]))
        last = flat(process.get_model_weights(state, last=True).trainable)
        np.testing.assert_array_equal(last, -here)
        assert process.evaluate(state, last=True) == plain.evaluate(other)
        assert process.evaluate(state)["loss"] > process.evaluate(state, last=True)["loss"]
        np.testing.assert_array_equal(flat(process.get_model(state).get_weights()), here)
        model = process.get_model(state, last=True)
        np.testing.assert_array_equal(flat(model.get_weights()), last)


class Told(FedAvg):
    def check_training(self, training):
        self.training = training


@pytest.mark.parametrize(
    ("options", "num_steps"),
    [({}, None), ({"local_steps": 3}, 3), ({"batch_size": 14}, 2)],  # of 4, 9 and 14 examples
)
def test_what_an_algorithm_is_told_of_training(dataset, options, num_steps):
    algorithm = Told()
    given = {"batch_size": 5, "local_epochs": 2, "weighting": "samples"} | options
    LearningProcess(linear, algorithm, dataset, options=TrainingOptions(**given))
    assert algorithm.training == TrainingSpec("samples", False, num_steps, False)
    given |= {"local_momentum": 0.5, "local_momentum_state": "keep"}
    LearningProcess(linear, algorithm, dataset, options=TrainingOptions(**given))
    assert algorithm.training.keeps_velocity


def test_get_model(process):
    """A plain Keras model with the state's weights; the next call changes the same object."""
    kernel, bias = np.arange(12.0).reshape(4, 3), np.array([1.0, 2.0, 3.0])
    network = process.get_model(process.initialize([kernel, bias]))
    x = process.dataset.test.x
    np.testing.assert_allclose(network(x), x @ kernel + bias, rtol=1e-4, atol=1e-4)
    again = process.get_model(process.initialize([0 * kernel, bias]))
    assert again is network
    np.testing.assert_array_equal(network(x), np.tile(bias, (10, 1)).astype(np.float32))


class TestModels:
    def test_a_model_instead_of_a_function_is_cloned(self, dataset):
        network = linear()
        before = flat(network.get_weights())
        process = make(dataset, network)
        first = process.initialize()
        np.testing.assert_array_equal(flat(first.server["weights"]), before)
        state, _ = process.next(first, SIZES)
        np.testing.assert_array_equal(flat(network.get_weights()), before)
        assert np.abs(flat(state.server["weights"]) - before).max() > 1e-4

    def test_a_built_model_keeps_its_precision(self, dataset):
        with pytest.raises(InputError, match=r"precision must be float32.*float16"):
            make(dataset, linear(), precision="float16")

    def test_several_inputs_are_refused(self, dataset):
        a, b = keras.Input((4,)), keras.Input((4,))
        model = keras.Model([a, b], keras.layers.Dense(3)(keras.layers.Add()([a, b])))
        with pytest.raises(InputError, match="2 inputs"):
            make(dataset, model)

    def test_another_number_of_classes_is_refused(self, dataset):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        with pytest.raises(InputError, match=r"logits \(None, 3\). Received: .*\(None, 2\)"):
            make(dataset, model)

    def test_another_input_is_refused(self, dataset):
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
        with pytest.raises(InputError, match=r"must map \(None, 4\) .* Received: \(None, 5\)"):
            make(dataset, model)

    @pytest.mark.parametrize(
        ("layers", "words"),
        [
            (lambda: [keras.layers.Dense(3)], r"built Keras model.*Input of shape \(4,\)"),
            (lambda: [keras.Input((4,)), keras.layers.ReLU()], "no trainable variables"),
        ],
    )
    def test_without_weights_it_is_refused(self, dataset, layers, words):
        with pytest.raises(InputError, match=words):
            make(dataset, lambda: keras.Sequential(layers()))

    def test_what_is_no_model_is_refused(self, dataset):
        with pytest.raises(InputError, match=r"built Keras model. Received: 3"):
            make(dataset, lambda: 3)
