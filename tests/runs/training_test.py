"""The loop: nothing that is finished is lost, and what cannot go on says so."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import tf_fedsam
from tests.launch.main_test import assert_same_run, log
from tests.launch.running import records, run, toy_args
from tests.runs.run_test import toy_config
from tf_fedsam.comparison.reading import read_run
from tf_fedsam.errors import InputError
from tf_fedsam.process import LearningProcess
from tf_fedsam.runs.folder import RunFolder


def content(folder):
    return {
        p.relative_to(folder): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file()
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    config = toy_config(folder, algo="scaffold", rounds=3)
    tf_fedsam.run(config, folder / "run", verbose=False)
    return config, folder / "run"


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished[1], tmp_path / "copy")
    return finished[0], tmp_path / "copy"


def test_a_finished_run_needs_no_checkpoints(copy):
    config, folder = copy
    shutil.rmtree(folder / "checkpoints")
    before = content(folder)
    again = tf_fedsam.run(config, folder, verbose=False)
    assert again.complete
    assert again.summary["rounds"] == 3
    assert content(folder) == before


def test_a_finished_run_is_told_from_a_disk_that_cannot_be_written(copy, monkeypatch, capsys):
    config, folder = copy

    def refused(*_):
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(RunFolder, "write_summary", refused)
    monkeypatch.setattr("tf_fedsam.runs.run.RunLock", refused)
    again = tf_fedsam.run(config.with_values({"targets": "0.01"}), folder)
    assert again.summary["targets"]["0.01"]["round"] == 1
    out = capsys.readouterr().out
    assert "Read-only file system" in out
    assert f"{again.summary['test_accuracy']:.2%}" in out


def test_a_run_that_lost_its_checkpoints_is_not_trained_again_by_itself(copy):
    config, folder = copy
    shutil.rmtree(folder / "checkpoints")
    before = content(folder)
    longer = config.with_values({"rounds": 4})
    with pytest.raises(InputError, match=r"3 rounds.*checkpoints are gone.*restart") as caught:
        tf_fedsam.run(longer, folder, verbose=False)
    assert "--restart=true" in caught.value.with_flags()
    after = content(folder)
    assert {p: c for p, c in after.items() if p.name != ".lock"} == {
        p: c for p, c in before.items() if p.name != ".lock"
    }
    again = tf_fedsam.run(longer, folder, verbose=False, restart=True)
    assert again.complete
    assert len(again.records) == 4


@pytest.mark.parametrize("lost", [[".saved"], [".saved", ".exported", "summary.json"]])
def test_a_copy_without_hidden_files_is_known_to_have_been_saved(lost, copy):
    """Its results were written after the last checkpoint."""
    config, folder = copy
    shutil.rmtree(folder / "checkpoints")
    for name in lost:
        (folder / name).unlink()
    before = (folder / "rounds.jsonl").read_bytes()
    with pytest.raises(InputError, match=r"3 rounds.*checkpoints are gone"):
        tf_fedsam.run(config.with_values({"rounds": 4}), folder, verbose=False)
    assert (folder / "rounds.jsonl").read_bytes() == before


def test_rounds_that_were_not_saved_yet_are_trained_again(finished, tmp_path, capsys):
    config, folder = finished[0], tmp_path / "cut"
    folder.mkdir()
    for name in ("config.json", "initial_weights.npz"):
        shutil.copy(finished[1] / name, folder)
    lines = (finished[1] / "rounds.jsonl").read_text().splitlines(keepends=True)
    (folder / "rounds.jsonl").write_text("".join(lines[:2]))
    assert tf_fedsam.run(config, folder, verbose=False).complete
    assert "no checkpoint yet: round 1 to 2 are trained again" in capsys.readouterr().out
    assert_same_run(finished[1], folder)


def test_restart_deletes_nothing_if_the_round_cannot_be_traced(copy, monkeypatch):
    config, folder = copy
    before = content(folder)

    def wrong(*_):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(LearningProcess, "trace", wrong)
        with pytest.raises(ZeroDivisionError):
            tf_fedsam.run(config, folder, verbose=False, restart=True)
    assert {p: c for p, c in content(folder).items() if p.name != ".lock"} == {
        p: c for p, c in before.items() if p.name != ".lock"
    }
    again = tf_fedsam.run(config, folder, verbose=False, restart=True)
    assert again.config_file.get("resumes", []) == []  # all of it is of now


@pytest.mark.parametrize(
    "part", ["command", "data", "algorithm", "partition", "split", "devices", "versions", "source"]
)
def test_a_config_that_lost_a_part(part, copy):
    """What is as it was is filled in, but for the code that the run began with."""
    config, folder = copy
    file = folder / "config.json"
    before = json.loads(file.read_text())
    del before["data"]["class_names"], before["partition"]["fingerprint"], before[part]
    file.write_text(json.dumps(before))
    again = tf_fedsam.run(config.with_values({"rounds": 4}), folder, verbose=False)
    assert again.complete
    assert (part in again.config_file) == (part not in ("versions", "source"))
    assert again.config_file["data"]["class_names"]
    assert again.config_file["partition"]["fingerprint"]


def test_restart_on_the_command_line(capsys, tmp_path):
    args = [*toy_args(tmp_path), "--algo=fedavg"]
    assert run(capsys, *args).code == 0
    before = log(tmp_path / "run")
    changed = (tmp_path / "run/rounds.jsonl").stat().st_mtime_ns
    assert run(capsys, *args, "--restart").code == 0
    assert log(tmp_path / "run") == before
    assert (tmp_path / "run/rounds.jsonl").stat().st_mtime_ns > changed
    assert run(capsys, *args, "--restart", "--lr=0.3").code == 2  # that is another run


def test_a_digit_that_was_changed_after_the_run(capsys, tmp_path):
    """Neither printed as a result nor compared."""
    args = toy_args(tmp_path)
    assert run(capsys, *args).code == 0
    file = tmp_path / "run/rounds.jsonl"
    record = json.loads(file.read_text().splitlines()[0])
    number = json.dumps(record["train_loss"])
    file.write_text(file.read_text().replace(number, json.dumps(record["train_loss"] + 1), 1))
    result = run(capsys, *args)
    assert result.code == 2
    assert f"{file} has another content than when the run was complete" in result.err
    with pytest.raises(InputError, match="another content"):
        read_run(tmp_path / "run")


def test_a_run_from_a_file(capsys, tmp_path):
    """``--config``: the file describes, flags win."""
    args = toy_args(tmp_path)
    file = tmp_path / "run.yaml"
    toy_config(tmp_path, algo="fedsam", hparams={"rho": 0.3}, lr=0.2, rounds=5).save(file)
    result = run(capsys, f"--config={file}", "--rounds=2", f"--output_dir={tmp_path / 'a'}")
    assert result.code == 0, result.err
    given = ["--algo=fedsam", "--hparams.rho=0.3", "--lr=0.2", f"--output_dir={tmp_path / 'b'}"]
    assert run(capsys, *args, *given).code == 0
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert len(records(tmp_path / "a")) == 2
    other = run(capsys, f"--config={file}", "--hparams.rho=0.1", f"--output_dir={tmp_path / 'c'}")
    assert other.code == 0
    assert tf_fedsam.Run(tmp_path / "c").config.hparams["rho"] == 0.1
    for text, words in (("lrr: 1\n", ["lrr", "'lr'"]), ("rounds: [1]\n", ["--rounds"])):
        file.write_text(text)
        result = run(capsys, f"--config={file}")
        assert result.code == 2
        assert all(word in result.err for word in words)
    assert run(capsys, "--config=nothing.yaml").code == 2


def test_nobody_reads_the_output_of_a_training(tmp_path):
    """It says so, is saved, and the same command goes on to the same end."""
    args = [sys.executable, "-m", "launch.main", *toy_args(tmp_path), "--rounds=60"]
    args.append("--checkpoint_every=50")
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        while b"round    1/60" not in process.stdout.readline():
            pass
        process.stdout.close()
        _, told = process.communicate(timeout=120)
    assert process.returncode == 1
    assert told.decode().startswith("error: Nobody reads the output any more, so training stopped")
    assert len(told.splitlines()) == 1
    assert 1 <= len(records(tmp_path / "run")) < 60
    rest = subprocess.run(args, capture_output=True, text=True, env=os.environ)
    assert rest.returncode == 0
    assert "Going on after round" in rest.stdout
    whole = subprocess.run([*args, f"--output_dir={tmp_path / 'whole'}"], capture_output=True)
    assert whole.returncode == 0
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def cut(content):
    return content[: len(content) // 2]


def flipped(content):
    """One bit in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("final_weights.npz", flipped),
        ("network.keras", cut),
        ("model.keras", flipped),
        ("saved_model/saved_model.pb", cut),
        ("saved_model/variables/variables.index", flipped),
    ],
)
def test_results_that_were_damaged_are_written_again(name, damage, copy, finished, capsys):
    """From the last checkpoint, without training."""
    config, folder = copy
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(damage(whole))
    assert tf_fedsam.Run(folder).complete == (damage is flipped)  # as far as sizes tell
    before = (folder / "rounds.jsonl").read_bytes()
    assert tf_fedsam.run(config, folder, verbose=False).complete
    told = capsys.readouterr().out
    assert "writing the results anew" in told
    assert f"Gone, or not as the run wrote it: {name.partition('/')[0]} in" in told
    assert (folder / "rounds.jsonl").read_bytes() == before
    assert_same_run(finished[1], folder)
    assert len((folder / name).read_bytes()) > len(whole) // 2
    assert tf_fedsam.run(config, folder, verbose=False).complete
    assert capsys.readouterr().out == ""  # all is well again


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("final_weights.npz", flipped),
        ("network.keras", cut),
        ("model.keras", None),
        ("events.out.tfevents.*", None),
    ],
)
def test_damaged_results_without_a_checkpoint(name, damage, capsys, tmp_path):
    """It is said, and the results are told: nothing is trained or deleted."""
    args, folder = [*toy_args(tmp_path), "--algo=scaffold"], tmp_path / "run"
    assert run(capsys, *args).code == 0
    (file,) = folder.glob(name)
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    shutil.rmtree(folder / "checkpoints")
    before = content(folder)
    result = run(capsys, *args)
    assert (result.code, result.err) == (0, "")
    assert f"Gone, or not as the run wrote it: {name} in {folder}." in result.out
    assert "no checkpoint to write it anew from" in result.out.replace("\n", " ")
    assert "Results of SCAFFOLD" in result.out
    assert content(folder) == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="file names are bytes on Linux")
