"""What loggers that send numbers elsewhere share."""

import json
import sys

import pytest

import tf_fedsam
from tests.runs.callbacks.under_way import a_record
from tf_fedsam.errors import InputError
from tf_fedsam.runs.callbacks import trackers


def test_a_package_that_is_there():
    assert trackers.load("json", "JSON") is json


@pytest.mark.parametrize(
    ("package", "logger"), [("wandb", tf_fedsam.WandB), ("mlflow", tf_fedsam.MLflow)]
)
def test_not_installed(package, logger, monkeypatch):
    """Told before anything is trained."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=f"{logger.__name__} needs the package {package}, which"):
        logger()


def test_numbers():
    """Truths are 0 and 1; the round is the step; what is no number is not sent."""
    record = a_record(3, skipped=True, train_loss=None, lr=0.5, clients=7, note="x")
    assert trackers.numbers(record) == {"skipped": 1.0, "seconds": 0.25, "lr": 0.5, "clients": 7.0}


def test_flat_settings():
    settings = {"lr": 0.1, "hparams": {"rho": 0.5, "server": "e"}, "model_options": {}}
    assert trackers.flat(settings) == {"lr": 0.1, "hparams.rho": 0.5, "hparams.server": "e"}
