"""Bad input: one clear message, no traceback, exit 2, nothing written."""

import json

import numpy as np
import pytest

from tests.launch.running import run, toy_args, toy_file

CASES = {
    "unknown algorithm": (["--algo=fedsan"], ["fedsan", "Did you mean", "fedsam"]),
    "unknown data set": (["--dataset=glyph"], ["glyph", "Did you mean 'glyphs'"]),
    "unknown model": (["--model=lenet"], ["lenet", "Did you mean 'lenet5'"]),
    "unknown hyper-parameter": (["--algo=fedsam", "--hparams.rh=1"], ["rh", "rho"]),
    "hyper-parameter of none": (["--algo=fedavg", "--hparams.rho=1"], ["fedavg", "rho"]),
    "hyper-parameter of the wrong type": (["--algo=fedsam", "--hparams.rho=big"], ["rho", "big"]),
    "negative radius": (["--algo=fedsam", "--hparams.rho=-1"], ["rho", "-1", "at least 0"]),
    "unknown model option": (["--model_options.hiden_units=3"], ["hiden_units", "hidden_units"]),
    "unknown flag": (["--learning_rate=1"], ["learning_rate"]),
    "flag of the wrong type": (["--rounds=many"], ["rounds", "many"]),
    "no flag": (["fedsam"], ["fedsam", "--name=value"]),
    "alpha zero": (["--alpha=0"], ["alpha", "0"]),
    "alpha negative": (["--alpha=-0.1"], ["alpha", "-0.1"]),
    "participation zero": (["--participation=0"], ["participation", "(0, 1]"]),
    "participation above one": (["--participation=1.5"], ["participation", "1.5"]),
    "more clients than examples": (["--num_clients=24801"], ["24801", "24800"]),
    "no rounds": (["--rounds=0"], ["rounds", "at least 1"]),
    "no batch": (["--batch_size=0"], ["batch_size", "at least 1"]),
    "negative lr": (["--lr=-1"], ["lr", "at least 0"]),
    "server lr zero": (["--server_lr=0"], ["server_lr", "> 0"]),
    "server lr without effect": (["--algo=feddyn", "--server_lr=0.5"], ["feddyn", "no effect"]),
    "devices": (["--devices=tpu:1"], ["tpu:1", "cpu:N"]),
    "no such gpu": (["--devices=gpu:3"], ["gpu:3", "GPUs"]),
    "nesterov twice": (["--algo=fedacg", "--nesterov=0.9"], ["fedacg", "extrapolated"]),
    "relaxed twice": (["--algo=fedinit", "--relaxed_init=0.1"], ["fedinit", "relaxed"]),
    "alpha without effect": (["--partition=iid", "--alpha=1"], ["alpha", "iid", "no effect"]),
    "schedule without file": (["--sampling=schedule"], ["client_schedule"]),
    "both lengths": (["--local_steps=3", "--local_epochs=2"], ["local_steps", "local_epochs"]),
    "hidden units of a CNN": (["--model=cnn", "--hidden_units=3"], ["hidden_units", "mlp"]),
    "hidden units": (["--hidden_units=3,x"], ["hidden_units", "3,x"]),
    "data file of another": (["--data_file=x.npz"], ["data_file", "glyphs"]),
    "npz without file": (["--dataset=npz"], ["data_file", "x_train"]),
    "given without clients": (["--partition=given"], []),
    "clip scope without prox": (
        ["--algo=fedavg", "--clip_scope=official"],
        ["fedavg", "clip_scope"],
    ),
    "negative seed": (["--seed=-1"], ["seed", "-1"]),
    "missing user file": (["--algo=nothing/here.py:Mine"], ["nothing/here.py"]),
}
CASES.pop("given without clients")  # glyphs has writers


def refused(result, *words):
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err + result.out
    for word in words:
        assert word in result.err


@pytest.mark.parametrize("case", CASES)
def test_flags(case, capsys, tmp_path):
    args, words = CASES[case]
    result = run(capsys, *args, f"--output_dir={tmp_path / 'run'}")
    refused(result, *words)
    assert not (tmp_path / "run").exists()


