"""Runs with server SWA and with differential privacy, from settings to files and back."""

import json

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import tf_fedsam
from tests.launch.main_test import assert_same_run, weights
from tests.launch.running import records, run, toy_args
from tests.runs.run_test import toy_config
from tf_fedsam import privacy
from tf_fedsam.errors import InputError
from tf_fedsam.runs.callbacks.base import Callback
from tf_fedsam.runs.experiment import Experiment

pytestmark = pytest.mark.no_cover


class Models(Callback):
    """Keeps what training has after every round."""

    def on_run_begin(self):
        self.seen = []

    def on_round_end(self, round, record, state):
        process = self.training.experiment.process
        self.seen.append(process.get_model_weights(state, last=True).trainable)


def interrupted(monkeypatch, config, folder, after=3):
    """Runs it until a round, and then to its end."""
    one_round = Experiment.round

    def stop(experiment, state):
        if state.round_num == after:
            raise KeyboardInterrupt
        return one_round(experiment, state)

    monkeypatch.setattr(Experiment, "round", stop)
    assert not tf_fedsam.run(config, folder, verbose=False).complete
    monkeypatch.setattr(Experiment, "round", one_round)
    return tf_fedsam.run(config, folder, verbose=False)


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    """FedCM for six rounds, cycles of two from round 2 on: collects after rounds 4 and 6."""
    folder, models = tmp_path_factory.mktemp("swa"), Models()
    config = toy_config(
        folder, algo="fedcm", rounds=6, swa_cycle=2, swa_start=2, probe_every=3, diagnostics=False
    )
    done = tf_fedsam.run(config, folder / "run", verbose=False, callbacks=[models])
    return done, models.seen, config


class TestAveraged:
    def test_both_models_are_exported(self, averaged):
        done, models, _ = averaged
        mean = [(a + b) / 2 for a, b in zip(models[3], models[5], strict=True)]
        for here, there in zip(done.weights(), mean, strict=True):
            np.testing.assert_allclose(here, there, atol=1e-6)
        for here, there in zip(weights(done.folder / "last_weights.npz"), models[5], strict=True):
            np.testing.assert_array_equal(here, there)
        assert np.abs(models[5][0] - done.weights()[0]).max() > 1e-4
        np.testing.assert_array_equal(done.model().get_weights()[0], done.weights()[0])

    def test_both_are_tested(self, averaged):
        """Once they differ; the accuracy is that of the exported model."""
        done, models, _ = averaged
        assert ["test_accuracy_last" in r for r in done.records] == [False] * 3 + [True] * 3
        with np.load(done.folder.parent / "toy.npz") as file:
            x, y = file["x_test"], file["y_test"]

        def accuracy(kernel, bias):
            return np.mean((x @ kernel + bias).argmax(-1) == y)

        last = done.records[-1]
        assert last["test_accuracy"] == pytest.approx(accuracy(*done.weights()))
        assert last["test_accuracy_last"] == pytest.approx(accuracy(*models[5]))
        assert last["test_loss"] != last["test_loss_last"]
        assert done.summary["test_accuracy_last"] == last["test_accuracy_last"]
        assert "of the last model" in done.results()
        card = (done.folder / "MODEL_CARD.md").read_text()
        assert f"| that of the last model | {last['test_accuracy_last']:.2%} |" in card
        np.testing.assert_array_equal(np.trace(last["confusion"]), 12 * last["test_accuracy"])

    def test_the_rate_is_logged(self, averaged):
        """0.1 decays by 0.998; the cycle ends at 0.001, a hundredth of lr."""
        rates = [r["lr"] for r in averaged[0].records]
        low = [(0.1 * 0.998**t + 0.001) / 2 for t in (2, 4)]
        expected = [0.1, 0.0998, low[0], 0.001, low[1], 0.001]
        np.testing.assert_allclose(rates, expected, rtol=1e-6)

    def test_tensorboard_has_both(self, averaged):
        events = EventAccumulator(str(averaged[0].folder))
        events.Reload()
        tags = events.Tags()["tensors"]
        assert {"accuracy/test_accuracy", "accuracy/test_accuracy_last"} <= set(tags)

    def test_resumed_within_a_cycle_it_ends_the_same(self, averaged, tmp_path, monkeypatch):
        done, _, config = averaged
        again = interrupted(monkeypatch, config, tmp_path / "cut", after=5)
        assert_same_run(done.folder, again.folder)
        for here, there in zip(
            weights(again.folder / "last_weights.npz"),
            weights(done.folder / "last_weights.npz"),
            strict=True,
        ):
            np.testing.assert_array_equal(here, there)

    def test_a_lost_last_model_makes_it_incomplete(self, averaged):
        file = averaged[0].folder / "last_weights.npz"
        content = file.read_bytes()
        file.unlink()
        assert not tf_fedsam.Run(averaged[0].folder).complete
        file.write_bytes(content)
        assert tf_fedsam.Run(averaged[0].folder).complete


