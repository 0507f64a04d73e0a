"""Loss surfaces of runs, from their folders to pictures and numbers."""

import base64
import csv
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import tf_fedsam
from tests.analysis.landscape.made_runs import change_config
from tf_fedsam.analysis.landscape import survey
from tf_fedsam.analysis.landscape.loss import LossFunction
from tf_fedsam.analysis.landscape.plane import random_directions
from tf_fedsam.errors import InputError


def look(runs, out, **view):
    return tf_fedsam.landscape(runs, out, **{"verbose": False, **view})


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def numbers_of(path, run):
    """[points, columns] of a run's rows, without the run."""
    found = [list(row.values())[1:] for row in rows(path) if row["run"] == str(run)]
    return np.asarray(found, float)


def linear_loss(run, x, y, shift=0.0):
    """NumPy, float64; ``shift`` is added to the kernel."""
    weights = np.load(run / "final_weights.npz")
    logits = x.astype(np.float64) @ (weights["w0"] + shift) + weights["w1"]
    return (np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]).mean()


def ring_by_hand(radius):
    angles = np.arange(16) * np.pi / 8
    return zip(radius * np.cos(angles), radius * np.sin(angles), strict=True)


def test_surfaces_lines_and_everything_around(capsys, runs, made):
    out = runs / "out"
    avg, sam = runs / "avg", runs / "sam"
    found = look([tf_fedsam.Run(avg), str(sam)], out, grid=5, between=True)
    assert capsys.readouterr().out == ""

    # The values: NumPy with directions that are normalised here, unit by unit.
    toy = np.load(made / "toy.npz")
    x, y = toy["x_train"], toy["y_train"]
    draws = [d[0].astype(np.float64) for d in random_directions([(5, 3), (3,)], 0)]
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

    # The numbers.
    assert [row["label"] for row in found.numbers] == ["fedavg seed=0", "fedsam seed=1"]
    assert [row["folder"] for row in found.numbers] == [str(avg), str(sam)]
    assert [row["rounds"] for row in found.numbers] == [2, 2]
    ring = np.mean([linear_loss(sam, x, y, a * first + b * second) for a, b in ring_by_hand(0.5)])
    middle = linear_loss(sam, x, y)
    assert found.numbers[1]["loss"] == pytest.approx(middle, rel=1e-5)
    assert found.numbers[1]["ring"] == pytest.approx(ring, rel=1e-5)
    assert found.numbers[1]["rise"] == pytest.approx(ring - middle, rel=1e-3)
    assert [set(row) for row in found.barriers] == [{"from", "to", "barrier"}]

    # The file that others read.
    result = json.loads((out / "landscape.json").read_text())
    assert result["runs"] == found.numbers
    assert result["between"] == found.barriers
    assert result["settings"] == found.settings
    assert result["settings"]["examples"] == 40
    pictures = [entry["file"] for entry in result["pictures"]]
    assert pictures == ["contour.png", "surface.png", "line.png", "between.png"]
    for entry in result["pictures"]:
        with Image.open(out / entry["file"]) as picture:
            assert picture.format == "PNG"
            assert np.asarray(picture.convert("L")).std() > 5
        assert "fedsam seed=1" in entry["alt"]
    assert "rises least around" in result["pictures"][0]["alt"]
    tables = ["surface_2d.csv", "line_1d.csv", "between.csv"]
    assert found.files == [out / name for name in (*pictures, *tables, "landscape.json")]


def test_the_object(runs):
    found = look(runs / "avg", runs / "o", grid=3)
    assert list(found.figures) == list(found.alts) == ["contour", "surface", "line"]
    assert found.figures["contour"].axes[0].get_title() == "fedavg"
    assert [axes.get_ylabel() for axes in found.figures["line"].axes][1] == "accuracy, %"
    assert repr(found) == f"Landscape({str(runs / 'o')!r}, fedavg)"
    assert f"{found.numbers[0]['ring']:.4f}" in found.report()
    assert found.folder == runs / "o"
    page = found._repr_html_()
    shown = [base64.b64decode(text) for text in re.findall(r"base64,([^']+)'", page)]
    assert shown == [(runs / "o" / f"{name}.png").read_bytes() for name in found.figures]
    assert "<td>fedavg</td>" in page


def test_the_middle_is_the_test_loss_of_the_run(runs):
    """Of an own model: its file, and BatchNorm statistics that training moved."""
    own = runs / "own"
    found = look([own], runs / "o", grid=3, on="test")
    surface = numbers_of(runs / "o" / "surface_2d.csv", own)
    assert surface[4, :2].tolist() == [0, 0]
    expected = tf_fedsam.Run(own).records[-1]
    assert surface[4, 2] == pytest.approx(expected["test_loss"], rel=1e-5)
    assert found.numbers[0]["accuracy"] == pytest.approx(expected["test_accuracy"])
    assert np.ptp(surface[:, 2]) > 1e-3
    assert not (runs / "o" / "between.png").exists()


