"""From a description to its objects; nothing is trained here."""

import dataclasses
import io
import json
import types
import zipfile

import keras
import numpy as np
import pytest

import tf_fedsam
from tests.algorithms.harness import strategy
from tests.runs.run_test import toy_config
from tf_fedsam.data.federated_dataset import Examples, Preprocess
from tf_fedsam.data.partition import SCHEMES
from tf_fedsam.errors import InputError
from tf_fedsam.privacy import Privacy
from tf_fedsam.runs import experiment as experiments
from tf_fedsam.runs.experiment import Experiment
from tf_fedsam.runs.task import Loaded, Task

SIZES = [4, 9, 13, 14]  # of the toy's clients


def in_memory(num=60, clients=None):
    """A data set of two numbers an example and three classes."""
    generator = np.random.default_rng(0)
    y = np.arange(num) % 3
    examples = Examples(generator.normal(size=(num, 2)).astype(np.float32), y)
    loaded = Loaded(examples, examples, ("a", "b", "c"), Preprocess(), "memory", clients)
    return Task("mine", "Mine", lambda request: loaded, settings={"model": "linear"})


def built(task=None, **given) -> Experiment:
    config = tf_fedsam.RunConfig(**{"num_clients": 6, "partition": "iid", "rounds": 5} | given)
    return tf_fedsam.build(config, task=task or in_memory(), strategy=strategy())


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    config = toy_config(folder, algo="fedsam", hparams={"rho": 0.25}, rounds=7, eval_every=3)
    return tf_fedsam.build(config.with_values({"probe_every": 2, "probes": "sharpness"}))


class TestBuild:
    def test_everything_is_that_of_the_config(self, toy):
        assert toy.process.algorithm.hparams.rho == 0.25
        assert list(toy.dataset.client_ids) == [0, 1, 2, 3]
        assert toy.class_counts().sum(axis=1).tolist() == SIZES
        assert toy.process.num_parameters == 5 * 3 + 3
        assert toy.process.engine.strategy.num_replicas_in_sync == 2
        assert toy.probes.names == ("sharpness",)
        assert toy.initialize().round_num == 0

    def test_a_task_and_a_strategy_as_arguments(self):
        made = built(devices="cpu:2")
        assert made.loaded.source == "memory"
        assert made.process.engine.strategy.num_replicas_in_sync == 1
        assert made.config.dataset == "mine"
        assert made.config.model == "linear"

    def test_initial_weights(self, tmp_path):
        kernel, bias = np.arange(6.0).reshape(2, 3), np.ones(3)
        np.savez(tmp_path / "w.npz", w0=kernel, w1=bias)
        state = built(init_weights=str(tmp_path / "w.npz")).initialize()
        np.testing.assert_array_equal(state.server["weights"][0], kernel)
        np.savez(tmp_path / "w.npz", w0=kernel)
        with pytest.raises(InputError, match="must have the shapes"):
            built(init_weights=str(tmp_path / "w.npz"))

    @pytest.mark.parametrize(
        ("name", "words"), [("extra", "and nothing else"), ("w1", "must have the shapes")]
    )
    def test_initial_weights_that_are_not_wanted_are_not_read(self, name, words, tmp_path):
        """4 GB by its header, of which there is a kilobyte: reading it would fail otherwise."""
        file, header = tmp_path / "w.npz", io.BytesIO()
        np.savez(file, w0=np.zeros((2, 3)), **({} if name == "w1" else {"w1": np.zeros(3)}))
        facts = {"descr": "<f4", "fortran_order": False, "shape": (2**30,)}
        np.lib.format.write_array_header_1_0(header, facts)
        with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{name}.npy", header.getvalue() + bytes(1000))
        with pytest.raises(InputError, match=words):
            built(init_weights=str(file))


