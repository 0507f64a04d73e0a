"""The launcher that draws loss surfaces."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from absl.testing import flagsaver
from PIL import Image

from launch import landscape as launcher
from launch import main
from tests.launch.running import toy_file
from tf_fedsam.analysis import landscape

OWN_MODEL = """
import keras

def net(input_shape, num_classes, units=6):
    inputs = keras.Input(input_shape)
    x = keras.layers.Dense(units, activation="relu")(inputs)
    x = keras.layers.BatchNormalization()(x)
    return keras.Model(inputs, keras.layers.Dense(num_classes)(x))
"""


def draw(capsys, *args):
    """Exit code, standard output and standard error."""
    with flagsaver.flagsaver():
        code = launcher.run([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def train(folder, *args):
    with flagsaver.flagsaver():
        assert main.run([*map(str, args), f"--output_dir={folder}"]) == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs of the linear model and of an own model with BatchNorm; they are only read."""
    folder = tmp_path_factory.mktemp("runs")
    data = ["--dataset=npz", f"--data_file={toy_file(folder)}", "--partition=given"]
    data += ["--participation=0.5", "--rounds=2", "--devices=cpu:2", "--probes=none"]
    train(folder / "avg", *data, "--model=linear", "--algo=fedavg")
    train(folder / "sam", *data, "--model=linear", "--algo=fedsam", "--hparams.rho=0.5", "--seed=1")
    (folder / "own.py").write_text(OWN_MODEL)
    train(folder / "own", *data, f"--model={folder / 'own.py'}:net", "--lr=0.05")
    return folder


@pytest.fixture
def runs(made, tmp_path):
    """Copies that a test may write to."""
    for name in ("avg", "sam", "own"):
        shutil.copytree(made / name, tmp_path / name)
    return tmp_path


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def numbers_of(path, run):
    """[points, columns] of a run's rows, without the run."""
    found = [list(row.values())[1:] for row in rows(path) if row["run"] == str(run)]
    return np.asarray(found, float)


def last_test_loss(run):
    return json.loads((run / "rounds.jsonl").read_text().splitlines()[-1])["test_loss"]


def linear_loss(run, x, y, shift=0.0):
    """NumPy, float64; ``shift`` is added to the kernel."""
    weights = np.load(run / "final_weights.npz")
    logits = x.astype(np.float64) @ (weights["w0"] + shift) + weights["w1"]
    return (np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]).mean()


def test_surfaces_lines_and_everything_around(capsys, runs, made):
    out = runs / "out"
    avg, sam = runs / "avg", runs / "sam"
    code, said, err = draw(capsys, avg, sam, "--grid=5", "--between", f"--out={out}")
    assert (code, err) == (0, "")

    # The values: NumPy with directions that are normalised here, unit by unit.
    toy = np.load(made / "toy.npz")
    x, y = toy["x_train"], toy["y_train"]
    draws = [d[0].astype(np.float64) for d in landscape.random_directions([(5, 3), (3,)], 0)]
    for run in (avg, sam):
        kernel = np.load(run / "final_weights.npz")["w0"]
        first, second = (
            d * np.linalg.norm(kernel, axis=0) / np.linalg.norm(d, axis=0) for d in draws
        )
        surface = numbers_of(out / "surface_2d.csv", run)
        assert surface.shape == (25, 4)
        for a, b, loss, _ in surface:
            expected = linear_loss(run, x, y, a * first + b * second)
            assert loss == pytest.approx(expected, rel=1e-5)
        line = numbers_of(out / "line_1d.csv", run)
        assert line[:, 0].tolist() == [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1]
        for a, loss, _ in line:
            assert loss == pytest.approx(linear_loss(run, x, y, a * first), rel=1e-5)
    between = rows(out / "between.csv")
    assert {(row["from"], row["to"]) for row in between} == {(str(avg), str(sam))}
    ends = {float(row["t"]): float(row["loss"]) for row in between}
    assert len(ends) == 9
    assert ends[0.0] == pytest.approx(linear_loss(avg, x, y), rel=1e-5)
    assert ends[1.0] == pytest.approx(linear_loss(sam, x, y), rel=1e-5)

    # The file that others read.
    result = json.loads((out / "landscape.json").read_text())
    assert [r["label"] for r in result["runs"]] == ["fedavg seed=0", "fedsam seed=1"]
    assert [r["folder"] for r in result["runs"]] == [str(avg), str(sam)]
    assert result["settings"]["examples"] == 40
    ring = [
        np.mean([linear_loss(sam, x, y, a * first + b * second) for a, b in ring_by_hand(0.5)]),
        linear_loss(sam, x, y),
    ]
    assert result["runs"][1]["ring"] == pytest.approx(ring[0], rel=1e-5)
    assert result["runs"][1]["rise"] == pytest.approx(ring[0] - ring[1], rel=1e-3)
    pictures = [entry["file"] for entry in result["pictures"]]
    assert pictures == ["contour.png", "surface.png", "line.png", "between.png"]
    for entry in result["pictures"]:
        with Image.open(out / entry["file"]) as picture:
            assert picture.format == "PNG"
            assert np.asarray(picture.convert("L")).std() > 5
        assert "fedsam seed=1" in entry["alt"]
    assert "rises least around" in result["pictures"][0]["alt"]

    # What a user reads.
    assert f"{result['runs'][1]['ring']:.4f}" in said
    assert f"python -m launch.report {avg} {sam} --landscape={out} --out=report.html" in said
    for name in (*pictures, "surface_2d.csv", "line_1d.csv", "between.csv", "landscape.json"):
        assert str(out / name) in said
        assert (out / name).exists()


