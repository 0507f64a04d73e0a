"""Weights & Biases, with a stand-in for its package."""

import sys
import types

import pytest

from tests.runs.callbacks.under_way import UnderWay, a_record, drive
from tf_fedsam.runs.callbacks.wandb import WandB


@pytest.fixture
def begun(monkeypatch):
    """What ``wandb.init`` was given, what was logged, and how often it was finished."""
    seen = types.SimpleNamespace(options=None, logged=[], finished=0)

    def finish():
        seen.finished += 1

    def init(**options):
        seen.options = options
        log = lambda numbers, step: seen.logged.append((step, numbers["train_loss"]))  # noqa: E731
        return types.SimpleNamespace(log=log, finish=finish)

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    return seen


def test_settings_and_rounds(begun, tmp_path):
    """Also of the rounds before, so that there is no gap."""
    training = UnderWay(tmp_path / "mine", [a_record(1)], lr=0.1, hparams={"rho": 0.5})
    rounds = [a_record(2, train_loss=0.4), a_record(3, train_loss=0.3)]
    drive(WandB(project="p", mode="offline"), training, rounds)
    options = begun.options
    assert (options["project"], options["mode"], options["name"]) == ("p", "offline", "mine")
    assert (options["config"]["lr"], options["config"]["hparams.rho"]) == (0.1, 0.5)
    assert begun.logged == [(1, 0.5), (2, 0.4), (3, 0.3)]
    assert begun.finished == 1


def test_options_of_the_user_win(begun, tmp_path):
    drive(WandB(name="other"), UnderWay(tmp_path / "mine"), [])
    assert begun.options["name"] == "other"
    assert begun.options["project"] == "tf_fedsam"