def test_folder_names_that_cannot_be(tmp_path):
    """No text, and too long: a message, no traceback."""
    folder = os.fsencode(tmp_path) + b"/r\xffn"
    args = [os.fsencode(a) for a in toy_args(tmp_path) if "output_dir" not in a]
    command = [os.fsencode(sys.executable), b"-m", b"launch.main", *args]
    done = subprocess.run([*command, b"--output_dir=" + folder], capture_output=True)
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: --output_dir=")
    assert b"is not text in UTF-8" in done.stderr
    assert not os.path.exists(folder)
    long = subprocess.run([*command, b"--output_dir=" + b"x" * 300], capture_output=True)
    assert long.returncode in (1, 2)
    assert b"Traceback" not in long.stderr
    assert b"too long" in long.stderr


def test_schedules_and_kept_momentum_go_on_where_they_were(tmp_path):
    """Two rounds and two more are four: velocities are in the checkpoint, the rate has its place.

    Without schedule_rounds the schedule of two rounds is another one than that of four.
    """
    given = {"algo": "fedsam", "lr_schedule": "cosine", "lr_final_factor": 0.1, "rho_decay": 0.5}
    given |= {"rho_schedule": "exponential", "local_momentum": 0.5, "probes": "none"}
    given |= {"local_momentum_state": "keep", "participation": 1.0}
    half, whole = (toy_config(tmp_path, rounds=r, **given) for r in (2, 4))
    end = {"schedule_rounds": 4}
    tf_fedsam.run(half.with_values(end), tmp_path / "cut", verbose=False)
    cut = tf_fedsam.run(whole.with_values(end), tmp_path / "cut", verbose=False)
    once = tf_fedsam.run(whole, tmp_path / "once", verbose=False)
    for a, b in zip(cut.weights(), once.weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    # rho = 0.1 * 0.5^t; lr falls from 0.1 towards 0.01.
    assert [r["rho"] for r in cut.records] == pytest.approx([0.1, 0.05, 0.025, 0.0125])
    assert [r["lr"] for r in cut.records][::2] == pytest.approx([0.1, 0.055])
    tf_fedsam.run(half, tmp_path / "half", verbose=False)
    with pytest.raises(InputError, match="schedule_rounds: 2 there, 4 now"):
        tf_fedsam.run(whole, tmp_path / "half", verbose=False)


def test_client_state_on_the_disk_is_the_same_run(tmp_path):
    """Fresh, resumed, and when it changes on the way; probes read it, too."""
    options = {"algo": "scaffold", "keep_local_models": True, "probe_every": 1, "rounds": 6}
    config = toy_config(tmp_path, **options, client_state="memory")
    tf_fedsam.run(config, tmp_path / "memory", verbose=False)
    for rounds, where in ((2, "disk"), (3, "disk"), (4, "memory"), (6, "disk")):
        changed = config.with_values({"rounds": rounds, "client_state": where})
        tf_fedsam.run(changed, tmp_path / "changing", verbose=False)
    assert_same_run(tmp_path / "memory", tmp_path / "changing")
    resumes = tf_fedsam.Run(tmp_path / "changing").config_file["resumes"]
    assert resumes[-1]["changed_settings"]["client_state"] == ["memory", "disk"]
