"""The main launcher, end to end: the run folder, the exports, the closed form, resuming."""

import json
import os
import pathlib
import pty
import subprocess
import sys
import termios

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from launch import main
from tests.algorithms.harness import some_in_gate
from tests.launch.running import records, run, toy_args, toy_file
from tf_fedsam.analysis.results import COSTS
from tf_fedsam.runs.experiment import Experiment

pytestmark = pytest.mark.no_cover

RECORD_KEYS = {
    *("round", "client_ids", "num_steps", "lr", "train_loss", "num_reported", "failed_client_ids"),
    *("update_norm", "skipped", *COSTS, *(f"{name}_total" for name in COSTS)),
    *("flatness_distance", "dispersion", "update_cosine"),
    *("perturbation_norm", "momentum_norm", "momentum_cosine"),  # MoFedSAM has both
}
TEST_KEYS = {"test_loss", "test_accuracy", "eval_seconds"}


def weights(path) -> list[np.ndarray]:
    with np.load(path) as file:
        return [file[f"w{i}"] for i in range(len(file.files))]


def log(folder) -> list[dict]:
    """The log without the times, which differ from run to run."""
    return [{k: v for k, v in r.items() if "seconds" not in k} for r in records(folder)]


def assert_same_run(a: pathlib.Path, b: pathlib.Path) -> None:
    """Bit for bit the same model and the same log."""
    for x, y in zip(
        weights(a / "final_weights.npz"), weights(b / "final_weights.npz"), strict=True
    ):
        np.testing.assert_array_equal(x, y)
    assert log(a) == log(b)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    args = [*toy_args(folder), "--algo=mofedsam", "--rounds=3", "--eval_every=2"]
    result = subprocess.run(
        [sys.executable, "-m", "launch.main", *args], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    (folder / "out.txt").write_text(result.stdout)
    (folder / "err.txt").write_text(result.stderr)
    return folder


class TestRunFolder:
    def test_log(self, folder):
        rounds = records(folder / "run")
        assert [r["round"] for r in rounds] == [1, 2, 3]
        assert set(rounds[0]) == RECORD_KEYS  # eval_every=2: rounds 2 and 3, the last
        assert set(rounds[1]) == RECORD_KEYS | TEST_KEYS
        assert set(rounds[2]) > RECORD_KEYS | TEST_KEYS  # and what the probes found
        for r in rounds:
            assert len(r["client_ids"]) == len(r["num_steps"]) == r["num_reported"] == 2
            # 18 weights of 4 bytes; MoFedSAM sends two vectors down and one up; two gradients.
            assert r["bytes_down"] == 2 * 2 * 18 * 4
            assert r["bytes_up"] == 2 * 18 * 4
            assert r["gradient_evaluations"] == 2 * sum(r["num_steps"])
            assert r["num_steps"] == [5, 5]  # 5 epochs of one batch

    def test_config(self, folder):
        config = json.loads((folder / "run/config.json").read_text())
        settings = config["settings"]
        assert settings["algo"] == "mofedsam"
        assert settings["hparams"] == {"rho": 0.1, "beta": 0.1}
        assert settings["lr"] == 0.1
        assert config["versions"]["keras"] == keras.__version__
        assert config["num_parameters"] == 18
        assert config["command"].startswith("python -m launch.main --dataset=npz")
        assert len(config["partition"]["fingerprint"]) == 16
        assert len(config["devices"]) == 2

    def test_summary_and_terminal(self, folder):
        summary = json.loads((folder / "run/summary.json").read_text())
        rounds = records(folder / "run")
        assert summary["test_accuracy"] == rounds[-1]["test_accuracy"]
        assert summary["bytes_up"] == sum(r["bytes_up"] for r in rounds)
        out = (folder / "out.txt").read_text()
        for words in ("round    3/3", "MoFedSAM (rho=0.1, beta=0.1)", "tensorboard --logdir="):
            assert words in out
        assert f"{summary['test_accuracy']:.2%}" in out
        assert (folder / "err.txt").read_text() == ""

    def test_tensorboard(self, folder):
        events = EventAccumulator(str(folder / "run"))
        events.Reload()
        tags = events.Tags()
        rounds = records(folder / "run")
        tested = {r["round"]: r["test_accuracy"] for r in rounds if "test_accuracy" in r}
        written = {
            e.step: tf.make_ndarray(e.tensor_proto)
            for e in events.Tensors("accuracy/test_accuracy")
        }
        assert written == pytest.approx(tested)
        for tag in ("loss/train_loss", "cost/bytes_down", "cost/seconds", "config", "command"):
            assert tag in tags["tensors"]
        assert "split/clients_by_class" in tags["tensors"]
        assert "_hparams_/session_start_info" in tags["tensors"] + list(events.summary_metadata)

    def test_exports_agree(self, folder):
        with np.load(folder / "toy.npz") as file:
            x, y = file["x_test"], file["y_test"]
        network = keras.models.load_model(folder / "run/model.keras")
        logits = network.predict(x, verbose=0)
        kernel, bias = weights(folder / "run/final_weights.npz")
        np.testing.assert_allclose(logits, x @ kernel + bias, atol=1e-5)
        accuracy = np.mean(logits.argmax(-1) == y)
        assert accuracy == pytest.approx(records(folder / "run")[-1]["test_accuracy"])
        first = weights(folder / "run/initial_weights.npz")
        assert np.abs(first[0] - kernel).max() > 1e-3
        card = (folder / "run/MODEL_CARD.md").read_text()
        assert f"{accuracy:.2%}" in card
        assert "--algo=" in card

    def test_saved_model_needs_nothing_of_ours(self, folder):
        """A fresh process in another folder, without the package, gives the same predictions."""
        script = (
            "import sys, numpy as np, tensorflow as tf\n"
            f"x = np.load({str(folder / 'toy.npz')!r})['x_test']\n"
            f"model = tf.saved_model.load({str(folder / 'run/saved_model')!r})\n"
            "out = model(x)\n"
            "again = model.signatures['serving_default'](images=x)\n"
            "assert np.array_equal(out['logits'], again['logits'])\n"
            "model(np.zeros([1, 5], np.uint8))\n"
            "assert not {m.split('.')[0] for m in sys.modules} & {'tf_fedsam', 'launch', 'tasks'}\n"
            "np.savez('out.npz', logits=out['logits'], probabilities=out['probabilities'])\n"
        )
        subprocess.run([sys.executable, "-I", "-c", script], check=True, cwd=folder)
        with np.load(folder / "out.npz") as out, np.load(folder / "toy.npz") as file:
            kernel, bias = weights(folder / "run/final_weights.npz")
            expected = file["x_test"] @ kernel + bias
            np.testing.assert_allclose(out["logits"], expected, atol=1e-5)
            exp = np.exp(expected)
            np.testing.assert_allclose(
                out["probabilities"], exp / exp.sum(-1, keepdims=True), atol=1e-5
            )


def test_fedsam_equals_a_computation_by_hand(capsys, tmp_path):
    """Full-batch FedSAM steps of a linear model, on a schedule, from given weights."""
    generator = np.random.default_rng(3)
    kernel, bias = generator.normal(size=(5, 3)), generator.normal(size=3)
    np.savez(tmp_path / "init.npz", w0=kernel, w1=bias)
    schedule = [[0, 2], [1, 2, 3], [0]]
    (tmp_path / "schedule.json").write_text(json.dumps(schedule))
    args = [a for a in toy_args(tmp_path) if "participation" not in a]
    result = run(
        capsys,
        *args,
        *("--algo=fedsam", "--hparams.rho=0.4", "--rounds=3", "--local_steps=4", "--batch_size=99"),
        *("--lr=0.3", "--lr_decay=0.9", "--weight_decay=0.01", "--clip_norm=0.5"),
        *("--sampling=schedule", f"--client_schedule={tmp_path / 'schedule.json'}"),
        f"--init_weights={tmp_path / 'init.npz'}",
    )
    assert result.code == 0, result.err
    with np.load(tmp_path / "toy.npz") as file:
        data = {k: file[k].astype(np.float64) for k in ("x_train", "y_train", "client_id")}

    def gradient(w, x, y):
        logits = x @ w[:5] + w[5]
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y.astype(int)] -= 1
        return np.concatenate([x.T @ p, p.sum(0, keepdims=True)]) / len(y)

    w = np.concatenate([kernel, bias[None]])
    for t, cohort in enumerate(schedule):
        deltas = []
        for client in cohort:
            mine = data["client_id"] == client
            x, y, local = data["x_train"][mine], data["y_train"][mine], w.copy()
            for _ in range(4):
                g = gradient(local, x, y)
                q = gradient(local + 0.4 * g / np.linalg.norm(g), x, y)
                q *= min(1, 0.5 / np.linalg.norm(q))
                local = local - 0.3 * 0.9**t * (q + 0.01 * local)
            deltas.append(local - w)
        w = w + np.mean(deltas, axis=0)
    received = weights(tmp_path / "run/final_weights.npz")
    np.testing.assert_allclose(received[0], w[:5], atol=1e-5)
    np.testing.assert_allclose(received[1], w[5], atol=1e-5)


