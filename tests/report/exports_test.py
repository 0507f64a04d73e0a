"""The comparison as rows, CSV, LaTeX and text."""

import csv
import io
import json
import re

import pytest

import tf_fedsam
from tests.comparison.fake_runs import make_run, make_sweep
from tf_fedsam.report import exports


def read_csv(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_a_formula_in_a_csv_is_text(tmp_path):
    comparison = tf_fedsam.compare(make_run(tmp_path / "a", algo="=1+1"))
    (row,) = read_csv(comparison.csv(tmp_path / "a.csv"))
    assert row["series"] == row["algo"] == "'=1+1"
    assert comparison.rows()[0]["algo"] == "=1+1"


@pytest.fixture
def comparison(tmp_path):
    """Two series of two seeds that go to 50 %, and a run that goes on."""
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedlesam_s"), 2, ceiling=0.5, plain=True)
    make_run(folder / "c", algo="fedsam", done=3)
    return tf_fedsam.compare(folder, targets=[0.2, 0.9])


def test_csv(comparison, tmp_path):
    rows = {row["series"]: row for row in read_csv(comparison.csv(tmp_path / "a.csv"))}
    assert set(rows) == {"FedAvg", "FedLESAM-S", "FedSAM (unfinished)"}
    row, base = rows["FedLESAM-S"], rows["FedAvg"]
    gap = float(row["test_accuracy_mean"]) - float(base["test_accuracy_mean"])
    assert float(row["difference"]) == pytest.approx(gap)
    assert (row["n"], row["seeds"], row["difference_n"]) == ("2", "0 1", "2")
    assert (row["stopped"], base["difference"]) == ("0", "")
    assert (row["reached_0.2"], row["reached_0.9"], row["round_to_0.9_mean"]) == ("2", "0", "")
    assert float(row["bytes_to_0.2_mean"]) == float(row["round_to_0.2_mean"]) * 6 * 800_000


def test_latex(comparison, tmp_path):
    latex = comparison.latex(tmp_path / "a.tex").read_text()
    assert latex.count(r"\toprule") == 1
    body = [line for line in latex.splitlines() if line.startswith("Fed")]
    assert len(body) == 2  # only complete runs
    header = next(line for line in latex.splitlines() if line.startswith("Method"))
    assert {line.count(" & ") for line in [header, *body]} == {10}
    best = max(comparison.rows(), key=lambda row: row["test_accuracy_mean"])
    (bold,) = [b for b in body if b.split(" & ")[2].startswith(r"$\mathbf{")]
    assert bold.startswith(best["series"])
    mean, std = (100 * best[f"test_accuracy_{what}"] for what in ("mean", "std"))
    assert f"{mean:.2f} \\pm {std:.2f}" in bold
    assert "$>20$" in body[0]


def test_held_out_examples(tmp_path):
    """Accuracies of 0.5 on them, whatever the test has, of one series of two."""
    for algo, seed in (("fedavg", 0), ("fedavg", 1), ("fedsam", 0)):
        folder = make_run(tmp_path / f"{algo}{seed}", algo=algo, seed=seed, holdout=0.1)
        if algo == "fedsam":
            continue
        log = folder / "rounds.jsonl"
        records = [json.loads(line) for line in log.read_text().splitlines()]
        log.write_text(
            "".join(json.dumps({**r, "validation_accuracy": 0.5}) + "\n" for r in records)
        )
    found = tf_fedsam.compare(tmp_path)
    held = {row["series"]: row["mean_last_10_validation_accuracy_mean"] for row in found.rows()}
    assert held == {"FedAvg": 0.5, "FedSAM": None}
    assert "held out %" in str(found.table())
    assert "50.00 ± 0.00" in str(found.table())
    latex = found.latex(tmp_path / "a.tex").read_text()
    assert " & Held out & " in latex
    assert r"$50.00 \pm 0.00$" in latex
    counts = {line.count(" & ") for line in latex.splitlines() if " & " in line}
    assert len(counts) == 1


def test_rows_have_the_same_columns_and_numbers(comparison):
    rows = comparison.rows()
    assert len({tuple(row) for row in rows}) == 1
    assert isinstance(rows[0]["test_accuracy_mean"], float)
    assert rows[0]["round_to_0.9_mean"] is None
    assert [row["complete"] for row in rows] == [True, True, False]
    assert {row["problem"] for row in rows} == {"mnist, Dirichlet 0.3 per client, mlp, 20 rounds"}


def test_problems_are_told_apart_in_rows(tmp_path):
    make_run(tmp_path / "a", participation=0.1)
    make_run(tmp_path / "b", participation=0.5)
    problems = {row["problem"].rpartition(", ")[2] for row in tf_fedsam.compare(tmp_path).rows()}
    assert problems == {"participation=0.1", "participation=0.5"}


def test_text(comparison):
    (section,) = comparison.sections
    full, brief = exports.as_text(section), exports.as_text(section, brief=True)
    head, below, _, _, *lines = full.splitlines()  # a row takes two lines
    assert head.split("  ")[0] == "series"
    assert {"mean of last 10 %", "FedInit %", "rounds to 20 %"} <= {*re.split(r" {2,}", below)}
    assert all(line.endswith(">20") for line in lines[1:4:2])  # rounds to 90 %
    assert lines[4].startswith("FedSAM (unfinished)")
    assert "3 of 20 rounds" in lines[4]
    assert lines[5].endswith(">3")
    assert max(map(len, full.splitlines())) <= 80
    assert "rounds to" not in brief
    assert len(brief.splitlines()) == 5


def test_text_says_what_stopped_early(tmp_path):
    for seed in range(12):
        make_run(tmp_path / f"{seed}", seed=seed, done=7, stopped="no patience")
    text = str(tf_fedsam.compare(tmp_path).table())
    assert "FedAvg, seed 0, stopped early after 7 rounds: no patience" in text
    assert text.endswith("... and 2 more stopped early")