class TestCohort:
    def test_positions_become_names(self):
        names = np.repeat(["ann", "bob", "eve"], 20)
        made = built(in_memory(clients=names), partition="given", num_clients=None)
        ids, fraction = made.cohort(0)
        assert set(ids) <= {"ann", "bob", "eve"}
        assert fraction is None
        assert list(made.dataset.client_ids) == ["ann", "bob", "eve"]

    def test_a_function_of_the_round(self):
        """Two of six clients a round: the same again, others in other rounds."""
        made = built(participation=1 / 3)
        rounds = [made.cohort(t)[0] for t in range(20)]
        assert all(len(ids) == 2 for ids in rounds)
        assert rounds == [made.cohort(t)[0] for t in range(20)]
        assert len({tuple(ids) for ids in rounds}) > 5

    def test_the_method_does_not_matter(self):
        one, two = (built(algo=a, participation=0.5) for a in ("fedavg", "scaffold"))
        assert [one.cohort(t)[0] for t in range(5)] == [two.cohort(t)[0] for t in range(5)]

    def test_clients_that_drop_out(self):
        """Each of six with probability 1/2: of 300 about 150, give or take 5 * sqrt(300 / 4)."""
        made = built(participation=1.0, dropout_rate=0.5)
        left = sum(len(made.cohort(t)[0]) for t in range(50))
        assert abs(left - 150) < 44
        for t in range(5):
            assert sorted(made.cohort(t)[0] + made.dropped(t)) == list(range(6))

    def test_clients_that_drop_out_are_logged_with_what_they_were_sent(self):
        """SCAFFOLD sends two vectors of 2 * 3 + 3 = 9 numbers of 4 bytes to all six clients."""
        made = built(participation=1.0, dropout_rate=0.5, algo="scaffold", probes="none")
        lost = made.dropped(0)
        assert 0 < len(lost) < 6
        _, record = made.round(made.initialize())
        assert record["dropped_client_ids"] == lost
        assert sorted(record["client_ids"] + lost) == list(range(6))
        assert record["vectors_down"] == 12
        assert record["bytes_down"] == 12 * 9 * 4
        assert record["vectors_up"] == 2 * (6 - len(lost))

    def test_at_least_so_many(self):
        """A tenth of six is less than one; of a given share nothing is made."""
        task = dataclasses.replace(in_memory(), settings={"model": "linear", "min_cohort": 5})
        assert len(built(task).cohort(0)[0]) == 5
        assert len(built(task, num_clients=3).cohort(0)[0]) == 3
        assert len(built(task, participation=0.2).cohort(0)[0]) == 1
        assert len(built(task, participation=0.2, min_cohort=2).cohort(0)[0]) == 2
        assert len(built().cohort(0)[0]) == 1

    def test_slow_clients(self):
        made = built(participation=1.0, step_fraction_min=0.25)
        ids, fraction = made.cohort(0)
        assert len(fraction) == len(ids) == 6
        assert (fraction >= 0.25).all()
        assert (fraction <= 1).all()
        assert len(set(fraction.tolist())) == 6

    def test_schedule(self, tmp_path):
        path = tmp_path / "schedule.json"
        path.write_text(json.dumps([[5, 0], [1], [2], [3], [4]]))
        made = built(sampling="schedule", client_schedule=str(path))
        assert [made.cohort(t)[0] for t in (0, 1)] == [[0, 5], [1]]
        with pytest.raises(InputError, match="6"):
            built(sampling="schedule", client_schedule=str(path), rounds=6)

    def test_bernoulli(self):
        made = built(sampling="bernoulli", participation=0.5)
        assert len({len(made.cohort(t)[0]) for t in range(30)}) > 2


class TestRound:
    """When the model is tested and probed: seven rounds, every 3rd and every 2nd, and the last."""

    @pytest.fixture
    def seen(self, toy, monkeypatch):
        """The cohorts that the process was given, with a round that trains nothing."""
        given = []

        def following(self, state, clients, step_fraction=None, upcoming=(), dropped=()):
            given.append((list(clients), list(upcoming)))
            return dataclasses.replace(state, round_num=state.round_num + 1), {"lr": 0.1}

        monkeypatch.setattr(type(toy.process), "next", following)
        tested = {"loss": 2.0, "accuracy": 0.5}
        monkeypatch.setattr(type(toy.process), "evaluate", lambda self, state: tested)
        monkeypatch.setattr(type(toy.probes), "__call__", lambda self, state: {"sharpness": 0.1})
        return given

    def test_schedule_of_tests_and_probes(self, toy, seen):
        state, tests, probes = toy.initialize(), [], []
        for number in range(1, 8):
            state, record = toy.round(state)
            tests += [number] if "test_accuracy" in record else []
            probes += [number] if "sharpness" in record else []
        assert tests == [3, 6, 7]
        assert probes == [2, 4, 6, 7]
        assert record["test_loss"] == 2.0
        assert record["test_accuracy"] == 0.5
        assert record["eval_seconds"] >= 0

    def test_the_next_cohort_is_told(self, toy, seen):
        state = toy.initialize()
        for _ in range(7):
            state, _ = toy.round(state)
        cohorts = [cohort for cohort, _ in seen]
        assert cohorts == [toy.cohort(t)[0] for t in range(7)]
        assert [upcoming for _, upcoming in seen] == [*cohorts[1:], []]

    def test_without_probes(self, toy, seen):
        silent = built(probes="none")
        assert silent.probe(silent.initialize()) == {}


