"""The results of a sweep: rows over seeds, the best of an algorithm, rounds to targets."""

import re

import pytest

from tests.sweeps.pretending import finished, reached
from tf_fedsam.sweeps import results


def test_table(tmp_path):
    """Seeds 0 and 1 of FedAvg, FedSAM 0.1, FedSAM 0.2.

    FedAvg: 0.50, 0.60: mean 55, deviation of a sample 0.1 / sqrt(2) = 7.07 %.
    FedSAM: 0.1 has 0.70, 0.74: 72 and 2.83; 0.2 has 0.90 and no second seed. Rounds 12 and 15:
    13.5 and 3 / sqrt(2) = 2.12.
    """
    cells = finished(
        tmp_path,
        [0.5, 0.7, 0.9, 0.6, 0.74, None],
        [None, reached(12), reached(3), None, reached(15), None],
        algos=["fedavg", "fedsam"],
        seeds=[0, 1],
        grid=["hparams.rho=0.1,0.2"],
        fixed={"targets": "0.7"},
    )
    table = results.table(cells)
    assert table.header == [
        *("algo", "dataset", "rho", "seeds", "last", "best", "mean of last 10"),
        "rounds to 0.7",
    ]
    # FedAvg has one setting; of FedSAM, 0.2 lacks a seed, so 0.1 is the best.
    assert table.lines == [
        ["fedavg", "glyphs", "", "2", "55.00 ± 7.07", "65.00 ± 7.07", "45.00 ± 7.07", ">20"],
        [
            *("fedsam *", "glyphs", "0.1", "2", "72.00 ± 2.83", "82.00 ± 2.83", "62.00 ± 2.83"),
            "13.5 ± 2.1",
        ],
        ["fedsam", "glyphs", "0.2", "1 of 2", "90.00", "100.00", "80.00", "3"],
    ]
    assert "chosen on test accuracy" in re.sub(r"\s+", " ", str(table))
    shown = table.html()
    assert "<td>fedsam *</td><td>glyphs</td><td>0.1</td><td>2</td><td>72.00 ± 2.83</td>" in shown
    assert shown.count("<tr>") == 4


def test_no_mean_over_the_seeds_that_got_there(tmp_path):
    """One of two seeds reached the target: 12 would make it look better than it is."""
    cells = finished(
        tmp_path,
        [0.5, 0.6],
        [reached(12), None],
        algos=["fedavg"],
        seeds=[0, 1],
        fixed={"targets": "0.7"},
    )
    assert results.table(cells).lines[0][-1] == "by 1 of 2"
    (row,) = results.rows(cells)
    assert row.as_dict([], [0.7])["rounds_to_0.7"] is None


def test_a_target_that_came_later_is_looked_up_in_the_log(tmp_path):
    """The summary knows of 0.7 alone; every round of the log has 0.5."""
    cells = finished(tmp_path, [0.5], [None], algos=["fedavg"], fixed={"targets": "0.4,0.6,0.7"})
    assert results.table(cells).lines[0][-3:] == ["1", ">20", ">20"]


def test_rows_are_plain(tmp_path):
    cells = finished(
        tmp_path,
        [0.25],
        [reached(2)],
        algos=["fedsam"],
        grid=["hparams.rho=0.1"],
        fixed={"targets": "0.7"},
    )
    (row,) = [row.as_dict(["hparams.rho"], [0.7]) for row in results.rows(cells)]
    assert row == {
        "algo": "fedsam",
        "dataset": "glyphs",
        "rho": 0.1,
        "seeds": 1,
        "missing_seeds": 0,
        "test_accuracy": 0.25,
        "test_accuracy_std": None,
        "best_test_accuracy": 0.35,
        "best_test_accuracy_std": None,
        "mean_last_10_test_accuracy": 0.15,
        "mean_last_10_test_accuracy_std": None,
        "rounds_to_0.7": 2.0,
        "rounds_to_0.7_std": None,
        "best": False,
        "best_by": "mean_last_10_test_accuracy",
    }


def test_the_best_is_chosen_within_a_problem_and_a_method(tmp_path):
    """Splits and plug-ins are compared, not tuned; the accuracies go up from cell to cell."""
    cells = finished(
        tmp_path,
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8],
        algos=["fedavg"],
        grid=["alpha=0.1,0.6", "relaxed_init=none,0.1", "lr=0.01,0.1"],
    )
    best = [row.best for row in results.rows(cells)]
    assert best == [False, True] * 4


@pytest.mark.parametrize(
    ("axis", "tuned"),
    [
        ("lr=0.1,0.2", True),
        ("hparams.rho=0.1,0.2", True),
        ("weighting=uniform,samples", True),
        ("precision=float32,bfloat16", False),
        ("nesterov=none,0.9", False),
        ("num_clients=10,20", False),
        ("participation=0.1,0.2", False),
        ("model_options.hidden_units=(3,);(4,)", False),
        ("hidden_units=3;4", False),
        ("stop_at=0.5,0.6", False),
        ("lr_schedule=cosine,constant", True),
        ("local_momentum=0.5,0.9", True),
        ("rho_schedule=linear,constant", True),
        ("holdout=0.1,0.2", False),
        ("eval_every=1,2", False),
        ("deterministic=true,false", False),
    ],
)
def test_only_what_is_tuned_has_a_best_value(tmp_path, axis, tuned):
    """What makes another problem or another method is compared; what is measured is neither."""
    cells = finished(tmp_path, [0.3, 0.4], algos=["fedsam"], grid=[axis])
    assert [row.best for row in results.rows(cells)] == [False, tuned]


def test_many_settings_show_the_best(tmp_path):
    rates = [0.01 * (i + 1) for i in range(70)]
    cells = finished(
        tmp_path,
        [0.2 + 0.001 * i for i in range(70)],
        algos=["fedavg"],
        grid=[f"lr={','.join(f'{r:g}' for r in rates)}"],
    )
    text = str(results.table(cells, "launch.report"))
    assert re.findall(r"^fedavg.*$", text, re.M) == [
        "fedavg *  glyphs   0.7  1      26.90  36.90  16.90"
    ]
    assert "launch.report has all 70 settings" in text


def held_out(cells, values):
    """Puts accuracies on held-out examples into the summaries of cells."""
    for cell, value in zip(cells, values, strict=True):
        summary = cell.run.summary()
        summary |= {"mean_last_10_validation_accuracy": value, "chosen_test_accuracy": 0.33}
        cell.run.write_summary(summary)


def test_the_best_is_chosen_on_held_out_examples_if_there_are_some(tmp_path):
    """lr=0.1 is best on test, lr=0.2 on what nobody trained on."""
    cells = finished(
        tmp_path, [0.8, 0.7], algos=["fedavg"], grid=["lr=0.1,0.2"], fixed={"holdout": 0.1}
    )
    held_out(cells, [0.5, 0.6])
    one, two = results.rows(cells)
    assert (one.best, two.best) == (False, True)
    row = two.as_dict(["lr"], [])
    assert row["mean_last_10_validation_accuracy"] == 0.6
    assert row["chosen_test_accuracy"] == 0.33
    assert row["test_accuracy"] == 0.7
    assert row["best_by"] == "mean_last_10_validation_accuracy"
    table = results.table(cells)
    assert table.header[-1] == "held out"
    assert max(map(len, str(table).splitlines())) <= 80
    assert table.lines[1] == ["fedavg *", "glyphs", "0.2", "1", "70.00", "80.00", "60.00", "60.00"]
    words = re.sub(r"\s+", " ", str(table))
    assert "Test accuracy had no part in the choice" in words
    assert "chosen on test accuracy" not in words