@pytest.mark.parametrize("algo", some_in_gate(["fedsmoo", "fedavg", "fedwmsam", "fedgloss"], 4))
def test_interrupted_run_ends_the_same(algo, capsys, tmp_path, monkeypatch):
    """Ctrl-C in the middle of round 3, then the same command again."""
    whole = [*toy_args(tmp_path), f"--algo={algo}", "--rounds=5", "--relaxed_init=0.1"]
    assert run(capsys, *whole).code == 0
    args = [*whole, f"--output_dir={tmp_path / 'cut'}"]
    one_round = Experiment.round

    def interrupted(experiment, state):
        if state.round_num == 2:
            raise KeyboardInterrupt
        return one_round(experiment, state)

    monkeypatch.setattr(Experiment, "round", interrupted)
    result = run(capsys, *args)
    assert result.code == 1
    assert "Stopped after round 2 of 5" in result.out
    monkeypatch.setattr(Experiment, "round", one_round)
    result = run(capsys, *args)
    assert result.code == 0
    assert "Going on after round 2 of 5" in result.out
    assert_same_run(tmp_path / "run", tmp_path / "cut")


def test_finished_run_again_and_longer(capsys, tmp_path):
    """The same command on a finished run changes nothing; more rounds go on from it."""
    args = [*toy_args(tmp_path), "--algo=feddyn", "--probe_every=2"]
    assert run(capsys, *args).code == 0
    before = log(tmp_path / "run")
    result = run(capsys, *args)
    assert result.code == 0
    assert "test accuracy" in result.out
    assert log(tmp_path / "run") == before
    assert run(capsys, *args, "--rounds=4").code == 0
    assert run(capsys, *args, "--rounds=4", f"--output_dir={tmp_path / 'other'}").code == 0
    assert_same_run(tmp_path / "run", tmp_path / "other")


