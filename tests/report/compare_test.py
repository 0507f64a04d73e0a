"""The public comparison of runs."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import tf_fedsam
from tests.comparison.fake_runs import make_run, make_sweep
from tests.report.pages import Page, last_accuracy
from tf_fedsam.errors import InputError


def test_folders_runs_and_folders_of_runs(tmp_path):
    alone = make_run(tmp_path / "mine", algo="fedsam", seed=5)
    run = tf_fedsam.Run(make_run(tmp_path / "other", algo="fedavg", seed=5))
    sweep = make_sweep(tmp_path / "sweep", ("fedavg", "fednsam"), 2)
    comparison = tf_fedsam.compare([str(alone), run, sweep])
    (group,) = comparison.groups
    assert {s.label: s.seeds for s in group.series} == {
        "FedAvg": [0, 1, 5],
        "FedNSAM": [0, 1],
        "FedSAM": [5],
    }
    assert repr(comparison) == "Comparison(6 runs, 3 series, 1 problem, 0 skipped)"
    for one in (alone, str(alone), run):
        assert len(tf_fedsam.compare(one).groups[0].runs) == 1


def test_numbers(tmp_path):
    """Worked out from the logs by themselves."""
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 3)
    rows = {row["algo"]: row for row in tf_fedsam.compare(folder, targets=[0.3]).rows()}
    last = {
        algo: np.asarray([last_accuracy(folder / f"{algo}-{seed}") for seed in range(3)])
        for algo in rows
    }
    for algo, row in rows.items():
        assert row["test_accuracy_mean"] == pytest.approx(last[algo].mean())
        assert row["test_accuracy_std"] == pytest.approx(last[algo].std(ddof=1))
    pairs = last["fedsam"] - last["fedavg"]
    assert rows["fedsam"]["difference"] == pytest.approx(pairs.mean())
    assert rows["fedsam"]["baseline"] == "FedAvg"
    half = 4.302653 * pairs.std(ddof=1) / np.sqrt(3)  # t for three pairs
    assert rows["fedsam"]["difference_half_interval"] == pytest.approx(half)
    assert rows["fedavg"]["difference"] is None
    assert rows["fedavg"]["reached_0.3"] == 3


def test_baseline_and_targets(tmp_path):
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 2)
    comparison = tf_fedsam.compare(folder, baseline="fedsam", targets=[0.5, 0.3])
    assert [b.label for b in comparison.baselines] == ["FedSAM"]
    assert comparison.targets == (0.3, 0.5)
    assert comparison.rows()[1]["baseline"] == "FedSAM"
    with pytest.raises(InputError, match="Did you mean 'fedsam'"):
        tf_fedsam.compare(folder, baseline="fedsan")
    with pytest.raises(InputError, match=r"targets must be test accuracies in \(0, 1\]"):
        tf_fedsam.compare(folder, targets=[70])


def test_what_is_skipped_is_told(tmp_path):
    make_run(tmp_path / "good")
    (make_run(tmp_path / "bad") / "config.json").write_text("{")
    make_run(tmp_path / "same")
    skipped = {s.name: s.reason for s in tf_fedsam.compare(tmp_path).skipped}
    assert set(skipped) == {str(tmp_path / "bad"), str(tmp_path / "same")}
    assert "could not be read" in skipped[str(tmp_path / "bad")]
    assert skipped[str(tmp_path / "same")].startswith("the same settings and seed as")


def test_settings_of_another_version_are_reported(tmp_path):
    for algo in ("fedavg", "fedsam"):
        make_run(tmp_path / algo, algo=algo, future_setting="x" if algo == "fedsam" else "y")
    labels = {s.label for s in tf_fedsam.compare(tmp_path).groups[0].series}
    assert labels == {"FedAvg future_setting=y", "FedSAM future_setting=x"}


def test_tables(tmp_path):
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 2)
    make_run(folder / "else", rounds=5)
    comparison = tf_fedsam.compare(folder)
    text = str(comparison.table())
    assert repr(comparison.table()) == text
    assert text.count("series ") == 2
    assert "rounds to " in text
    assert "rounds to " not in str(comparison.table(brief=True))
    page = Page(comparison._repr_html_())
    titles = [comparison.title(section) for section in comparison.sections]
    assert list(page.tables) == titles
    cells = {cell for rows in page.tables.values() for row in rows for cell in row}
    last = next(row for row in comparison.rows() if row["n"] == 2)
    mean, std = (100 * last[f"test_accuracy_{what}"] for what in ("mean", "std"))
    assert f"{mean:.2f} ± {std:.2f}" in cells
    assert comparison.table()._repr_html_() == comparison._repr_html_()


def test_html(tmp_path):
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 2)
    page = tf_fedsam.compare(folder, targets=[0.3]).html(tmp_path / "report.html")
    assert page == tmp_path / "report.html"
    call = f"tf_fedsam.compare([{str(folder)!r}], targets=[0.3]).html({str(page)!r})"
    assert call in Page(page.read_text()).text
    assert not re.search("--(baseline|targets|max_curves|sharpness_rho)", page.read_text())


def test_where_nothing_can_be_written(tmp_path):
    comparison = tf_fedsam.compare(make_run(tmp_path / "a"))
    for write in (comparison.html, comparison.csv, comparison.latex):
        with pytest.raises(InputError, match="cannot be written"):
            write(tmp_path / "none" / "file")
    with pytest.raises(InputError, match="max_curves must be 1 to 32"):
        comparison.html(tmp_path / "a.html", max_curves=0)


def test_it_needs_neither_flags_nor_data_sets(tmp_path):
    """In a fresh process: data sets go by their name, and by their title once they are known."""
    make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 1)
    code = f"""
import sys, json, tf_fedsam
comparison = tf_fedsam.compare({str(tmp_path / "runs")!r})
before = comparison.html({str(tmp_path / "a.html")!r}).read_text()
assert "launch" not in sys.modules and "tasks" not in sys.modules and "absl.flags" not in before
import tasks
after = tf_fedsam.compare({str(tmp_path / "runs")!r}).html({str(tmp_path / "b.html")!r}).read_text()
print(json.dumps([text.partition("<h1>")[2].partition("</h1>")[0] for text in (before, after)]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["FedSAM and FedAvg on mnist", "FedSAM and FedAvg on MNIST"]