def ring_by_hand(radius):
    angles = np.arange(16) * np.pi / 8
    return zip(radius * np.cos(angles), radius * np.sin(angles), strict=True)


def test_the_middle_is_the_test_loss_of_the_run(capsys, runs):
    """Of an own model: its file, and BatchNorm statistics that training moved."""
    own = runs / "own"
    code, _, err = draw(capsys, own, "--grid=3", "--on=test", f"--out={runs / 'o'}")
    assert (code, err) == (0, "")
    surface = numbers_of(runs / "o" / "surface_2d.csv", own)
    assert surface[4, :2].tolist() == [0, 0]
    assert surface[4, 2] == pytest.approx(last_test_loss(own), rel=1e-5)
    assert np.ptp(surface[:, 2]) > 1e-3
    assert not (runs / "o" / "between.png").exists()


def test_only_what_is_asked_for(capsys, runs):
    out = runs / "o"
    base = [runs / "avg", runs / "sam", f"--out={out}", "--grid=3"]
    assert draw(capsys, *base, "--between")[0] == 0
    assert draw(capsys, *base, "--dimensions=1")[0] == 0
    names = {path.name for path in out.iterdir()}
    assert names == {".lock", "points", "landscape.json", "line.png", "line_1d.csv"}
    listed = json.loads((out / "landscape.json").read_text())["pictures"]
    assert [entry["file"] for entry in listed] == ["line.png"]


def test_examples_are_drawn_and_the_same_for_all(capsys, runs, made, monkeypatch):
    """8 of 40, the same whatever the run; another seed draws others."""
    seen = []
    original = launcher.LossFunction

    def spy(network, examples, *rest):
        seen.append(examples)
        return original(network, examples, *rest)

    monkeypatch.setattr(launcher, "LossFunction", spy)
    for number, (run, seed) in enumerate((("avg", 0), ("sam", 0), ("avg", 5))):
        args = [runs / run, "--grid=3", "--examples=8", f"--seed={seed}", "--dimensions=1"]
        assert draw(capsys, *args, f"--out={runs / f'o{number}'}")[0] == 0
    assert [len(e) for e in seen] == [8, 8, 8]
    np.testing.assert_array_equal(seen[0].x, seen[1].x)
    assert not np.array_equal(seen[0].x, seen[2].x)
    rows_of_train = {tuple(row) for row in np.load(made / "toy.npz")["x_train"].tolist()}
    assert len({tuple(row) for row in seen[0].x.tolist()} & rows_of_train) == 8


def counting(monkeypatch, stop_after=10**9):
    """Counts evaluated points; interrupts after some calls."""
    calls = []
    original = launcher.LossFunction.__call__

    def counted(self, plane, points):
        if len(calls) >= stop_after:
            raise KeyboardInterrupt
        calls.append(len(points))
        return original(self, plane, points)

    monkeypatch.setattr(launcher.LossFunction, "__call__", counted)
    return calls


