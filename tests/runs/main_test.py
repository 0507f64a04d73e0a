"""A run in a process of its own: ``python -m tf_fedsam.runs``."""

import json
import subprocess
import sys

import pytest

import tf_fedsam
from tests.launch.running import toy_file
from tf_fedsam.errors import InputError
from tf_fedsam.runs import __main__ as program
from tf_fedsam.runs import exits, task
from tf_fedsam.runs.config import RunConfig


@pytest.fixture
def no_own_tasks(monkeypatch):
    monkeypatch.setattr(task, "_own", {})


def toy(tmp_path, **more):
    settings = {"dataset": "npz", "data_file": str(toy_file(tmp_path)), "model": "linear"}
    return {**settings, "partition": "given", "rounds": 2, "participation": 0.5, **more}


def test_reads_a_file_or_its_content(tmp_path):
    settings = {"algo": "fedsam", "hparams": {"rho": 0.3}, "hidden_units": [3, 4]}
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(settings))
    expected = RunConfig(algo="fedsam", hparams={"rho": 0.3}, hidden_units=(3, 4))
    assert program.read(str(file)) == program.read(json.dumps(settings)) == expected
    with pytest.raises(InputError, match="not JSON"):
        program.read("{algo: fedsam")


def test_modules_bring_data_sets(tmp_path, monkeypatch, no_own_tasks):
    (tmp_path / "my_sets.py").write_text(
        "import tf_fedsam\nfrom tf_fedsam.runs import task\n"
        "tf_fedsam.add_task(tf_fedsam.Task('mine', 'Mine', task.find('npz').load))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = json.dumps(toy(tmp_path, dataset="mine", devices="cpu:2"))
    args = [config, str(tmp_path / "run"), "--tasks=tasks.registry", "--import=my_sets"]
    assert program.main(args) == exits.DONE
    run = tf_fedsam.Run(tmp_path / "run")
    assert (run.complete, run.config.dataset) == (True, "mine")
    before = run.folder.joinpath("rounds.jsonl").stat().st_mtime_ns
    assert program.main(args) == exits.DONE
    assert run.folder.joinpath("rounds.jsonl").stat().st_mtime_ns == before
    assert program.main([*args, "--restart"]) == exits.DONE
    assert run.folder.joinpath("rounds.jsonl").stat().st_mtime_ns > before


def test_a_process_tells_mistakes_in_words_of_python(tmp_path):
    """And nothing else: TensorFlow is loaded quietly. The exit code says not to try again."""
    config, run = json.dumps(toy(tmp_path, lr=-1)), tmp_path / "run"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tf_fedsam.runs",
            config,
            tmp_path / "run",
            "--tasks=tasks.registry",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (exits.BAD_INPUT, "")
    assert done.stderr.startswith("error: lr must be")
    assert len(done.stderr.splitlines()) == 1
    assert not run.exists()
