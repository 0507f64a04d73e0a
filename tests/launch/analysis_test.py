"""What a run measures of itself: log, summary, TensorBoard, and that measuring changes nothing."""

import json

import numpy as np
import pytest
import tensorflow as tf
from absl.testing import flagsaver
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from launch import main
from tests.launch.running import records, run, toy_args
from tf_fedsam.analysis.probes import NAMES
from tf_fedsam.data.arrays import read_npz

pytestmark = pytest.mark.no_cover

EVERYTHING = (
    *(f"--probes={','.join(NAMES)}", "--keep_local_models", "--probe_every=2"),
    *("--probe_clients=3", "--eigenvalues=2", "--trace_vectors=2", "--sharpness_batch=7"),
)
PROBED = {
    *("global_train_loss", "global_train_accuracy", "sharpness", "hessian_eigenvalue"),
    *("divergence", "confusion", "probe_seconds", "client_train_accuracy_std"),
    *("client_test_accuracy_mean", "client_test_accuracy_histogram"),
    *("hessian_eigenvalue_2", "hessian_trace", "hessian_trace_error", "m_sharpness"),
    *("sharpness_local_on_own", "sharpness_global_on_all", "sharpness_local_on_all_each"),
    *("personal_accuracy_before_mean", "personal_accuracy_after_worst_decile"),
}
EVERY_ROUND = {
    *("flatness_distance", "dispersion", "update_cosine", "momentum_cosine", "perturbation_norm"),
    *("momentum_norm", "vectors_down", "vectors_up", "bytes_up_total", "seconds_total"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("measured")


@pytest.fixture(scope="module", autouse=True)
def measured(folder):
    """MoFedSAM for five rounds with every probe, in rounds 2, 4 and 5."""
    args = [*toy_args(folder), "--algo=mofedsam", "--rounds=5", *EVERYTHING]
    with pytest.MonkeyPatch.context() as patch:
        told = []
        patch.setattr("tf_fedsam.text.say", told.append)
        with flagsaver.flagsaver():
            assert main.run([*args, "--targets=0.01,1.0"]) == 0
    return "\n".join(told)


def test_log(folder):
    for record in records(folder / "run"):
        assert set(record) >= EVERY_ROUND
        assert (set(record) >= PROBED) == (record["round"] in (2, 4, 5))
        assert not (record["round"] in (1, 3) and PROBED & set(record))
    last = records(folder / "run")[-1]
    # Four clients, half of them a round, two vectors down (weights, momentum) and one up.
    assert (last["vectors_down"], last["vectors_up"]) == (4, 2)
    assert (last["vectors_down_total"], last["vectors_up_total"]) == (20, 10)
    assert np.sum(last["confusion"]) == 12
    assert sum(last["client_train_accuracy_histogram"]) == 4
    # Three of the four clients, always the same.
    assert last["sharpness_clients"] == last["personal_clients"] == 3
    ids = [r["sharpness_client_ids"] for r in records(folder / "run") if r["round"] in (2, 4, 5)]
    assert ids == [ids[0]] * 3
    assert len(last["sharpness_local_on_own_each"]) == 3
    assert last["sharpness_global_on_all"] == last["sharpness"]
    assert "hessian_eigenvalue_3" not in last


def test_summary(folder):
    summary = json.loads((folder / "run/summary.json").read_text())
    last = records(folder / "run")[-1]
    assert summary["gradient_evaluations"] == last["gradient_evaluations_total"]
    assert summary["fedinit_test_accuracy"] == pytest.approx(
        np.mean([r["test_accuracy"] for r in records(folder / "run")])  # five tests, one window
    )
    assert summary["targets"]["0.01"]["round"] == 1
    assert summary["targets"]["1"] is None


def test_table(folder, measured):
    last = records(folder / "run")[-1]
    assert f"{last['sharpness']:.4g}" in measured
    assert f"{last['client_train_accuracy_mean']:.2%} (std" in measured
    assert "to 1.00%" in measured
    assert "not in 5 rounds" in measured
    assert "python -m launch.report" in measured


def test_config_has_the_split(folder):
    config = json.loads((folder / "run/config.json").read_text())
    counts = np.asarray(config["split"]["class_counts"])
    assert counts.sum(axis=1).tolist() == [4, 9, 13, 14]
    assert config["settings"]["targets"] == "0.01,1.0"


def test_tensorboard(folder):
    sizes = {"tensors": 0, "histograms": 0, "images": 0}
    events = EventAccumulator(str(folder / "run"), sizes)
    events.Reload()
    tags = set(events.Tags()["tensors"])
    log = {r["round"]: r for r in records(folder / "run")}
    for tag in (
        "flatness/sharpness",
        "flatness/flatness_distance",
        "flatness/sharpness_local_on_own",
        "flatness/hessian_eigenvalue_2",
        "clients/personal_accuracy_after_mean",
        "agreement/update_cosine",
        "clients/client_test_accuracy_worst_decile",
        "cost_so_far/bytes_up_total",
        "cost/bytes_up",
        "cost/probe_seconds",
        "accuracy/global_train_accuracy",
    ):
        name = tag.partition("/")[2]
        written = {e.step: tf.make_ndarray(e.tensor_proto) for e in events.Tensors(tag)}
        expected = {number: r[name] for number, r in log.items() if name in r}
        assert set(written) == set(expected), tag
        for step, value in expected.items():
            assert written[step] == pytest.approx(value, rel=1e-6)
    clients = "clients/client_train_accuracy_histogram"
    assert {"accuracy/confusion", clients, "split/clients_by_class"} <= tags
    histogram = tf.make_ndarray(events.Tensors(clients)[-1].tensor_proto)
    assert histogram[:, 2].sum() == 4
    assert "_hparams_/experiment" in events.summary_metadata


def test_measuring_changes_nothing(folder, capsys, tmp_path):
    plain = [*toy_args(tmp_path), "--algo=mofedsam", "--rounds=5", "--probes=none"]
    result = run(capsys, *plain, "--nodiagnostics")
    assert result.code == 0
    for record in records(tmp_path / "run"):
        assert not set(record) & (PROBED | {"dispersion", "update_cosine", "perturbation_norm"})
    a, b = (read_npz(f / "run/final_weights.npz") for f in (folder, tmp_path))
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


def test_resumed_run_measures_the_same(folder, capsys, tmp_path):
    args = [*toy_args(tmp_path), "--algo=mofedsam", *EVERYTHING]
    assert run(capsys, *args, "--rounds=3").code == 0
    assert run(capsys, *args, "--rounds=5").code == 0
    timed = ("seconds", "eval_seconds", "probe_seconds", "seconds_total")
    strip = lambda r: {k: v for k, v in r.items() if k not in timed}  # noqa: E731
    whole, resumed = ([strip(r) for r in records(f / "run")] for f in (folder, tmp_path))
    assert set(resumed[2]) > set(whole[2])  # round 3 was the last of the shorter run
    assert [*resumed[:2], *resumed[3:]] == [*whole[:2], *whole[3:]]


def test_other_targets_for_a_finished_run(folder, capsys):
    args = [*toy_args(folder), "--algo=mofedsam", "--rounds=5", *EVERYTHING]
    before = (folder / "run/rounds.jsonl").read_bytes()
    result = run(capsys, *args, "--targets=0.02")
    assert result.code == 0
    assert "to 2.00%" in result.out
    assert (folder / "run/rounds.jsonl").read_bytes() == before
    assert list(json.loads((folder / "run/summary.json").read_text())["targets"]) == ["0.02"]


def test_fresh_validation_clients(capsys, tmp_path):
    args = [a for a in toy_args(tmp_path) if "--partition" not in a]
    args += ["--partition=iid", "--num_clients=4", "--validation=fresh", "--validation_clients=3"]
    assert run(capsys, *args).code == 0
    last = records(tmp_path / "run")[-1]
    assert sum(last["client_test_accuracy_histogram"]) == 3
    # Clients of equal size: the mean over clients is the mean over examples.
    assert last["client_test_accuracy_mean"] == pytest.approx(last["test_accuracy"])


def test_few_test_examples(capsys, tmp_path):
    """Fewer than clients: no validation by default, an error if it was asked for."""
    few = {"x_test": np.zeros((3, 5), np.float32), "y_test": np.arange(3)}
    assert run(capsys, *toy_args(tmp_path, **few)).code == 0
    last = records(tmp_path / "run")[-1]
    assert "client_train_accuracy_mean" in last
    assert "client_test_accuracy_mean" not in last
    other = f"--output_dir={tmp_path / 'other'}"
    for flag in ("--validation=same", "--probes=personal"):
        result = run(capsys, *toy_args(tmp_path, **few), flag, other)
        assert result.code == 2
        assert "3" in result.err


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--probes=sharpnes", ["sharpnes", "sharpness"]),
        ("--probes=divergence", ["--keep_local_models"]),
        ("--probe_every=-1", ["-1", "--probes=none"]),
        ("--probe_examples=0", ["at least 1"]),
        ("--sharpness_rho=0", ["> 0"]),
        ("--eigenvalues=3", ["--eigenvalues is for --probes=hessian", "--probes=auto"]),
        ("--personal_epochs=2", ["--personal_epochs", "--probes=personal"]),
        ("--probes=hessian --trace_vectors=1", ["at least 2", "error"]),
        ("--probes=hessian --eigenvalues=101", ["100"]),
        ("--targets=70", ["(0, 1]", "70"]),
        ("--targets=a", ["(0, 1]", "'a'"]),
        ("--validation=fresh", ["given", "same"]),
        ("--validation_clients=3", ["--validation=fresh"]),
    ],
)
def test_bad_values(flag, words, capsys, tmp_path):
    result = run(capsys, *toy_args(tmp_path), *flag.split())
    assert result.code == 2
    for word in words:
        assert word in result.err
    assert not (tmp_path / "run").exists()
