"""Runs for tests, made in memory."""

from tf_fedsam.comparison.compared_run import checked
from tf_fedsam.comparison.grouping import group_runs

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
    algo="fedavg",
    seed=0,
    accuracies=(0.1, 0.2),
    *,
    data="d",
    split=None,
    complete=True,
    stopped="",
    inputs=None,
    **settings,
):
    """A run with these test accuracies; ``None`` is a round without a test."""
    settings = {
        "algo": algo,
        "dataset": "mnist",
        "seed": seed,
        "rounds": len(accuracies),
        "lr": 0.1,
        "model": "mlp",
        "hparams": {},
        "model_options": {},
        **settings,
    }
    inputs = {"data": data, "split": f"s{seed}" if split is None else split, **(inputs or {})}
    records = [record(i, a) for i, a in enumerate(accuracies, 1)]
    config = {"settings": settings, "inputs": inputs}
    return checked(f"{algo}-{seed}", config, records, complete, stopped)


def with_last(**values):
    """A run whose last round has these values, too."""
    one = run()
    records = [*one.records[:-1], {**one.records[-1], **values}]
    return checked("x", one.config, records, True)


def group(*runs):
    """The only group of these runs, of which none repeats another."""
    groups, repeated = group_runs(runs, TITLES)
    assert len(groups) == 1
    assert not repeated
    return groups[0]


def labels(*runs):
    return {series.label for series in group(*runs).series}
