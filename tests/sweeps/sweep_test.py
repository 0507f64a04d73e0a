"""Sweeps from Python, with processes that are real and that are not."""

import json
import os
import signal
import threading

import numpy as np
import pytest

import tf_fedsam
from tests.launch.running import toy_file
from tf_fedsam.errors import InputError
from tf_fedsam.runs import task as tasks
from tf_fedsam.sweeps import runner
from tf_fedsam.sweeps import sweep as module

pytestmark = pytest.mark.usefixtures("usual_signals")


def toy(tmp_path, **more):
    """Two methods on the toy file, for two rounds."""
    settings = {"data_file": str(toy_file(tmp_path)), "model": "linear", "partition": "given"}
    settings |= {"participation": 0.5, "rounds": 2, **more.pop("settings", {})}
    return {"algos": ["fedavg", "fedsam"], "datasets": ["npz"], "settings": settings, **more}


def test_a_real_sweep(capfd, tmp_path):
    """Two processes at a time, with their own weights; a second call adds a seed and no more."""
    out = tmp_path / "out"
    description = toy(tmp_path, grid={"hparams": {"rho": [0.1]}}, settings={"targets": [0.01]})
    result = tf_fedsam.sweep(description, out=out, jobs=2)
    shown, err = capfd.readouterr()
    assert (result.complete, result.failed, err) == (True, {}, "")
    assert "\x1b" not in shown
    assert "2: 0 done, 0 begun, 2 new" in shown
    assert result.table() in shown
    names = ["fedavg-npz-seed0", "fedsam-npz-rho0.1-seed0"]
    assert [run.folder.name for run in result.runs] == names
    assert all(run.complete for run in result.runs)
    assert [run.config.devices for run in result.runs] == [
        module.cell_devices(2, False),
        module.cell_devices(2, False),
    ]
    averaged, aware = (run.weights() for run in result.runs)
    assert not all(np.array_equal(a, b) for a, b in zip(averaged, aware, strict=True))
    (first, second) = result.rows()
    assert (first["algo"], first["rho"], first["seeds"]) == ("fedavg", None, 1)
    assert second["rho"] == 0.1
    assert first["test_accuracy"] == result.runs[0].summary["test_accuracy"]
    assert "<td>fedsam</td><td>npz</td><td>0.1</td>" in result._repr_html_()
    assert repr(result) == f"SweepResult('{out}', 2 of 2 cells done)"

    written = json.loads((out / "sweep.json").read_text())
    assert written["command"].startswith("tf_fedsam.sweep({'algos': ['fedavg', 'fedsam']")
    log = (out / "logs" / f"{names[0]}.log").read_text()
    assert log.startswith("$ python -m tf_fedsam.runs '{")
    assert "round    2/2" in log
    assert "oneDNN" not in log  # TensorFlow is loaded quietly

    before = {p: p.stat().st_mtime_ns for n in names for p in (out / n).rglob("*")}
    more = tf_fedsam.sweep(description | {"seeds": [0, 1]}, out=out, jobs=2, verbose=False)
    assert capfd.readouterr() == ("", "")
    assert [row["seeds"] for row in more.rows()] == [2, 2]
    assert {p: p.stat().st_mtime_ns for p in before} == before
    compared = more.compare(baseline="fedsam")
    assert [series.seeds for group in compared.groups for series in group.series] == [[0, 1]] * 2
    assert [series.algo for series in compared.baselines] == ["fedsam"]
    # The same seed: the same clients and steps for both methods; another: others.
    cohorts = [[(r["client_ids"], r["num_steps"]) for r in run.records] for run in more.runs]
    assert cohorts[0] == cohorts[1] != cohorts[2] == cohorts[3]


