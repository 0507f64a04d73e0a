"""The results of a run, from logs written by hand."""

import pytest

from tf_fedsam.analysis.results import COSTS, cost_to, fedinit_statistic, summarise, with_totals


def log(accuracies, **changes):
    """Rounds with these test accuracies, ``None`` for a round that was not tested."""
    records = []
    for number, accuracy in enumerate(accuracies, 1):
        record = {
            "round": number,
            "train_loss": 1 / number,
            "failed_client_ids": [7] if number == 2 else [],
            "skipped": number == 3,
            **{name: 10**power * number for power, name in enumerate(COSTS)},
            **changes,
        }
        if accuracy is not None:
            record |= {"test_accuracy": accuracy, "test_loss": 1 - accuracy, "eval_seconds": 0.5}
        records.append(with_totals(record, records))
    return records


def test_final_numbers():
    summary = summarise(log([0.1, 0.6, None, 0.3, 0.5]))
    assert summary["rounds"] == 5
    assert summary["test_accuracy"] == 0.5
    assert summary["test_loss"] == 0.5
    assert (summary["best_test_accuracy"], summary["best_round"]) == (0.6, 2)
    assert summary["mean_last_10_test_accuracy"] == pytest.approx(1.5 / 4)
    assert summary["fedinit_test_accuracy"] is None  # four tests are too few for the filter
    assert summary["failed_reports"] == 1
    assert summary["skipped_rounds"] == 1
    assert summary["eval_seconds"] == 2.0
    assert summary["targets"] == {}
    for power, name in enumerate(COSTS):
        assert summary[name] == 15 * 10**power  # 1 + 2 + 3 + 4 + 5


def test_numbers_of_plug_ins():
    """Those of the last test, if it has them."""
    records = log([0.1, 0.6])
    records[0] |= {"epsilon": 1.0, "test_accuracy_last": 0.2}
    assert "epsilon" not in summarise(records)
    records[1] |= {"epsilon": None, "test_accuracy_last": 0.4, "test_loss_last": 2.0}
    summary = summarise(records)
    assert (summary["test_accuracy"], summary["test_accuracy_last"]) == (0.6, 0.4)
    assert summary["test_loss_last"] == 2.0
    assert summary["epsilon"] is None  # infinite


def test_mean_of_the_last_ten_tests():
    summary = summarise(log([0.9] * 3 + [0.1] * 10))
    assert summary["mean_last_10_test_accuracy"] == pytest.approx(0.1)


def test_totals():
    records = log([0.1, 0.2, 0.3])
    for power, name in enumerate(COSTS):
        assert [r[f"{name}_total"] for r in records] == [n * 10**power for n in (1, 3, 6)]


def test_totals_after_rounds_without():
    records = log([0.1, 0.2])
    bare = [{k: v for k, v in r.items() if not k.endswith("_total")} for r in records]
    third = with_totals(dict.fromkeys(COSTS, 10), bare)
    assert third["bytes_down_total"] == 1 + 2 + 10


def test_cost_to_a_target():
    records = log([0.1, None, 0.7, 0.6, 0.8])
    reached = cost_to(records, 0.65)
    assert reached["round"] == 3
    assert reached["bytes_down"] == 1 + 2 + 3
    assert reached["seconds"] == 10**5 * 6
    assert cost_to(records, 0.7)["round"] == 3  # reached is enough
    assert cost_to(records, 0.81) is None
    summary = summarise(records, (0.65, 0.81))
    assert summary["targets"] == {"0.65": reached, "0.81": None}


def test_fedinit_statistic():
    """Means of five: 0.2, 0.3, 0.4, 0.3."""
    curve = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, -0.3]
    assert fedinit_statistic(log(curve)) == pytest.approx(0.4)
    assert fedinit_statistic(log(curve[:4])) is None


def test_fedinit_statistic_looks_at_the_last_fifty_rounds():
    """A peak that leaves the filter in round 9 is forgotten from round 59 on."""
    curve = [0.0] * 4 + [1.0] + [0.0] * 60
    assert fedinit_statistic(log(curve[:58])) == pytest.approx(0.2)
    assert fedinit_statistic(log(curve[:59])) == 0
    assert fedinit_statistic(log([0.5] * 5 + [None] * 60)) is None
    rare = [a if i % 10 == 0 else None for i, a in enumerate(curve, 1)]
    assert fedinit_statistic(log(rare)) == 0


def test_held_out_examples_choose_the_round():
    """Round 2 is best on them, round 3 on test: what is reported of the choice is round 2's."""
    records = log([0.5, 0.4, 0.9], validation_loss=2.0)
    for record, held in zip(records, (0.3, 0.6, 0.5), strict=True):
        record["validation_accuracy"] = held
    found = summarise(records)
    assert found["validation_accuracy"] == 0.5
    assert found["validation_loss"] == 2.0
    assert found["best_validation_accuracy"] == 0.6
    assert (found["chosen_round"], found["chosen_test_accuracy"]) == (2, 0.4)
    assert found["mean_last_10_validation_accuracy"] == pytest.approx(1.4 / 3)
    assert found["best_test_accuracy"] == 0.9


def test_without_held_out_examples_nothing_is_told_of_them():
    found = summarise(log([0.5]))
    assert not [name for name in found if "validation" in name or "chosen" in name]