class TestPrivacy:
    """Six clients, of which a third takes part."""

    def made(self, **given):
        return built(**{"participation": 1 / 3, "dp_clip_norm": 0.5} | given)

    def test_divisor(self):
        assert self.made(sampling="bernoulli").process.algorithm.divisor == pytest.approx(2.0)
        assert self.made(participation=0.5).process.algorithm.divisor == 3

    def test_what_can_be_said(self):
        made = self.made(sampling="bernoulli", dp_noise_multiplier=2.0)
        assert made.privacy == Privacy(2.0, 1 / 3, 1 / 6)
        assert self.made(dp_delta=0.01).privacy == Privacy(0.95, None, 0.01)
        assert built().privacy is None

    def test_clipping_by_tensor_is_less_private(self):
        """The linear model has two tensors: an update may be sqrt 2 times as long."""
        made = self.made(sampling="bernoulli", dp_clip_scope="tensor")
        assert made.privacy.noise_multiplier == pytest.approx(0.95 / np.sqrt(2))

    def test_rounds_may_be_empty(self):
        """Each of 6 clients with 1 in 20: nobody in 0.95**6 = 0.74 of the rounds."""
        made = self.made(sampling="bernoulli", participation=0.05)
        assert min(len(made.cohort(t)[0]) for t in range(20)) == 0
        plain = built(sampling="bernoulli", participation=0.05)
        assert min(len(plain.cohort(t)[0]) for t in range(20)) == 1

    def test_shares_of_steps(self):
        given = {"local_steps": 4, "step_fraction_min": 0.5}
        with pytest.raises(InputError, match=r"fedcm.*step_fraction_min=0.5"):
            self.made(algo="fedcm", **given)
        assert self.made(algo="fedsam", **given).privacy is not None

    def test_the_test_of_a_round_tells_epsilon(self):
        made = self.made(sampling="bernoulli")
        state = dataclasses.replace(made.initialize(), round_num=3)
        assert made.test(state)["epsilon"] == made.privacy.epsilon(3)
        assert "epsilon" not in built().test(built().initialize())


class TestNetwork:
    def test_what_trains(self):
        config = tf_fedsam.RunConfig(model="mlp", hidden_units=(4,), trainable="head")
        network = experiments.build_network(config.resolve(in_memory()), (2,), 3)
        assert [v.shape for v in network.trainable_variables] == [(4, 3), (3,)]

    def test_nothing_pretrained_is_read_for_a_network_alone(self, monkeypatch):
        asked = []

        def build(name, shape, num_classes, options):
            asked.append(dict(options))
            return keras.Sequential([keras.Input(shape), keras.layers.Dense(num_classes)])

        monkeypatch.setattr(experiments.models, "build", build)
        config = tf_fedsam.RunConfig(model="vit_b16", pretrained="x.keras").resolve(in_memory())
        for pretrained in (True, False):
            experiments.build_network(config, (2,), 3, pretrained=pretrained)
        assert [options.get("pretrained") for options in asked] == ["x.keras", None]
        own = dataclasses.replace(config, model="own.py:net")  # there it means what its author says
        experiments.build_network(own, (2,), 3, pretrained=False)
        assert asked[2]["pretrained"] == "x.keras"


class TestSplit:
    @pytest.mark.parametrize("scheme", [s.name for s in SCHEMES.values() if not s.needs_client_ids])
    def test_every_scheme(self, scheme):
        made = built(partition=scheme)
        assert made.dataset.num_clients == 6
        assert made.class_counts().sum() <= 60

    def test_options_are_passed_on(self):
        one_class = {"partition": "pathological", "classes_per_client": 1, "replacement": True}
        counts = built(**one_class).class_counts()
        assert ((counts > 0).sum(axis=1) == 1).all()

    @pytest.mark.parametrize("scheme", ["given", "natural"])
    def test_clients_that_the_data_does_not_have(self, scheme):
        with pytest.raises(InputError, match=f"partition={scheme} needs the client of every"):
            built(partition=scheme, num_clients=None)

    def test_noise(self):
        """On the training examples alone."""
        images = Examples(np.full((12, 4, 4, 3), 100, np.uint8), np.arange(12) % 3)
        loaded = Loaded(images, images, ("a", "b", "c"), Preprocess(), "memory")
        task = Task("mine", "Mine", lambda request: loaded, settings={"model": "linear"})
        noisy = built(task, client_noise=0.5)
        first = noisy.dataset.partition.client(0)
        assert (np.asarray(noisy.dataset.train.x[first]) != 100).any()
        np.testing.assert_array_equal(noisy.dataset.test.x, images.x)


class TestValidation:
    def split(self, **given):
        made = built(probes="clients", **given)
        return experiments.validation_split(made.config, made.dataset)

    def test_same(self):
        assert self.split(validation="same").num_clients == 6

    def test_fresh(self):
        assert self.split(validation="fresh", validation_clients=4).num_clients == 4

    def test_none(self):
        assert self.split(validation="none") is None
        made = built(probes="sharpness")
        assert experiments.validation_split(made.config, made.dataset) is None

    def test_auto_needs_a_test_example_for_every_client(self):
        assert self.split().num_clients == 6
        made = built(probes="clients")
        made.dataset.test = Examples(np.zeros((5, 2), np.float32), np.arange(5) % 3)
        assert experiments.validation_split(made.config, made.dataset) is None

    def test_fresh_clients_need_a_scheme(self):
        clients = np.repeat([0, 1, 2], 20)
        with pytest.raises(InputError, match="partition=given draws none") as caught:
            built(
                in_memory(clients=clients),
                partition="given",
                num_clients=None,
                probes="clients",
                validation="fresh",
            )
        assert "--validation=fresh" in caught.value.with_flags()


