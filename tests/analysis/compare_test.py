"""Series, groups, statistics over seeds, costs to targets and curves."""

import math

import numpy as np
import pytest

from tests.launch.fake_runs import make_config, make_records
from tf_fedsam.analysis import compare
from tf_fedsam.errors import InputError

TITLES = {"fedavg": "FedAvg", "fedsam": "FedSAM"}


def record(index, accuracy=None, **more):
    """A round that costs 10 bytes each way, 3 gradients and half a second."""
    tested = {} if accuracy is None else {"test_accuracy": accuracy, "test_loss": 1.0}
    return {
        "round": index,
        "train_loss": 1.0,
        "failed_client_ids": [],
        "skipped": False,
        "bytes_down": 10,
        "bytes_up": 10,
        "gradient_evaluations": 3,
        "seconds": 0.5,
        **tested,
        **more,
    }


def run(
    algo="fedavg", seed=0, accuracies=(0.1, 0.2), *, data="d", split=None, complete=True, **more
):
    """A run with these test accuracies; ``None`` is a round without a test."""
    settings = {
        "algo": algo,
        "dataset": "mnist",
        "seed": seed,
        "rounds": more.pop("rounds", len(accuracies)),
        "lr": 0.1,
        "model": "mlp",
        "hparams": more.pop("hparams", {}),
        "model_options": {},
        **more,
    }
    inputs = {"data": data, "split": f"s{seed}" if split is None else split}
    records = [record(i, a) for i, a in enumerate(accuracies, 1)]
    name = f"{algo}-{seed}"
    return compare.make_run(name, {"settings": settings, "inputs": inputs}, records, complete)


def group(*runs):
    groups, repeated = compare.group_runs(runs, TITLES)
    assert len(groups) == 1
    assert not repeated
    return groups[0]


def labels(*runs):
    return {series.label for series in group(*runs).series}


@pytest.mark.parametrize(
    ("degrees", "value"),
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (9, 2.262),
        (10, 2.228),
        (30, 2.042),
        (120, 1.980),
    ],
)
def test_t_quantile_of_the_textbook(degrees, value):
    assert compare.t_quantile(0.975, degrees) == pytest.approx(value, abs=5e-4)


def test_t_quantile_elsewhere():
    assert compare.t_quantile(0.95, 10) == pytest.approx(1.812, abs=5e-4)
    assert compare.t_quantile(0.995, 1) == pytest.approx(math.tan(math.pi * 0.495))  # Cauchy
    assert compare.t_quantile(0.5, 3) == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match="at least 1 degree"):
        compare.t_quantile(0.975, 0)


def test_spread():
    """Of 1, 2, 4: mean 7/3, variance (16 + 1 + 25) / 9 / 2 = 7/3."""
    found = compare.spread([1, 2, 4])
    assert (found.mean, found.std, found.n) == pytest.approx((7 / 3, math.sqrt(7 / 3), 3))
    assert compare.spread([0.5]).std is None
    assert compare.spread([]) is None
    assert compare.spread([0.5, None]) is None


def test_difference_is_taken_pair_by_pair():
    """0.1, 0.05, 0.15 over the common keys: std 0.05, so half is 4.3027 * 0.05 / sqrt(3)."""
    found = compare.difference({0: 0.5, 1: 0.6, 2: 0.7, 8: 0.0}, {2: 0.55, 1: 0.55, 0: 0.4, 9: 1.0})
    assert found.mean == pytest.approx(0.1)
    assert found.half == pytest.approx(4.302653 * 0.05 / math.sqrt(3), rel=1e-6)
    assert found.n == 3
    assert not found.is_evidence  # 0.124 > 0.1
    assert compare.difference({0: 0.5, 1: 0.6}, {0: 0.4, 1: 0.4999}).is_evidence


def test_a_single_pair_has_no_interval():
    found = compare.difference({0: 0.5, 1: 0.9}, {0: 0.4})
    assert (found.mean, found.half, found.n) == (pytest.approx(0.1), None, 1)
    assert not found.is_evidence
    assert compare.difference({0: 0.5}, {1: 0.4}) is None
    assert compare.difference({0: None}, {0: 0.4}) is None


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
        "output_dir": "x",
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
    assert max(map(len, found)) <= compare.LONGEST_LABEL + 3


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
    groups, _ = compare.group_runs(runs, TITLES)
    assert [[s.label for s in g.series] for g in groups] == [["FedAvg"], ["FedSAM"]]