ARRAYS = {
    "empty": ({"x_train": np.zeros((0, 5)), "y_train": np.zeros(0, int)}, ["non-empty"]),
    "text": ({"x_train": np.full((40, 5), "a")}, ["numbers"]),
    "negative labels": ({"y_train": np.arange(40) % 3 - 1}, ["-1"]),
    "labels with a hole": ({"y_train": np.arange(40) % 3 * 2}, ["0..C-1", "[1, 3]"]),
    "labels that are not whole": ({"y_train": np.arange(40) / 7}, ["integers"]),
    "NaN": ({"x_train": np.full((40, 5), np.nan)}, ["NaN", "200"]),
    "lengths": ({"y_train": np.arange(39) % 3}, ["40", "39"]),
    "client ids": ({"client_id": np.arange(39)}, ["client_id", "40"]),
    "test shape": ({"x_test": np.zeros((12, 4), np.float32)}, ["(5,)", "(4,)"]),
    "missing array": ({"y_test": None}, ["y_test"]),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays(case, capsys, tmp_path):
    changes, words = ARRAYS[case]
    refused(run(capsys, *toy_args(tmp_path, **changes)), *words)
    assert not (tmp_path / "run").exists()


def test_files_that_cannot_be_read(capsys, tmp_path):
    args = toy_args(tmp_path)
    (tmp_path / "toy.npz").write_bytes(b"PK\x03\x04 not a zip")
    refused(run(capsys, *args), "toy.npz", "could not be read")
    (tmp_path / "toy.npz").unlink()
    refused(run(capsys, *args), "toy.npz", "No such file")
    np.savez(tmp_path / "toy.npz", x_train=np.asarray([{"a": 1}], dtype=object))
    refused(run(capsys, *args), "toy.npz")


def test_given_split_needs_clients(capsys, tmp_path):
    refused(run(capsys, *toy_args(tmp_path, client_id=None)), "client_id")
    refused(run(capsys, *toy_args(tmp_path), "--num_clients=4"), "num_clients", "given")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([[0, 7], [1]], ["7"]),
        ([[0, 0], [1]], ["0"]),
        ([[0], []], ["round"]),
        ([[0]], ["2"]),
        ({"a": 1}, ["list"]),
        ("[[0", ["JSON"]),
    ],
)
def test_schedules(content, words, capsys, tmp_path):
    path = tmp_path / "schedule.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    args = [a for a in toy_args(tmp_path) if "participation" not in a]
    result = run(capsys, *args, "--sampling=schedule", f"--client_schedule={path}")
    refused(result, *words)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"w0": np.zeros((5, 3)), "w1": np.zeros(4)}, ["(4,)", "(3,)"]),
        ({"w0": np.zeros((5, 3))}, ["(5, 3)"]),
        ({"a": np.zeros((5, 3))}, ["w0"]),
        ({"w0": np.full((5, 3), np.nan), "w1": np.zeros(3)}, ["finite", "w0"]),
    ],
)
def test_initial_weights(arrays, words, capsys, tmp_path):
    path = tmp_path / "weights.npz"
    np.savez(path, **arrays)
    result = run(capsys, *toy_args(tmp_path), f"--init_weights={path}")
    refused(result, *words)
    assert not (tmp_path / "run").exists()


def test_folder_of_another_run(capsys, tmp_path):
    args = toy_args(tmp_path)
    assert run(capsys, *args).code == 0
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    refused(run(capsys, *args, "--lr=0.5", "--algo=fedsam"), "lr: 0.1 there, 0.5 now", "algo")
    refused(run(capsys, *args, "--rounds=1"), "2 rounds", "--rounds=1")
    assert before == {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}


def test_folder_of_other_files(capsys, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    refused(run(capsys, *toy_args(tmp_path)), "thesis.txt")
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["thesis.txt"]
    other = tmp_path / "file"
    other.write_text("")
    refused(run(capsys, *toy_args(tmp_path), f"--output_dir={other}"), "is a file")


def test_toy_file_is_fine(tmp_path):
    """The arrays that the cases above change are valid as they are."""
    with np.load(toy_file(tmp_path)) as arrays:
        assert set(arrays.files) == {"x_train", "y_train", "x_test", "y_test", "client_id"}


def test_pretrained_is_for_transformers(capsys, tmp_path):
    result = run(capsys, *toy_args(tmp_path), "--pretrained=x.keras")
    refused(result, "--pretrained", "linear", "--init_weights")
    assert not (tmp_path / "run").exists()