def test_more_rounds_keep_the_start(capsys, tmp_path):
    """Three quarters of 2 rounds are 1; of 4 they would be 3."""
    args = [*toy_args(tmp_path), "--swa_cycle=1", "--probe_every=2"]
    assert run(capsys, *args).code == 0
    assert json.loads((tmp_path / "run/config.json").read_text())["settings"]["swa_start"] == 1
    refused = run(capsys, *args, "--rounds=4")
    assert refused.code == 2
    assert "swa_start: 1 there, 3 now" in refused.err
    assert "To go on with other rounds, give --swa_start=1." in refused.err
    longer = run(capsys, *args, "--rounds=4", "--swa_start=1")
    assert longer.code == 0
    other = [a for a in args if "output_dir" not in a]
    whole = run(capsys, *other, "--rounds=4", "--swa_start=1", f"--output_dir={tmp_path / 'whole'}")
    assert whole.code == 0
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_nothing_collected(capsys, tmp_path):
    result = run(capsys, *toy_args(tmp_path), "--swa_cycle=2")
    assert result.code == 0
    assert "SWA collects no model" in result.out
    assert "Lower --swa_start or --swa_cycle." in result.out
    assert not (tmp_path / "run/last_weights.npz").exists()
    assert "test_accuracy_last" not in records(tmp_path / "run")[-1]


PRIVATE = {
    "dp_clip_norm": 0.2,
    "dp_noise_multiplier": 0.95,
    "sampling": "bernoulli",
    "algo": "fedsam",
    "rounds": 4,
    "eval_every": 2,
    "dp_delta": 0.01,
    "participation": 0.3,
}


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dp")
    config = toy_config(folder, **PRIVATE)
    return tf_fedsam.run(config, folder / "run", verbose=False), config


class TestPrivate:
    def test_epsilon_is_logged_with_every_test(self, private):
        done, _ = private
        expected = {t: privacy.epsilon(0.95, 0.3, t, 0.01) for t in (2, 4)}
        assert {r["round"]: r["epsilon"] for r in done.records if "epsilon" in r} == expected
        assert done.summary["epsilon"] == expected[4]
        assert done.summary["privacy"] == (
            f"epsilon {expected[4]:.3f} at delta 0.01 after 4 rounds"
        )
        assert done.summary["privacy"] in done.results()
        card = (done.folder / "MODEL_CARD.md").read_text()
        assert f"| privacy of clients | {done.summary['privacy']} |" in card
        assert done.config_file["algorithm"]["dp_divisor"] == pytest.approx(0.3 * 4)

    def test_it_can_be_repeated_and_resumed(self, private, tmp_path, monkeypatch):
        done, config = private
        again = interrupted(monkeypatch, config, tmp_path / "cut")
        assert_same_run(done.folder, again.folder)

    def test_the_noise_has_a_seed_of_its_own(self, private, tmp_path):
        done, config = private
        other = config.with_values({"dp_seed": 1, "rounds": 2, "probes": "none"})
        again = tf_fedsam.run(other, tmp_path / "run", verbose=False)
        assert again.records[0]["client_ids"] == done.records[0]["client_ids"]
        assert again.records[0]["update_norm"] != done.records[0]["update_norm"]


def test_what_is_not_accounted(capsys, tmp_path):
    args = [*toy_args(tmp_path), "--dp_clip_norm=0.2", "--probes=none"]
    result = run(capsys, *args)
    assert result.code == 0
    assert result.out.count("a published seed is no privacy") == 1
    assert "privacy" in result.out
    assert "not accounted: only for" in result.out
    assert "epsilon" not in records(tmp_path / "run")[-1]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--dp_clip_norm=1", "--weighting=samples"], "--dp_clip_norm needs --weighting=uniform"),
        (["--dp_clip_norm=1", "--dropout_rate=0.5"], "needs --dropout_rate=0: if all clients"),
        (["--dp_clip_norm=1", "--algo=scaffold"], "upload delta and control_change"),
        (["--dp_clip_norm=1", "--algo=fedwmsam"], "server keeps control of every client"),
        (
            ["--dp_clip_norm=1", "--algo=fedcm", "--batch_size=5"],
            "divides updates by their number of local steps",
        ),
        (
            ["--dp_clip_norm=1", "--algo=fedcm", "--local_steps=3", "--step_fraction_min=0.5"],
            "Received: --step_fraction_min=0.5",
        ),
        (["--dp_noise_multiplier=1"], "no effect without --dp_clip_norm"),
        (["--dp_clip_norm=1", "--dp_target_epsilon=3"], "is for --sampling=bernoulli"),
        (["--swa_start=3"], "--swa_start has no effect without --swa_cycle"),
        (["--swa_cycle=1", "--swa_lr=0.1"], "Received: --swa_lr=0.1 with --swa_cycle=1"),
    ],
)
def test_what_is_refused(capsys, tmp_path, args, words):
    result = run(capsys, *toy_args(tmp_path), *args)
    assert result.code == 2
    assert words in result.err
    assert not (tmp_path / "run").exists()


def test_a_schedule_has_cohorts_of_one_size(tmp_path):
    (tmp_path / "rounds.json").write_text("[[0], [1, 2]]")
    given = {"sampling": "schedule", "client_schedule": str(tmp_path / "rounds.json")}
    config = toy_config(tmp_path, dp_clip_norm=1.0, **given)
    with pytest.raises(InputError, match=r"same number of clients.*from 1 to 2"):
        tf_fedsam.build(config)
    (tmp_path / "rounds.json").write_text("[[0, 3], [1, 2]]")
    assert tf_fedsam.build(config).process.algorithm.divisor == 2