def test_only_what_is_asked_for(runs):
    out, both = runs / "o", [runs / "avg", runs / "sam"]
    look(both, out, grid=3, between=True)
    found = look(both, out, grid=3, dimensions=[1])
    names = {path.name for path in out.iterdir()}
    assert names == {".lock", "points", "landscape.json", "line.png", "line_1d.csv"}
    assert {path.name for path in found.files} == names - {".lock", "points"}
    listed = json.loads((out / "landscape.json").read_text())["pictures"]
    assert [entry["file"] for entry in listed] == ["line.png"]


def test_examples_are_drawn_and_the_same_for_all(runs, made, monkeypatch):
    """8 of 40, the same whatever the run; another seed draws others."""
    seen = []

    def spy(network, examples, *rest):
        seen.append(examples)
        return LossFunction(network, examples, *rest)

    monkeypatch.setattr(survey, "LossFunction", spy)
    for number, (run, seed) in enumerate((("avg", 0), ("sam", 0), ("avg", 5))):
        view = {"grid": 3, "examples": 8, "seed": seed, "dimensions": (1,)}
        look([runs / run], runs / f"o{number}", **view)
    assert [len(e) for e in seen] == [8, 8, 8]
    np.testing.assert_array_equal(seen[0].x, seen[1].x)
    assert not np.array_equal(seen[0].x, seen[2].x)
    rows_of_train = {tuple(row) for row in np.load(made / "toy.npz")["x_train"].tolist()}
    assert len({tuple(row) for row in seen[0].x.tolist()} & rows_of_train) == 8


def counting(monkeypatch, stop_after=10**9):
    """Counts evaluated points; interrupts after some calls."""
    calls = []
    original = LossFunction.__call__

    def counted(self, plane, points):
        if len(calls) >= stop_after:
            raise KeyboardInterrupt
        calls.append(len(points))
        return original(self, plane, points)

    monkeypatch.setattr(LossFunction, "__call__", counted)
    return calls


def test_an_interrupted_call_goes_on(capsys, runs, monkeypatch):
    both, view = [runs / "avg", runs / "sam"], {"grid": 5, "tensorboard": False, "verbose": True}
    whole = look(both, runs / "whole", **view)
    with monkeypatch.context() as patch:
        calls = counting(patch, stop_after=4)
        with pytest.raises(KeyboardInterrupt):
            look(both, runs / "cut", **view)
    assert not (runs / "cut" / "landscape.json").exists()
    kept = sum(calls)
    capsys.readouterr()
    with monkeypatch.context() as patch:
        calls = counting(patch)
        again = look(both, runs / "cut", **view)
    assert f"{kept} points are known" in capsys.readouterr().out
    # Two runs: 25 on the surface, 4 more on the line, 12 more on the ring, whose others are there.
    assert sum(calls) == 2 * (25 + 4 + 12) - kept
    assert again.numbers == whole.numbers
    with monkeypatch.context() as patch:
        patch.setattr(survey, "LossFunction", None)
        look(both, runs / "cut", **view)
    assert "nothing is computed" in capsys.readouterr().out
    for name in ("surface_2d.csv", "line_1d.csv", "contour.png"):
        files = [(runs / folder / name).read_bytes() for folder in ("whole", "cut")]
        assert files[0] == files[1], name
    with monkeypatch.context() as patch:
        calls = counting(patch)
        look([runs / "avg"], runs / "cut", grid=9, dimensions=(2,))
    assert sum(calls) == 81 - 25 - 4  # of the line's 9 points 5 are on the coarse surface
    with monkeypatch.context() as patch:
        calls = counting(patch)
        look([runs / "avg"], runs / "cut", grid=3, seed=7, dimensions=(2,))
    assert sum(calls) == 9 + 16  # other directions: nothing of before counts


def contour_events(folder):
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            found += [
                (event.step, value.tensor.string_val[2])
                for value in event.summary.value
                if value.tag == "landscape/contour"
            ]
    return found


def test_each_run_gets_its_contour_in_tensorboard(runs):
    both, view = [runs / "avg", runs / "sam"], {"grid": 3, "dimensions": (2,)}
    look(both, runs / "o", tensorboard=False, **view)
    assert contour_events(runs / "avg") == []
    for _ in range(2):  # the second time it takes the place of the first
        look(both, runs / "o", **view)
    first, second = (contour_events(runs / name) for name in ("avg", "sam"))
    assert [step for step, _ in first] == [step for step, _ in second] == [2]
    assert tf.io.decode_png(first[0][1]).shape[-1] == 3
    assert first[0][1] != second[0][1]
    assert len(list((runs / "avg").glob("*.v2"))) == 1  # the run's own curves


def test_a_tensorboard_that_cannot_be_written(runs):
    (runs / "avg" / "tensorboard").write_text("a file")
    found = look([runs / "avg"], runs / "o", grid=3)
    assert f"{runs / 'avg' / 'tensorboard'} cannot be written" in found.notes[0]
    assert found.notes[0] in found.report()
    assert (runs / "o" / "landscape.json").exists()


def test_an_algorithm_file_may_be_gone(runs):
    def change(config):
        config["settings"]["algo"] = "gone/mine.py:MyMethod"

    change_config(runs / "avg", change)
    found = look([runs / "avg", runs / "sam"], runs / "o", grid=3, dimensions=(1,))
    assert [row["algo"] for row in found.numbers] == ["MyMethod", "fedsam"]