def test_an_interrupted_command_goes_on(capsys, runs, monkeypatch):
    base = [runs / "avg", runs / "sam", "--grid=5", "--notensorboard"]
    assert draw(capsys, *base, f"--out={runs / 'whole'}")[0] == 0
    with monkeypatch.context() as patch:
        calls = counting(patch, stop_after=4)
        code, _, err = draw(capsys, *base, f"--out={runs / 'cut'}")
    assert code == 1
    assert "The same command goes on" in err
    assert not (runs / "cut" / "landscape.json").exists()
    kept = sum(calls)
    with monkeypatch.context() as patch:
        calls = counting(patch)
        code, said, _ = draw(capsys, *base, f"--out={runs / 'cut'}")
    assert code == 0
    assert f"{kept} points are known" in said
    # Two runs: 25 on the surface, 4 more on the line, 12 more on the ring, whose others are there.
    assert sum(calls) == 2 * (25 + 4 + 12) - kept
    with monkeypatch.context() as patch:
        patch.setattr(launcher, "LossFunction", None)
        code, said, _ = draw(capsys, *base, f"--out={runs / 'cut'}")
    assert code == 0
    assert "nothing is computed" in said
    for name in ("surface_2d.csv", "line_1d.csv", "contour.png"):
        files = [(runs / folder / name).read_bytes() for folder in ("whole", "cut")]
        assert files[0] == files[1], name
    with monkeypatch.context() as patch:
        calls = counting(patch)
        finer = [runs / "avg", "--grid=9", "--dimensions=2", f"--out={runs / 'cut'}"]
        assert draw(capsys, *finer)[0] == 0
    assert sum(calls) == 81 - 25 - 4  # of the line's 9 points 5 are on the coarse surface
    with monkeypatch.context() as patch:
        calls = counting(patch)
        other = [runs / "avg", "--grid=3", "--seed=7", "--dimensions=2", f"--out={runs / 'cut'}"]
        assert draw(capsys, *other)[0] == 0
    assert sum(calls) == 9 + 16  # other directions: nothing of before counts