def test_data_that_depend_on_the_seed_are_one_problem():
    runs = [run(algo, seed, data=f"subset{seed}") for algo in TITLES for seed in (0, 1)]
    found = group(*runs)
    assert found.data_depend_on_seed
    assert [s.seeds for s in found.series] == [[0, 1], [0, 1]]
    groups, _ = compare.group_runs([*runs, run("fedprox", 0, data="other")], TITLES)
    assert [len(g.runs) for g in groups] == [4, 1]


def test_only_the_same_split_is_a_pair():
    """Seed 1 was split by other code: 0.3 - 0.1 of seed 0 is all that can be compared."""
    found = group(
        run("fedavg", 0, (0.1,)), run("fedavg", 1, (0.1,)),
        run("fedsam", 0, (0.3,)), run("fedsam", 1, (0.9,), split="other"),
    )  # fmt: skip
    sam, avg = found.series
    difference = sam.difference(avg, "test_accuracy")
    assert (difference.mean, difference.n) == (pytest.approx(0.2), 1)


def test_repeated_runs_are_left_out_and_told():
    first, again = run(seed=0), run(seed=0)
    going = run(seed=0, accuracies=(0.1,), rounds=2, complete=False)
    groups, repeated = compare.group_runs([going, first, again], TITLES)
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


def test_the_best_series_is_first():
    found = group(run("fedavg", 0, (0.9, 0.1)), run("fedsam", 0, (0.1, 0.2)))
    assert [s.label for s in found.series] == ["FedSAM", "FedAvg"]
    assert found.tuned == []
    assert group(run(lr=0.1), run(lr=0.2)).tuned == ["fedavg"]


def test_baseline():
    found = group(
        run("fedavg", 0, (0.1,), lr=0.1),
        run("fedavg", 0, (0.2,), lr=0.2),
        run("fedsam", 0, (0.3,), lr=0.1),
    )
    label = lambda wanted: compare.baselines([found], wanted, "fedavg")[0].label  # noqa: E731
    assert label(None) == "FedAvg lr=0.2"  # the better of two
    assert label("fedavg lr=0.1") == "FedAvg lr=0.1"
    assert label("FedSAM") == "FedSAM lr=0.1"
    with pytest.raises(InputError, match="Did you mean 'fedavg'"):
        label("fedagv")
    others = group(run("fedsam"), run("fedprox"))
    assert compare.baselines([others], None, "fedavg")[0].label == "FedSAM"  # F before f
    going = group(run(accuracies=(0.1,), rounds=2, complete=False))
    assert compare.baselines([going], None, "fedavg") == [None]


def test_cost_to_a_target():
    """Reached after rounds 2 and 3: 40 and 60 bytes, 6 and 9 gradients."""
    runs = [run(seed=0, accuracies=(0.1, 0.6, 0.5)), run(seed=1, accuracies=(0.1, 0.2, 0.6))]
    found = compare.reached(runs, 0.6)
    assert (found.num_reached, found.n) == (2, 2)
    means = {name: spread.mean for name, spread in found.costs.items()}
    assert means == {
        "round": 2.5,
        "bytes": 50,
        "bytes_down": 25,
        "bytes_up": 25,
        "gradient_evaluations": 7.5,
        "seconds": 1.25,
    }  # no vectors: the log has none
    assert found.costs["round"].std == pytest.approx(math.sqrt(0.5))


def test_a_target_that_some_seeds_miss_has_no_mean():
    runs = [run(seed=0, accuracies=(0.7,)), run(seed=1, accuracies=(0.1,))]
    found = compare.reached(runs, 0.5)
    assert (found.num_reached, found.n, found.costs) == (1, 2, {})


def test_common_target():
    """The worst run had 0.57 at its best."""
    assert compare.common_target(group(run("fedsam", 0, (0.9,)), run("fedavg", 0, (0.57,)))) == 0.55
    assert compare.common_target(group(run(accuracies=(0.15,)))) == 0.15
    assert compare.common_target(group(run(accuracies=(0.04,)))) is None


