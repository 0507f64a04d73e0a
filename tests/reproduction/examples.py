"""A small table and results of runs that never were."""

import pathlib

from tf_fedsam.reproduction import cells, tables
from tf_fedsam.reproduction.results import Result

TEXT = """
paper: FedSAM
number: 1
title: a small one
statistic: test_accuracy
cell: [accuracy, sd, rounds]
unit: percent
seeds: [0, 1]
open: [everything]
assumed: [something]
settings: {model: linear, rounds: 7, num_clients: 5, participation: 0.4}
columns:
  plain: {dataset: glyphs, settings: {partition: iid}, target: 0.5}
  mixed: {dataset: glyphs, settings: {partition: dirichlet, alpha: 0.3}, target: 0.5, seeds: [0]}
rows:
  FedAvg: {algo: fedavg}
  FedSAM: {algo: fedsam, hparams.rho: 0.05}
  FedCM: {algo: fedcm}
  Best: {best_of: {FedLESAM: {algo: fedlesam}, SCAFFOLD: {algo: scaffold}}}
beyond:
  FedInit: {algo: fedinit}
printed:
  FedAvg: {plain: [60.0, 0.5, 30], mixed: [50.0, null, ">7"]}
  FedSAM: {plain: [62.0, 0.4, 20], mixed: [52.0, null, ">R"]}
  FedCM: {plain: [64.0, 0.1, 10], mixed: [null, null, null]}
  Best: {plain: [66.0, 0.1, 5], mixed: [56.0, null, 6]}
suspect:
  - {rows: [FedCM], columns: [plain, mixed], reason: it is too good}
"""


def small_table(folder: pathlib.Path, text: str = TEXT) -> tables.Table:
    path = folder / "fedsam_table1.yaml"
    path.write_text(text)
    return tables.read.__wrapped__(path)


def result(place: cells.Place, accuracy: float, round_num: int | None = None) -> Result:
    """Of a run that reached the target in this round, or did not."""
    cost = None if round_num is None else {"round": round_num, "seconds": 2.0 * round_num}
    summary = {
        "rounds": 7,
        "seconds": 21.0,
        "test_accuracy": accuracy,
        "best_test_accuracy": accuracy + 0.05,
        "mean_last_10_test_accuracy": accuracy - 0.05,
        "targets": {"0.5": cost},
    }
    last = {
        "client_train_accuracy_mean": accuracy + 0.1,
        "client_train_accuracy_std": 0.02,
        "client_test_accuracy_mean": accuracy - 0.1,
        "client_test_accuracy_std": 0.03,
    }
    return Result(place.cell.resolved.as_dict(), summary, last, {"revision": "abc"})
