"""Where data sets are found by name."""

import numpy as np
import pytest

import tasks  # noqa: F401  makes the data sets known
import tf_fedsam
from tf_fedsam.errors import InputError
from tf_fedsam.runs import task as contract
from tf_fedsam.runs.task import Loaded, Task


def squares(request) -> Loaded:
    """Two classes that a linear model tells apart."""
    x = np.random.default_rng(request.seed).normal(size=(60, 3)).astype(np.float32)
    examples = tf_fedsam.Examples(x, (x[:, 0] > 0).astype(np.int64))
    train, test = (
        tf_fedsam.Examples(examples.x[part], examples.y[part])
        for part in (slice(40), slice(40, None))
    )
    return Loaded(train, test, ("low", "high"), tf_fedsam.Preprocess(), "drawn by the test")


SQUARES = Task("squares", "Squares", squares, settings={"model": "linear", "num_clients": 4})


def test_the_data_sets_of_a_package():
    assert "tasks.registry" in contract.registered()
    assert contract.find("glyphs").name == "glyphs"
    with pytest.raises(InputError, match="Did you mean 'glyphs'"):
        contract.find("glyph")


def test_nothing_is_known(monkeypatch):
    monkeypatch.setattr(contract, "_registries", [])
    with pytest.raises(InputError, match="import tasks"):
        contract.find("glyphs")


def test_one_more(monkeypatch):
    monkeypatch.setattr(contract, "_own", {})
    tf_fedsam.add_task(SQUARES)
    assert contract.find("squares") is SQUARES
    assert "squares" in contract.all_tasks()
    assert tf_fedsam.RunConfig(dataset="squares").resolve().num_clients == 4


def test_a_task_as_an_argument(tmp_path):
    """Nobody need register it."""
    config = tf_fedsam.RunConfig(rounds=2, participation=0.5, devices="cpu:1", batch_size=5)
    run = tf_fedsam.run(config, tmp_path / "run", task=SQUARES, verbose=False)
    assert run.complete
    assert run.config_file["settings"]["dataset"] == "squares"
    assert run.config_file["data"]["source"] == "drawn by the test"
