"""Runs put into series and groups, and their names."""

import pytest

from tests.comparison.runs import TITLES, group, labels, run
from tf_fedsam.comparison.grouping import LONGEST_LABEL, group_runs, told_apart


def test_series_are_everything_but_the_seed():
    found = group(
        run(seed=1),
        run(seed=0),
        run("fedsam", 0, hparams={"rho": 0.1}),
        run("fedsam", 1, hparams={"rho": 0.1}),
    )
    assert {s.label: s.seeds for s in found.series} == {"FedAvg": [0, 1], "FedSAM": [0, 1]}


def test_logging_does_not_make_a_series():
    quiet = {
        "devices": "cpu:1",
        "eval_every": 2,
        "probe_every": 5,
        "targets": "",
    }
    assert group(run(seed=0), run(seed=1, **quiet)).series[0].seeds == [0, 1]


def test_labels_have_what_differs_and_no_more():
    same = {"rho": 0.1, "beta": 0.3}
    assert labels(run(), run("fedsam", hparams=same)) == {"FedAvg", "FedSAM"}
    assert labels(
        run(), run("fedsam", hparams=same), run("fedsam", hparams=same | {"rho": 0.5})
    ) == {"FedAvg", "FedSAM rho=0.1", "FedSAM rho=0.5"}
    assert labels(run(lr=0.1), run("fedsam", lr=0.3)) == {"FedAvg lr=0.1", "FedSAM lr=0.3"}
    assert labels(run(relaxed_init=None), run(relaxed_init=0.1)) == {
        "FedAvg",
        "FedAvg relaxed_init=0.1",
    }
    assert labels(run("dir/own.py:Mine")) == {"Mine"}


def test_whole_numbers_are_equal_however_they_are_written():
    assert group(run(seed=0, lr=1), run(seed=1, lr=1.0)).series[0].seeds == [0, 1]


def test_labels_are_one_line_of_harmless_characters_and_unique():
    found = labels(run("a\n\x1b[31mb"), run("x" * 200 + "1"), run("x" * 200 + "2"))
    assert "a \ufffd[31mb" in found
    assert len(found) == 3
    assert max(map(len, found)) <= LONGEST_LABEL + 3


@pytest.mark.parametrize(
    "other",
    [
        {"dataset": "emnist"},
        {"alpha": 0.1},
        {"model": "cnn"},
        {"model_options": {"hidden_units": [9]}},
        {"rounds": 3, "accuracies": (0.1, 0.2, 0.3)},
        {"data": "changed"},
    ],
)
def test_another_problem_is_another_group(other):
    runs = [run(seed=0), run(seed=1), run("fedsam", 0, **other), run("fedsam", 1, **other)]
    groups, _ = group_runs(runs, TITLES)
    assert [[s.label for s in g.series] for g in groups] == [["FedAvg"], ["FedSAM"]]


def test_data_that_depend_on_the_seed_are_one_problem():
    runs = [run(algo, seed, data=f"subset{seed}") for algo in TITLES for seed in (0, 1)]
    found = group(*runs)
    assert found.data_depend_on_seed
    assert [s.seeds for s in found.series] == [[0, 1], [0, 1]]
    groups, _ = group_runs([*runs, run("fedprox", 0, data="other")], TITLES)
    assert [len(g.runs) for g in groups] == [4, 1]


def test_repeated_runs_are_left_out_and_told():
    first, again = run(seed=0), run(seed=0)
    going = run(seed=0, accuracies=(0.1,), rounds=2, complete=False)
    groups, repeated = group_runs([going, first, again], TITLES)
    assert [s.runs for s in groups[0].series] == [(first,)]
    assert repeated == [(again, first), (going, first)]


def test_unfinished_runs_are_a_series_of_their_own_up_to_the_last_test():
    going = run(seed=1, accuracies=(0.9, 0.95, None), rounds=9, complete=False)
    found = group(run(seed=0, accuracies=(0.1,) * 9), going)
    assert [(s.label, s.complete) for s in found.series] == [
        ("FedAvg", True),
        ("FedAvg (unfinished)", False),
    ]
    assert len(found.series[1].runs[0].records) == 2
    assert found.complete == [found.series[0]]


def test_problems_are_told_apart_by_what_differs():
    runs = [run(participation=0.1), run("fedsam", participation=0.5), run(model_options={"a": 2})]
    groups, _ = group_runs(runs, TITLES)
    assert told_apart(groups) == ["participation=0.1", "participation=0.5", "a=2"]
    groups, _ = group_runs([run(seed=s, data=d) for s, d in ((0, "d"), (1, "d"), (2, "e"))], TITLES)
    assert told_apart(groups) == ["data 1", "data 2"]