def test_a_file(tmp_path, pretend, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pretend()
    (tmp_path / "small.yaml").write_text(json.dumps(toy(tmp_path)))
    result = tf_fedsam.sweep("small.yaml")
    assert str(result.folder) == "sweeps/small"
    assert (tmp_path / "sweeps/small/fedsam-npz-seed0/summary.json").exists()


def test_failures(capsys, tmp_path, pretend):
    cells = pretend(codes={"fedsam-npz-seed0": [1, 1]})
    result = tf_fedsam.sweep(toy(tmp_path), out=tmp_path / "out", retries=1)
    assert cells.started.count("fedsam-npz-seed0") == 2
    assert not result.complete
    assert result.failed == {"fedsam-npz-seed0": "first line\nerror: fedsam-npz-seed0 went wrong"}
    assert [run.algo for run in result.runs] == ["fedavg"]
    assert "1 of 2 cells are done, 1 failed. The same call runs what is missing." in (
        capsys.readouterr().out
    )


def test_an_interrupted_sweep(tmp_path, pretend, monkeypatch):
    """Ctrl-C, which a notebook sends, too: the cell that runs is told, the rest does not begin."""
    pretended, told = pretend(polls=10**9, write=lambda folder, config: None), []
    real = pretended.start

    def start(*args):
        process = real(*args)
        process.send_signal = lambda number: (
            told.append(number),
            setattr(process, "poll", lambda: 1),
        )
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        return process

    monkeypatch.setattr(runner, "start", start)
    result = tf_fedsam.sweep(toy(tmp_path), out=tmp_path / "out", verbose=False)
    assert told == [signal.SIGTERM]
    assert (result.complete, result.failed, result.runs) == (False, {}, [])
    assert pretended.started == ["fedavg-npz-seed0"]


def test_processes_find_what_this_one_finds(tmp_path, pretend, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path / "mine")
    cells = pretend()
    tf_fedsam.sweep(toy(tmp_path), out=tmp_path / "out", verbose=False)
    assert str(tmp_path / "mine") in cells.environments[0]["PYTHONPATH"].split(os.pathsep)


def test_data_sets_that_are_added_need_a_module(tmp_path, pretend, monkeypatch):
    monkeypatch.setattr(tasks, "_own", {})
    tf_fedsam.add_task(tasks.Task(name="mine", title="Mine", load=tasks.find("npz").load))
    description = toy(tmp_path, datasets=["mine"])
    with pytest.raises(InputError, match="nobody adds the data set mine"):
        tf_fedsam.sweep(description, out=tmp_path / "out")
    cells = pretend()
    real, seen = cells.of_args, []
    cells.of_args = lambda args: seen.append(args) or real(args)
    result = tf_fedsam.sweep(description, out=tmp_path / "out", imports=["my_sets"])
    assert result.complete
    assert seen[0][-2:] == ("--tasks=tasks.registry", "--import=my_sets")


def test_refused_before_anything_is_written(tmp_path):
    for jobs, retries in ((0, 0), (1, -1)):
        with pytest.raises(InputError, match="jobs must be at least 1 and retries at least 0"):
            tf_fedsam.sweep(toy(tmp_path), out=tmp_path / "out", jobs=jobs, retries=retries)
    nowhere = toy(tmp_path, settings={"data_file": str(tmp_path / "no.npz")})
    with pytest.raises(InputError, match=r"no\.npz"):
        tf_fedsam.sweep(nowhere, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_cores_are_shared(monkeypatch):
    monkeypatch.setattr(module.devices, "available_cores", lambda: 9)
    found = [module.cell_devices(jobs, False) for jobs in (1, 2, 4, 20)]
    assert found == [None, "cpu:4", "cpu:2", "cpu:1"]
    assert module.cell_devices(4, True) is None


def test_gpus_are_shared(monkeypatch):
    monkeypatch.setattr(module.tf.config, "list_physical_devices", lambda kind: ["a", "b"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert (module.visible_gpus(1), module.visible_gpus(2)) == ([], ["0", "1"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert module.visible_gpus(2) == ["4", "7"]
