"""What is logged is what was used: a run repeats from its config.json alone, bit for bit."""

import contextlib
import json
import shutil

import numpy as np
import pytest
from absl.testing import flagsaver

from launch import main
from tests.launch.main_test import assert_same_run
from tests.launch.running import run, toy_args, toy_file

pytestmark = pytest.mark.no_cover


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A run with settings of every type, on a file that it names relative to where it starts."""
    folder = tmp_path_factory.mktemp("original")
    args = [a for a in toy_args(folder) if not a.startswith(("--data_file", "--model"))]
    args = [a for a in args if a not in ("--partition=given", "--devices=cpu:2")]
    args += ["--data_file=toy.npz", "--model=mlp", "--hidden_units=7", "--partition=dirichlet"]
    args += ["--num_clients=4", "--alpha=0.7", "--replacement", "--algo=fedsmoo", "--seed=3"]
    args += ["--hparams.rho=0.123456789012345", "--hparams.server=mu_minus_e", "--local_steps=3"]
    args += ["--relaxed_init=0.1", "--dropout_rate=0.2", "--clip_norm=0", "--lr=0.07"]
    with contextlib.chdir(folder), flagsaver.flagsaver():
        assert main.run(args) == 0
    return folder / "run"


def test_from_config(original, capsys, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    config = shutil.copy(original / "config.json", elsewhere / "config.json")
    result = run(capsys, f"--from_config={config}", "--output_dir=again")
    assert result.code == 0, result.err
    assert_same_run(original, elsewhere / "again")
    before, after = (
        json.loads((f / "config.json").read_text()) for f in (original, elsewhere / "again")
    )
    assert before["data"].pop("source") == "toy.npz"
    del after["data"]["source"]
    for name in ("algorithm", "data", "partition", "num_parameters", "inputs", "devices"):
        assert before[name] == after[name]
    changed = {n for n in before["settings"] if before["settings"][n] != after["settings"][n]}
    assert changed <= {"data_file", "devices"}  # a full path, and the number that auto stood for


def test_what_cannot_be_repeated_is_refused(original, capsys, tmp_path):
    def refused(*args):
        result = run(capsys, *args, f"--output_dir={tmp_path / 'again'}")
        assert result.code == 2
        assert not (tmp_path / "again").exists()
        return result.err

    assert "--lr" in refused(f"--from_config={original}", "--lr=1")
    assert "--hparams.rho" in refused(f"--from_config={original}", "--hparams.rho=1")
    assert "could not be read" in refused("--from_config=nothing.json")
    config = json.loads((original / "config.json").read_text())
    for change, word in (
        ({"lr": [1, 2]}, "lr"),
        ({"output_dir": "x"}, "output_dir"),
        ({"flagfile": "x"}, "flagfile"),
        ({"hparams": {"rho": {}}}, "rho"),
        ({"hparams": {"radius": 1}}, "radius"),
        ({"rounds": "many"}, "many"),
    ):
        bad = {**config, "settings": {**config["settings"], **change}}
        (tmp_path / "bad.json").write_text(json.dumps(bad))
        assert word in refused(f"--from_config={tmp_path / 'bad.json'}")
    other = tmp_path / "other"
    other.mkdir()
    toy_file(other, x_train=np.zeros((40, 5), np.float32))
    (tmp_path / "moved.json").write_text(json.dumps({**config, "working_folder": str(other)}))
    assert "data: " in refused(f"--from_config={tmp_path / 'moved.json'}")


def test_other_versions_are_told(original, capsys, tmp_path):
    config = json.loads((original / "config.json").read_text())
    config["versions"]["numpy"] = "0.9"
    (tmp_path / "old.json").write_text(json.dumps(config))
    args = [
        f"--from_config={tmp_path / 'old.json'}",
        f"--output_dir={tmp_path / 'again'}",
        "--rounds=1",
    ]
    result = run(capsys, *args)
    assert result.code == 0
    assert "Note: The run was made with other code or versions" in result.out
    assert "numpy: '0.9' there" in result.out


def test_deterministic(server, tmp_path):
    """Two processes with deterministic ops; both end, bit for bit alike, and say what they used."""
    args = [*toy_args(tmp_path), "--algo=fedsam", "--model=mlp", "--deterministic"]
    for name in ("a", "b"):
        assert server.run([*args, f"--output_dir={tmp_path / name}"]) == (0, "")
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert json.loads((tmp_path / "a/config.json").read_text())["settings"]["deterministic"]