def test_default_folder_tells_runs_apart(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = [a for a in toy_args(tmp_path) if "output_dir" not in a]
    assert run(capsys, *args).code == 0
    assert run(capsys, *args, "--lr=0.2").code == 0
    folders = sorted(p.name for p in (tmp_path / "runs").iterdir())
    first = "npz-fedavg-min_cohort1-model-linear-participation0.5-partition-given-seed0-"
    assert len(folders) == 2
    assert folders[0].startswith(first.replace("min_cohort1", "lr0.2-min_cohort1"))
    assert folders[1].startswith(first)
    # A folder of an earlier version, whose name told less, is found by the same command.
    earlier = tmp_path / f"runs/npz-fedavg-seed0-{folders[1][-8:]}"
    (tmp_path / "runs" / folders[1]).rename(earlier)
    assert run(capsys, *args, "--rounds=3").code == 0
    assert len(records(earlier)) == 3
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_seeds(capsys, tmp_path):
    """The same seed repeats bit for bit, another seed differs."""
    args = [*toy_args(tmp_path), "--algo=fedsam"]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run(capsys, *args, f"--seed={seed}", f"--output_dir={tmp_path / name}").code == 0
    assert_same_run(tmp_path / "a", tmp_path / "b")
    first, other = (weights(tmp_path / n / "final_weights.npz")[0] for n in "ac")
    assert np.abs(first - other).max() > 1e-3


def test_bar_on_a_terminal(tmp_path):
    """A pseudo-terminal gets a bar with loss and accuracy instead of a line a round."""
    child, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 100))
    process = subprocess.Popen(
        [sys.executable, "-m", "launch.main", *toy_args(tmp_path)],
        stdout=terminal,
        stderr=subprocess.DEVNULL,
    )
    os.close(terminal)
    output = b""
    while True:
        try:
            piece = os.read(child, 4096)
        except OSError:
            break
        if not piece:
            break
        output += piece
    assert process.wait() == 0
    os.close(child)
    text = output.decode()
    assert "2/2" in text
    assert "accuracy=" in text
    assert "round    2/2" not in text


def test_glyphs_learns(capsys, tmp_path):
    """A few rounds on the embedded data are far above chance, 1 in 62."""
    result = run(
        capsys,
        *(
            "--algo=fedavg",
            "--rounds=6",
            "--eval_every=6",
            "--devices=cpu:2",
            "--participation=0.2",
        ),
        f"--output_dir={tmp_path / 'run'}",
    )
    assert result.code == 0, result.err
    assert records(tmp_path / "run")[-1]["test_accuracy"] > 10 / 62


def test_help_is_readable():
    result = subprocess.run(
        [sys.executable, "-m", "launch.main", "--helpshort"], capture_output=True, text=True
    )
    text = result.stdout + result.stderr
    for name in ("--algo", "--dataset", "--participation", "--output_dir", "--list_algorithms"):
        assert name in text
    assert "absl" not in text


def test_nobody_reads_on():
    """As after ``| head``: the launcher ends without a word."""
    with subprocess.Popen(
        [sys.executable, "-m", "launch.main", "--helpshort"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_toy_file_has_unequal_clients(tmp_path):
    with np.load(toy_file(tmp_path)) as file:
        assert len(set(np.bincount(file["client_id"]))) == 4


def test_the_commands_that_it_names_can_be_pasted(tmp_path):
    said = main.next_steps(tmp_path / "my runs/one")
    assert f"tensorboard --logdir='{tmp_path}/my runs'\n" in said
    assert f"python -m launch.report '{tmp_path}/my runs' --out=report.html" in said
