"""MLflow, with a stand-in for its package."""

import sys
import types

import pytest

from tests.runs.callbacks.under_way import UnderWay, a_record, drive
from tf_fedsam.runs.callbacks.mlflow import MLflow

CALLS = ("set_experiment", "start_run", "log_params", "log_metrics", "end_run")


@pytest.fixture
def calls(monkeypatch):
    """All calls of MLflow, in order."""
    made = []
    fake = {n: lambda *a, _n=n, **k: made.append((_n, a, k)) for n in CALLS}
    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(**fake))
    return made


def test_settings_and_rounds(calls, tmp_path):
    """Also of the rounds before, so that there is no gap."""
    training = UnderWay(tmp_path / "mine", [a_record(1)], hparams={"rho": 0.5})
    drive(MLflow(), training, [a_record(2, train_loss=0.4)])
    assert [name for name, *_ in calls] == [*CALLS[:3], "log_metrics", "log_metrics", "end_run"]
    assert calls[0][1] == ("tf_fedsam",)
    assert calls[1][2] == {"run_name": "mine"}
    assert calls[2][1][0]["hparams.rho"] == 0.5
    losses = [(options["step"], given[0]["train_loss"]) for _, given, options in calls[3:5]]
    assert losses == [(1, 0.5), (2, 0.4)]


def test_options_of_the_user_win(calls, tmp_path):
    drive(MLflow("mine", run_name="other", nested=True), UnderWay(tmp_path), [])
    assert calls[0][1] == ("mine",)
    assert calls[1][2] == {"run_name": "other", "nested": True}
