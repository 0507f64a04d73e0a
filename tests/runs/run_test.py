"""A run in Python: train, go on, look at it, without flags."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import tasks  # noqa: F401  makes the data sets known
import tf_fedsam
from tests.launch.main_test import assert_same_run
from tests.launch.running import run as run_command
from tests.launch.running import toy_args, toy_file
from tf_fedsam import looks
from tf_fedsam.errors import InputError
from tf_fedsam.runs.experiment import Experiment
from tf_fedsam.runs.forms import FORMS


def toy_config(folder, **given) -> tf_fedsam.RunConfig:
    """What ``toy_args`` says, in Python."""
    common = {"dataset": "npz", "data_file": str(toy_file(folder)), "model": "linear"}
    common |= {"partition": "given", "participation": 0.5, "rounds": 2, "devices": "cpu:2"}
    return tf_fedsam.RunConfig(**common | given)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python")
    config = toy_config(folder, algo="fedsam", hparams={"rho": 0.05}, rounds=3, targets="0.01,1.0")
    return tf_fedsam.run(config, folder / "run", verbose=False)


def test_python_and_the_command_line_are_the_same(done, capsys, tmp_path):
    args = [*toy_args(tmp_path), "--algo=fedsam", "--hparams.rho=0.05", "--rounds=3"]
    assert run_command(capsys, *args, "--targets=0.01,1.0").code == 0
    assert_same_run(done.folder, tmp_path / "run")
    here, there = (
        json.loads((folder / "config.json").read_text())["settings"]
        for folder in (done.folder, tmp_path / "run")
    )
    assert {**here, "data_file": ""} == {**there, "data_file": ""}


def test_what_is_to_be_seen(done):
    assert [r["round"] for r in done.records] == [1, 2, 3]
    assert done.summary["rounds"] == 3
    assert done.summary["targets"]["0.01"]["round"] == 1
    assert done.complete
    assert done.config.hparams["rho"] == 0.05
    assert (done.algo, done.title) == ("fedsam", "FedSAM")
    assert "complete" in repr(done)
    assert f"{done.summary['test_accuracy']:.2%}" in done.results()
    page = done._repr_html_()
    assert "FedSAM" in page
    assert f"{done.summary['test_accuracy']:.2%}" in page


def test_opened_again(done):
    again = tf_fedsam.Run(done.folder)
    assert again.records == done.records
    assert again.summary == done.summary
    with pytest.raises(InputError, match="not a run folder"):
        tf_fedsam.Run(done.folder.parent)


def test_model(done):
    with np.load(done.folder.parent / "toy.npz") as file:
        x, y = file["x_test"], file["y_test"]
    logits = done.model().predict(x, verbose=0)
    assert np.mean(logits.argmax(-1) == y) == pytest.approx(done.summary["test_accuracy"])
    kernel, bias = done.weights()
    np.testing.assert_allclose(logits, x @ kernel + bias, atol=1e-5)


def test_more_forms_of_a_finished_run(done, tmp_path, monkeypatch):
    """From the network alone; asked for by a call, and by the setting of the same run."""
    folder = shutil.copytree(done.folder, tmp_path / "run")
    shutil.rmtree(folder / "checkpoints")
    again = tf_fedsam.Run(folder)
    assert again.export("serving") == [folder / "serving"]
    assert (folder / "serving/npz_fedsam/1/saved_model.pb").exists()
    monkeypatch.setattr(Experiment, "round", None)
    config = again.config.with_values({"export": "keras,serving,tflite"})
    assert tf_fedsam.run(config, folder, verbose=False).complete
    assert (folder / "model.tflite").stat().st_size > 0
    (folder / "model.tflite").write_bytes(b"cut")
    assert not tf_fedsam.Run(folder).complete
    with pytest.raises(InputError, match="Unknown form"):
        done.export("pickle")


def test_raw_inputs(done):
    raw, network = done.model(raw=True), done.model()
    x = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    np.testing.assert_array_equal(raw(x), network(done._preprocess(x)))


def test_a_form_that_cannot_be_made_is_told_before_training(tmp_path, monkeypatch):
    missing = dataclasses.replace(FORMS["onnx"], package="no_such_package")
    monkeypatch.setitem(FORMS, "onnx", missing)
    with pytest.raises(InputError, match="pip install tf2onnx"):
        tf_fedsam.run(toy_config(tmp_path, export="onnx"), tmp_path / "run", verbose=False)
    assert not (tmp_path / "run").exists()


def test_a_model_that_was_changed_is_refused(done, tmp_path):
    shutil.copytree(done.folder, tmp_path / "copy")
    np.savez(
        tmp_path / "copy/final_weights.npz",
        w0=np.zeros((5, 3), np.float32),
        w1=np.zeros(3, np.float32),
    )
    with pytest.raises(InputError, match="different weights"):
        tf_fedsam.Run(tmp_path / "copy").model()


@pytest.mark.parametrize("name", ["input_shape", "preprocess", None])
def test_a_config_without_what_a_model_needs(name, done, tmp_path):
    shutil.copytree(done.folder, tmp_path / "copy")
    file = tmp_path / "copy/config.json"
    config = json.loads(file.read_text())
    if name is None:
        del config["data"]
    else:
        del config["data"][name]
    file.write_text(json.dumps(config))
    with pytest.raises(InputError, match=f"has no data.{name or 'input_shape'}"):
        tf_fedsam.Run(tmp_path / "copy").model(raw=True)


def test_plot(done):
    figure = done.plot()
    assert [axes.get_title() for axes in figure.axes] == ["test accuracy", "train loss"]
    drawn = figure.axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(drawn, [r["test_accuracy"] for r in done.records])
    assert figure.axes[0].lines[0].get_color() == looks.line("fedsam")["color"]
    assert len(done.plot("lr").axes) == 1
    with pytest.raises(InputError, match="no 'wrong'"):
        done.plot("wrong")


def test_round_by_round(done):
    """The objects of a run, by hand, give the same model bit for bit."""
    experiment = tf_fedsam.build(done.config)
    state = experiment.initialize()
    for t in range(3):
        clients, fraction = experiment.cohort(t)
        state, metrics = experiment.process.next(state, clients, fraction)
        assert metrics["train_loss"] == done.records[t]["train_loss"]
    for here, there in zip(
        experiment.process.get_model_weights(state).trainable, done.weights(), strict=True
    ):
        np.testing.assert_array_equal(here, there)


def test_goes_on(tmp_path, monkeypatch, capsys):
    """Interrupted in round 3 of 4; the same call ends the same."""
    config = toy_config(tmp_path, algo="scaffold", rounds=4)
    whole = tf_fedsam.run(config, tmp_path / "whole", verbose=False)
    one_round = Experiment.round

    def interrupted(experiment, state):
        if state.round_num == 2:
            raise KeyboardInterrupt
        return one_round(experiment, state)

    monkeypatch.setattr(Experiment, "round", interrupted)
    cut = tf_fedsam.run(config, tmp_path / "cut", verbose=False)
    assert not cut.complete
    assert len(cut.records) == 2
    assert "not complete" in cut._repr_html_()
    with pytest.raises(InputError, match="not complete"):
        cut.model()
    monkeypatch.setattr(Experiment, "round", one_round)
    assert tf_fedsam.run(config, tmp_path / "cut", verbose=False).complete
    assert_same_run(whole.folder, tmp_path / "cut")
    assert "Going on after round 2 of 4" in capsys.readouterr().out
    with pytest.raises(InputError, match="holds another run"):
        tf_fedsam.run(toy_config(tmp_path, algo="fedavg"), tmp_path / "cut", verbose=False)


def test_errors_speak_python(tmp_path):
    with pytest.raises(InputError) as caught:
        tf_fedsam.run(toy_config(tmp_path, clip_scope="official"), tmp_path / "run")
    assert str(caught.value).startswith("clip_scope=official")
    assert caught.value.with_flags().startswith("--clip_scope=official")
    assert not (tmp_path / "run").exists()


def test_label_smoothing(tmp_path):
    """The setting reaches the loss of training and tests; at 0 nothing changes."""
    plain, zero, smooth = (
        tf_fedsam.run(toy_config(tmp_path, **given), tmp_path / name, verbose=False)
        for name, given in (
            ("plain", {}),
            ("zero", {"label_smoothing": 0}),
            ("smooth", {"label_smoothing": 0.2}),
        )
    )
    assert_same_run(plain.folder, zero.folder)
    assert np.abs(smooth.weights()[0] - plain.weights()[0]).max() > 1e-4
    with np.load(tmp_path / "toy.npz") as file:
        logits = smooth.model().predict(file["x_test"], verbose=0).astype(np.float64)
        labels = file["y_test"]
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    # -(0.8 log p_label + 0.2 mean_c log p_c)
    expected = -(0.8 * logs[np.arange(12), labels] + 0.2 * logs.mean(1)).mean()
    assert smooth.summary["test_loss"] == pytest.approx(expected, rel=1e-5)