def test_curves_are_means_where_all_seeds_have_a_value():
    runs = [
        run(seed=0, accuracies=(0.1, None, 0.3, 0.5)),
        run(seed=1, accuracies=(0.3, 0.4, 0.7, None)),
    ]
    found = compare.curve(runs, "test_accuracy")
    assert found.x.tolist() == [1, 3]
    assert found.mean == pytest.approx([0.2, 0.5])
    assert found.std == pytest.approx([math.sqrt(0.02), math.sqrt(0.08)])
    assert compare.curve(runs[:1], "test_accuracy").std is None
    assert compare.curve(runs, "sharpness") is None


def test_curves_over_costs():
    """20 bytes and half a second a round."""
    runs = [run(accuracies=(0.1, None, 0.3))]
    assert compare.curve(runs, "test_accuracy", "bytes").x.tolist() == [20, 60]
    assert compare.curve(runs, "test_accuracy", "seconds").x.tolist() == [0.5, 1.5]
    assert compare.curve(runs, "test_accuracy", "vectors") is None
    assert compare.total(runs[0], "bytes") == 60
    assert compare.total(runs[0], "gradient_evaluations") == 9


def with_last(**values):
    one = run()
    return compare.make_run(
        "x", one.config, [*one.records[:-1], {**one.records[-1], **values}], True
    )


def test_clients():
    name = "client_train_accuracy"
    runs = [
        with_last(**{f"{name}_mean": m, f"{name}_std": 0.1, f"{name}_histogram": h})
        for m, h in ((0.4, [1, 3]), (0.6, [20, 20]))
    ]
    found = compare.clients(runs, "train")
    assert (found.mean, found.std, found.worst_decile) == (
        pytest.approx(0.5),
        pytest.approx(0.1),
        None,
    )
    assert found.histogram.tolist() == [0.375, 0.625]  # (1/4 + 1/2) / 2
    assert compare.clients(runs, "validation") is None
    broken = with_last(**{f"{name}_mean": 0.4, f"{name}_histogram": [1, "x"]})
    assert compare.clients([broken], "train").histogram is None


def test_confusion():
    runs = [with_last(confusion=[[3, 1], [0, 4]]), with_last(confusion=[[4, 0], [2, 2]])]
    assert compare.confusion(runs).tolist() == [[7, 1], [2, 6]]
    assert compare.most_confused(compare.confusion(runs)) == [(1, 0, 0.25), (0, 1, 0.125)]
    assert compare.most_confused(np.eye(2)) == []
    for wrong in (
        [[1, 2]],
        [[1], [2, 3]],
        [[-1, 0], [0, 1]],
        "x",
        None,
        [[math.nan] * 2] * 2,
        {"a": 1},
    ):
        assert compare.confusion([with_last(confusion=wrong)]) is None


def test_class_counts():
    config = make_config("fedavg", 0, 2, "d", 30, {}, plain=False)
    records = make_records("fedavg", 0, 2, 2, 0, None, 30, plain=False)
    found = compare.class_counts(compare.make_run("x", config, records, True))
    assert found.shape == (30, 10)
    assert found.sum() == 30 * 200
    assert compare.class_counts(run()) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"test_accuracy": "0.5"}, "round 1 of its log has test_accuracy = '0.5'"),
        ({"test_accuracy": 1.5}, "no test accuracy in"),
        ({"test_accuracy": None}, "no tested round yet"),
        ({"bytes_up": None}, "has bytes_up = None"),
        ({"seconds": -1}, "has seconds = -1"),
        ({"seconds": math.inf}, "has seconds = inf"),
        ({"train_loss": [1]}, "has train_loss"),
        ({"failed_client_ids": 3}, "failed_client_ids"),
    ],
)
def test_changed_logs_are_refused(change, words):
    config = run().config
    with pytest.raises(InputError) as error:
        compare.make_run("x", config, [{**record(1, 0.5), **change}], True)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "change", [{"algo": None}, {"seed": "0"}, {"rounds": None}, {"hparams": 3}]
)
def test_changed_settings_are_refused(change):
    config = {"settings": {**run().settings, **change}, "inputs": {}}
    with pytest.raises(InputError, match=f"setting {next(iter(change))}"):
        compare.make_run("x", config, [record(1, 0.5)], True)


def test_numbers():
    assert compare.number(3) == 3.0
    for wrong in (True, "3", None, math.nan, math.inf, 10**400, [1]):
        assert compare.number(wrong) is None
