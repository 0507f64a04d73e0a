"""Seconds a round, printed beside measured."""

import json

import pytest

import tasks  # noqa: F401  makes the data sets known
from tests.reproduction.examples import small_table
from tf_fedsam.errors import InputError
from tf_fedsam.reproduction import round_costs

TEXT = """
paper: FedInit
number: 7
title: a small one
statistic: test_accuracy
cell: [seconds]
unit: percent
seeds: [0]
open: []
assumed: []
settings: {model: linear, rounds: 7, num_clients: 5, participation: 0.4}
columns:
  A: {dataset: glyphs, settings: {partition: iid}}
  accuracy: {dataset: glyphs, settings: {partition: iid}, cell: [accuracy]}
rows:
  FedAvg: {algo: fedavg}
  FedSAM: {algo: fedsam, hparams.rho: 0.05}
  FedCM: {algo: fedcm}
  SCAFFOLD: {algo: scaffold}
  FedDyn: {algo: feddyn}
  FedAdam: {algo: fedadam}
printed:
  FedAvg: {A: 20, accuracy: 1}
  FedSAM: {A: 30}
  FedCM: {A: 21}
  SCAFFOLD: {A: 28}
  FedDyn: {A: null}
  FedAdam: {A: 22}
suspect:
  - {rows: [SCAFFOLD], columns: [A], reason: hard to read}
"""
ROWS = [
    ["fedavg", "1", "1.00", "1.00"],
    ["fedsam", "2", "2.10", "1.90"],
    ["fedcm", "1", "1.20", "1.00"],
    ["scaffold", "1", "1.10", "1.40"],
    ["feddyn", "1", "1.30", "1.10"],
]


def bench(rows=ROWS, header=("W1: x FedAvg", "W4: x FedAvg")):
    """What launch.bench writes."""
    return {
        "command": "python -m launch.bench --algorithms",
        "version": "1",
        "tensorflow": "2.20.0",
        "cores": 2,
        "tables": {"algorithms": {"header": ["method", "gradients a step", *header], "rows": rows}},
    }


def told(tmp_path, content, column="A"):
    table = small_table(tmp_path, TEXT)
    path = tmp_path / "kept.json"
    path.write_text(json.dumps(content))
    measured = round_costs.read(path)
    return round_costs.markdown(table, table.columns[column], measured, "costs/kept.json")


def test_a_table(tmp_path):
    """FedAdam is not measured, FedDyn not printed. Seconds over 20: 1.5, 1.05, 1.4 and 1.1."""
    heading, _, header, _, *lines = told(tmp_path, bench()).splitlines()
    assert heading == "#### fedsam_table1: A"
    assert header == (
        "| method | printed, s | printed / FedAvg | W1 / FedAvg | W4 / FedAvg | gradients a step |"
    )
    assert lines[:7] == [
        "| FedAvg | 20 | 1.00 | 1.00 | 1.00 | 1 |",
        "| FedSAM | 30 | 1.50 | 2.10 | 1.90 | 2 |",
        "| FedCM | 21 | 1.05 | 1.20 | 1.00 | 1 |",
        "| SCAFFOLD (suspect) | 28 | 1.40 | 1.10 | 1.40 | 1 |",
        "| FedDyn | - | - | 1.30 | 1.10 | 1 |",
        "| FedAdam | 22 | 1.10 | not measured | not measured | - |",
        "",
    ]
    assert lines[7] == "- SCAFFOLD, suspect: hard to read."
    assert lines[-1] == (
        "Measured by `python -m launch.bench --algorithms` (2 cores, TensorFlow 2.20.0), kept in "
        "[`costs/kept.json`](costs/kept.json)."
    )


def test_order(tmp_path):
    """Printed ranks 1, 4, 2, 3. W1 has 1, 4, 3, 2: 1 - 6 * 2 / (4 * 15) = 0.8. W4 has FedAvg and
    FedCM alike: 1.5, 4, 1.5, 3, whose correlation is 4.5 / sqrt(5 * 4.5) = 0.95. Differences on
    W1: 0, 0.6, 0.15, -0.3, on W4: 0, 0.4, -0.05, 0."""
    w1, w4 = [line for line in told(tmp_path, bench()).splitlines() if line.startswith("- W")]
    assert w1.startswith(
        "- W1: 4 methods with both ratios; measured minus printed is +0.11 on average, and "
        "largest for FedSAM (+0.60); rank correlation 0.80 (95 % of resamplings"
    )
    assert "+0.09 on average, and largest for FedSAM (+0.40); rank correlation 0.95" in w4


def test_three_methods_have_no_order(tmp_path):
    said = told(tmp_path, bench(ROWS[:3]))
    assert "- W1: 3 methods with both ratios" in said
    assert "rank correlation" not in said


def test_nothing_is_kept(tmp_path):
    table = small_table(tmp_path, TEXT)
    measured = round_costs.read(tmp_path / "nothing.json")
    said = round_costs.markdown(table, table.columns["A"], measured, "nothing.json")
    assert said == "#### fedsam_table1: A\n\nNot measured.\n"


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"tables": {}},
        bench(header=("W1", "W4: x FedAvg")),
        bench([["fedavg", "1", "1.00"]]),
        bench([["fedavg", "1", "fast", "1.00"]]),
        bench(header=(1, 2)),
    ],
)
def test_other_files_are_refused(tmp_path, content):
    with pytest.raises(InputError, match="has no costs of methods"):
        told(tmp_path, content)


def test_a_column_of_something_else_is_refused(tmp_path):
    with pytest.raises(InputError, match="does not hold seconds a round"):
        told(tmp_path, bench(), "accuracy")