def test_killed_at_any_moment(capsys, runs):
    """SIGKILL while it computes; the same command ends with the same table."""
    base = [str(runs / "avg"), "--grid=41", "--dimensions=2", "--notensorboard"]
    out = runs / "killed"
    process = subprocess.Popen(
        [sys.executable, "-m", "launch.landscape", *base, f"--out={out}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    began = time.monotonic()
    while not list((out / "points").glob("*.npz")) and time.monotonic() - began < 120:
        assert process.poll() is None, process.stdout.read().decode()
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (out / "landscape.json").exists()
    code, said, _ = draw(capsys, *base, f"--out={out}")
    assert code == 0
    known = int(re.search(r"([\d,]+) points are known", said)[1].replace(",", ""))
    assert 0 < known < 41 * 41
    assert draw(capsys, *base, f"--out={runs / 'whole'}")[0] == 0
    tables = [numbers_of(runs / f / "surface_2d.csv", runs / "avg") for f in ("killed", "whole")]
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-5)


def contour_events(folder):
    found = []
    for path in sorted(folder.glob("*")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            found += [
                (event.step, value.tensor.string_val[2])
                for value in event.summary.value
                if value.tag == "landscape/contour"
            ]
    return found


def test_each_run_gets_its_contour_in_tensorboard(capsys, runs):
    base = [runs / "avg", runs / "sam", "--grid=3", "--dimensions=2"]
    assert draw(capsys, *base, f"--out={runs / 'o'}", "--notensorboard")[0] == 0
    assert contour_events(runs / "avg" / "tensorboard") == []
    for _ in range(2):  # the second time it takes the place of the first
        assert draw(capsys, *base, f"--out={runs / 'o'}")[0] == 0
    first, second = (contour_events(runs / name / "tensorboard") for name in ("avg", "sam"))
    assert [step for step, _ in first] == [step for step, _ in second] == [2]
    assert tf.io.decode_png(first[0][1]).shape[-1] == 3
    assert first[0][1] != second[0][1]
    assert len(list((runs / "avg" / "tensorboard").glob("*.v2"))) == 1  # the run's own curves


def test_a_tensorboard_that_cannot_be_written(capsys, runs):
    shutil.rmtree(runs / "avg" / "tensorboard")
    (runs / "avg" / "tensorboard").write_text("a file")
    args = [runs / "avg", "--grid=3", f"--out={runs / 'o'}"]
    code, said, err = draw(capsys, *args)
    assert (code, err) == (0, "")
    assert f"{runs / 'avg' / 'tensorboard'} cannot be written" in said
    assert (runs / "o" / "landscape.json").exists()


def change_config(run, change):
    config = json.loads((run / "config.json").read_text())
    change(config)
    (run / "config.json").write_text(json.dumps(config))


def test_an_algorithm_file_may_be_gone(capsys, runs):
    def change(config):
        config["settings"]["algo"] = "gone/mine.py:MyMethod"

    change_config(runs / "avg", change)
    args = [runs / "avg", runs / "sam", "--grid=3", "--dimensions=1", f"--out={runs / 'o'}"]
    assert draw(capsys, *args)[0] == 0
    found = json.loads((runs / "o" / "landscape.json").read_text())["runs"]
    assert [r["algo"] for r in found] == ["MyMethod", "fedsam"]


def test_runs_that_cannot_be_compared(capsys, runs, made):
    out = f"--out={runs / 'o'}"
    code, said, err = draw(capsys, runs / "avg", runs / "own", out)
    assert (code, said) == (2, "")
    assert "different architectures" in err
    assert str(runs / "avg") in err
    assert str(runs / "own") in err
    assert "'linear' and 'net'" in err

    change_config(runs / "sam", lambda config: config["inputs"].update(data="0123"))
    code, _, err = draw(capsys, runs / "avg", runs / "sam", out)
    assert code == 2
    assert "different data" in err
    assert "seed, 0 and 1" in err
    code, _, err = draw(capsys, runs / "sam", out)
    assert code == 2
    assert "What the run" in err
    assert "data: '0123' there" in err
    assert not (runs / "o").exists()


def test_runs_that_are_not_complete(capsys, runs):
    (runs / "avg" / "summary.json").unlink()
    code, said, err = draw(capsys, runs / "avg", f"--out={runs / 'o'}")
    assert (code, said) == (2, "")
    assert "is not complete: summary.json" in err
    command = err.strip().splitlines()[-1].split()
    assert command[:3] == ["python", "-m", "launch.main"]
    with flagsaver.flagsaver():  # and what it says works
        assert main.run(command[3:]) == 0
    capsys.readouterr()
    assert draw(capsys, runs / "avg", "--grid=3", f"--out={runs / 'o'}")[0] == 0


def broken_model(folder):
    (folder / "avg" / "model.keras").write_bytes(b"PK nothing")


def other_weights(folder):
    shutil.copy(folder / "sam" / "final_weights.npz", folder / "avg" / "final_weights.npz")


def other_model(folder):
    shutil.copy(folder / "own" / "model.keras", folder / "avg" / "model.keras")


def no_config(folder):
    (folder / "avg" / "config.json").unlink()


def broken_config(folder):
    (folder / "avg" / "config.json").write_text("{")


def unknown_data(folder):
    change_config(folder / "avg", lambda config: config["settings"].update(dataset="nothing"))


def typed_wrong(folder):
    change_config(folder / "avg", lambda config: config["settings"].update(seed="x"))


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (broken_model, "could not be read as weights of the model linear"),
        (other_model, "could not be read as weights of the model linear"),
        (other_weights, "hold different weights"),
        (no_config, "is not a run folder"),
        (broken_config, "could not be read"),
        (unknown_data, "Unknown"),
        (typed_wrong, "seed"),
    ],
)
def test_damaged_runs(capsys, runs, damage, part):
    damage(runs)
    code, said, err = draw(capsys, runs / "avg", f"--out={runs / 'o'}")
    assert (code, said) == (2, "")
    assert err.startswith("error: ")
    assert part in err
    assert not (runs / "o").exists()


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ([], "Received no run folder"),
        (["RUN", "RUN"], "Received twice"),
        (["RUN", "--grid=2"], "--grid must be an odd number, 3 to 501"),
        (["RUN", "--grid=20"], "Received: 20"),
        (["RUN", "--grid=999999"], "Received: 999999"),
        (["RUN", "--grid=x"], "grid"),
        (["RUN", "--span=0"], "--span must be a finite number above 0"),
        (["RUN", "--span=nan"], "--span must be a finite number above 0"),
        (["RUN", "--examples=0"], "--examples must be at least 1"),
        (["RUN", "--batch_size=0"], "--batch_size must be at least 1"),
        (["RUN", "--seed=-1"], "--seed must be at least 0"),
        (["RUN", "--dimensions=3"], "--dimensions must be 1, 2 or 1,2"),
        (["RUN", "--dimensions="], "--dimensions must be 1, 2 or 1,2"),
        (["RUN", "--on=validation"], "train|test"),
        (["RUN", "--between"], "--between needs two runs"),
        (["RUN", "--gird=3"], "gird"),
        (["RUN/nothing"], "is not a run folder"),
        (["RUN", "--out=RUN"], "not of a loss surface"),
        (["RUN", "--out=RUN/config.json"], "is a file"),
    ],
)
def test_bad_input(capsys, made, flags, part):
    before = sorted(os.listdir(made / "avg"))
    code, out, err = draw(capsys, *(flag.replace("RUN", str(made / "avg")) for flag in flags))
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert part in err
    assert sorted(os.listdir(made / "avg")) == before


def test_help(capsys):
    code, out, _ = draw(capsys, "--help")
    assert code == 0
    for name in ("grid", "span", "between", "examples", "tensorboard"):
        assert f"--[no]{name}:" in out or f"--{name}:" in out