def test_a_data_set_of_ones_own(tmp_path):
    """That is not known by a name, so that it is passed with the runs, too."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(40, 5)).astype(np.float32), np.arange(40) % 2
    part = tf_fedsam.Examples(x, y)

    def load(request):
        return tf_fedsam.runs.task.Loaded(part, part, ("a", "b"), tf_fedsam.Preprocess(), "memory")

    task = tf_fedsam.Task("nobody_knows_it", "Mine", load)
    config = tf_fedsam.RunConfig(model="linear", rounds=1, num_clients=4, devices="cpu:1")
    run = tf_fedsam.run(config, tmp_path / "run", task=task, verbose=False)
    with pytest.raises(InputError, match="nobody_knows_it"):
        look(run, tmp_path / "o", grid=3)
    found = look(run, tmp_path / "o", grid=3, dimensions=(1,), task=task)
    assert found.numbers[0]["loss"] == pytest.approx(linear_loss(run.folder, x, y), rel=1e-5)


def test_runs_that_cannot_be_compared(runs):
    out, both = runs / "o", [runs / "avg", runs / "sam"]
    with pytest.raises(InputError, match=r"architectures.*'linear' and 'net'.*its own out") as seen:
        look([runs / "avg", runs / "own"], out)
    assert f"{runs / 'avg'} and {runs / 'own'} have different" in str(seen.value)
    assert "its own --out" in seen.value.with_flags()
    change_config(runs / "sam", lambda config: config["inputs"].update(data="0123"))
    with pytest.raises(InputError, match=r"different data.*seed, 0 and 1.*its own out"):
        look(both, out)
    with pytest.raises(InputError, match=r"What the run .* data: '0123' there"):
        look([runs / "sam"], out)
    assert not out.exists()


def test_a_run_that_is_not_complete(runs):
    """What the message says makes it complete."""
    (runs / "avg" / "summary.json").unlink()
    with pytest.raises(InputError, match=r"is not complete: summary.json is not there") as seen:
        look([runs / "avg"], runs / "o")
    code = "\n".join(line.strip() for line in str(seen.value).splitlines()[1:])
    exec(code, {"tf_fedsam": tf_fedsam})
    assert look([runs / "avg"], runs / "o", grid=3).numbers


def broken_model(folder):
    (folder / "avg" / "network.keras").write_bytes(b"PK nothing")


def other_weights(folder):
    shutil.copy(folder / "sam" / "final_weights.npz", folder / "avg" / "final_weights.npz")


def other_model(folder):
    shutil.copy(folder / "own" / "network.keras", folder / "avg" / "network.keras")


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
        (broken_model, "could not be read as weights of the run's model"),
        (other_model, "could not be read as weights of the run's model"),
        (other_weights, "hold different weights"),
        (no_config, "is not a run folder"),
        (broken_config, "could not be read"),
        (unknown_data, "Unknown"),
        (typed_wrong, "seed"),
    ],
)
def test_damaged_runs(runs, damage, part):
    damage(runs)
    with pytest.raises(InputError, match=re.escape(part)):
        look([runs / "avg"], runs / "o")
    assert not (runs / "o").exists()


@pytest.mark.parametrize(
    ("folders", "view", "part"),
    [
        ([], {}, "Received no run"),
        (["avg", "avg"], {}, "Received twice"),
        (["avg"], {"grid": 20}, "grid must be an odd number, 3 to 501.*Received: 20"),
        (["avg"], {"grid": 999999}, "Received: 999999"),
        (["avg"], {"grid": "x"}, "grid must be a whole number. Received: 'x'"),
        (["avg"], {"span": 0}, "span must be a finite number above 0"),
        (["avg"], {"span": float("nan")}, "span must be a finite number above 0"),
        (["avg"], {"examples": 0}, "examples must be at least 1"),
        (["avg"], {"batch_size": 0}, "batch_size must be at least 1"),
        (["avg"], {"seed": -1}, "seed must be at least 0"),
        (["avg"], {"dimensions": (3,)}, r"dimensions must be .*Received: \(3,\)"),
        (["avg"], {"dimensions": ()}, "dimensions must be"),
        (["avg"], {"on": "validation"}, "on must be train or test. Received: 'validation'"),
        (["avg"], {"between": True}, "between needs two runs"),
        (["avg/nothing"], {}, "is not a run folder"),
    ],
)
def test_bad_input(made, tmp_path, folders, view, part):
    with pytest.raises(InputError, match=part):
        look([made / folder for folder in folders], tmp_path / "o", **view)
    assert not (tmp_path / "o").exists()


def test_a_folder_of_something_else(made):
    before = sorted(path.name for path in (made / "avg").iterdir())
    with pytest.raises(InputError, match="not of a loss surface"):
        look([made / "avg"], made / "avg")
    with pytest.raises(InputError, match="is a file"):
        look([made / "avg"], made / "avg" / "config.json")
    assert sorted(path.name for path in (made / "avg").iterdir()) == before