class TestWeights:
    def test_read_in_order(self, tmp_path):
        """w10 comes after w9; whole numbers become float32."""
        arrays = {f"w{i}": np.full(2, i) for i in reversed(range(11))}
        np.savez(tmp_path / "w.npz", **arrays)
        variables = [types.SimpleNamespace(shape=(2,))] * 11
        received = experiments.read_weights(tmp_path / "w.npz", variables)
        assert [int(w[0]) for w in received] == list(range(11))
        assert {w.dtype for w in received} == {np.dtype(np.float32)}

    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({}, "Received: none"),
            ({"w1": 1.0}, "w0, w1"),
            ({"w0": 1.0, "extra": 1.0}, "Received: w0, extra"),
            ({"w0": np.array(["a"])}, "w0 in .* must be numbers"),
            ({"w0": np.array([1j])}, "must be numbers"),
        ],
    )
    def test_refused(self, arrays, words, tmp_path):
        np.savez(tmp_path / "w.npz", **arrays)
        with pytest.raises(InputError, match=words):
            experiments.look_at_weights(tmp_path / "w.npz")


class TestHoldout:
    @pytest.mark.parametrize("place", ["clients", "pool"])
    def test_nobody_trains_on_it(self, place):
        """Six of 60 examples; every example is another point."""
        made = built(holdout=0.1, holdout_from=place)
        held, train = made.dataset.holdout, made.dataset.train
        trained = train.x[made.dataset.partition.indices]
        assert len(held) == 6
        assert len(trained) == made.num_train == 54
        both = np.concatenate([held.x, trained])
        assert len(np.unique(both, axis=0)) == 60
        # Of the pool two of each of three classes, of the clients one of the ten of each.
        sizes = np.bincount(held.y) if place == "pool" else made.dataset.partition.sizes()
        assert sizes.tolist() == ([2, 2, 2] if place == "pool" else [9] * 6)
        assert made.dataset.num_clients == 6

    def test_the_rest_of_a_client_is_as_it_was(self):
        whole, made = built(), built(holdout=0.1)
        for client in range(6):
            mine = made.dataset.partition.client(client)
            assert set(mine.tolist()) <= set(whole.dataset.partition.client(client).tolist())

    def test_none_by_default(self):
        made = built()
        assert made.dataset.holdout is None
        assert "validation_accuracy" not in made.test(made.initialize())
        assert made.config.as_dict()["holdout"] == 0

    def test_it_is_tested_beside_the_test_examples(self):
        made = built(holdout=0.1)
        state = made.initialize()
        found = made.test(state)
        expected = made.process.evaluate(state, made.dataset.holdout)
        assert found["validation_loss"] == expected["loss"]
        assert found["validation_accuracy"] == expected["accuracy"]
        assert found["test_accuracy"] == made.process.evaluate(state)["accuracy"]

    def test_clients_that_are_given(self):
        names = np.repeat(["ann", "bob", "eve"], 20)
        for place in ("clients", "pool"):
            task = in_memory(clients=names)
            made = built(task, partition="given", num_clients=None, holdout=0.2, holdout_from=place)
            assert list(made.dataset.client_ids) == ["ann", "bob", "eve"]
            assert made.dataset.partition.sizes().sum() == 48

    def test_it_has_the_noise_of_the_client_it_is_from(self):
        """With two clients' gains, a held-out image is what its client would have trained on."""
        images = np.full((40, 2, 2, 1), 0.5, np.float32)
        examples = Examples(images, np.arange(40) % 2)
        loaded = Loaded(examples, examples, ("a", "b"), Preprocess(), "memory", None)
        task = Task("mine", "Mine", lambda request: loaded, settings={"model": "linear"})
        given = {"num_clients": 2, "holdout": 0.1, "client_noise": 0.3}
        made = built(task, **given)
        noisy = {float(v) for v in np.unique(made.dataset.train.x)}
        assert len(noisy) == 2
        assert {float(v) for v in np.unique(made.dataset.holdout.x)} == noisy
        clean = built(task, **given, holdout_from="pool")
        assert set(np.unique(clean.dataset.holdout.x).tolist()) == {0.5}

    def test_an_option_without_effect_is_refused(self):
        with pytest.raises(InputError, match="holdout_from=pool has no effect with holdout=0"):
            built(holdout_from="pool")
