"""The results of a run from its log: final accuracies and what it took to reach a target."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

COSTS = (
    *("bytes_down", "bytes_up", "vectors_down", "vectors_up"),
    *("gradient_evaluations", "seconds"),
)
OF_PLUG_INS = ("test_accuracy_last", "test_loss_last", "epsilon")  # with server SWA, with privacy
FILTER_WIDTH = 5
LAST_ROUNDS = 50

Record = Mapping[str, Any]


def summarise(records: Sequence[Record], targets: Sequence[float] = ()) -> dict[str, Any]:
    """The results of a run whose last round was tested.

    Args:
        records: the rounds of the log.
        targets: test accuracies; what it took to reach each of them is given, too.
    """
    tested = [r for r in records if r.get("test_accuracy") is not None]
    accuracies = np.asarray([r["test_accuracy"] for r in tested])
    best = int(np.argmax(accuracies))
    return {
        "rounds": records[-1]["round"],
        "test_accuracy": tested[-1]["test_accuracy"],
        "test_loss": tested[-1]["test_loss"],
        "best_test_accuracy": tested[best]["test_accuracy"],
        "best_round": tested[best]["round"],
        "mean_last_10_test_accuracy": float(accuracies[-10:].mean()),
        "fedinit_test_accuracy": fedinit_statistic(records),
        "train_loss": records[-1]["train_loss"],
        "failed_reports": sum(len(r["failed_client_ids"]) for r in records),
        "skipped_rounds": sum(r["skipped"] for r in records),
        **held_out(records),
        **{name: tested[-1][name] for name in OF_PLUG_INS if name in tested[-1]},
        **costs(records),
        "eval_seconds": sum(r.get("eval_seconds", 0) for r in records),
        "targets": {f"{target:g}": cost_to(records, target) for target in targets},
    }


def held_out(records: Sequence[Record]) -> dict[str, Any]:
    """The results on held-out training examples; nothing if there are none.

    ``chosen_test_accuracy`` is the test accuracy of the round that was best on them: choosing a
    round by test accuracy itself, as ``best_test_accuracy`` does, is optimistic.
    """
    tested = [r for r in records if r.get("validation_accuracy") is not None]
    if not tested:
        return {}
    accuracies = np.asarray([r["validation_accuracy"] for r in tested])
    best = tested[int(np.argmax(accuracies))]
    return {
        "validation_accuracy": tested[-1]["validation_accuracy"],
        "validation_loss": tested[-1].get("validation_loss"),
        "best_validation_accuracy": best["validation_accuracy"],
        "mean_last_10_validation_accuracy": float(accuracies[-10:].mean()),
        "chosen_round": best["round"],
        "chosen_test_accuracy": best.get("test_accuracy"),
    }


def costs(records: Sequence[Record]) -> dict[str, Any]:
    """What some rounds cost together."""
    return {name: sum(r.get(name, 0) for r in records) for name in COSTS}


def with_totals(record: Record, earlier: Sequence[Record]) -> dict[str, Any]:
    """The record with the costs of all rounds up to it, given the records of the earlier ones."""
    last = earlier[-1] if earlier else {}
    if all(f"{name}_total" in last for name in COSTS):
        before = {name: last[f"{name}_total"] for name in COSTS}
    else:
        before = costs(earlier)
    return {**record, **{f"{name}_total": record[name] + before[name] for name in COSTS}}


def cost_to(records: Sequence[Record], target: float) -> dict[str, Any] | None:
    """The first tested round with at least this test accuracy and the costs up to it."""
    for index, record in enumerate(records):
        accuracy = record.get("test_accuracy")
        if accuracy is not None and accuracy >= target:
            return {"round": record["round"], **costs(records[: index + 1])}
    return None


def fedinit_statistic(records: Sequence[Record]) -> float | None:
    """The best smoothed test accuracy of the last 50 rounds, as the FedInit paper reports it.

    The curve of all tests is smoothed with a box filter, without padding, and a smoothed value
    belongs to the last of its tests. The paper gives no width; 5 here. ``None`` without five
    tests, or if the last of them is longer ago.
    """
    tested = [r for r in records if r.get("test_accuracy") is not None]
    if len(tested) < FILTER_WIDTH:
        return None
    box = np.full(FILTER_WIDTH, 1 / FILTER_WIDTH)
    smooth = np.convolve([r["test_accuracy"] for r in tested], box, mode="valid")
    rounds = np.asarray([r["round"] for r in tested[FILTER_WIDTH - 1 :]])
    recent = smooth[rounds > records[-1]["round"] - LAST_ROUNDS]
    return float(recent.max()) if recent.size else None
