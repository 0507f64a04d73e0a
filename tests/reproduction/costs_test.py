"""What a table costs."""

import pathlib

import pytest

import tasks  # noqa: F401  makes the data sets known
from tf_fedsam import models
from tf_fedsam.reproduction import cells, costs, tables
from tf_fedsam.runs.config import RunConfig

TIMED = {"mlp": 0.001, "lenet5": 0.05}


def config(**values):
    return RunConfig(**{"dataset": "cifar10", "model": "lenet5", "rounds": 10, **values}).resolve()


def test_steps():
    # 10 rounds of 10 of 100 clients with 500 images each: 5 epochs of 10 batches of 50
    assert costs.num_steps(config()) == 10 * 10 * 50
    assert costs.num_steps(config(local_steps=3)) == 10 * 10 * 3
    # 60,000 images of which a tenth, 5,000, is trained on: a batch of 50 a client and epoch
    assert costs.num_steps(config(subset=6000)) == 10 * 10 * 5
    office = RunConfig(dataset="office_home", rounds=1, local_epochs=1, batch_size=100).resolve()
    assert costs.num_steps(office) == 4 * 32  # 12,471 / 4 = 3,117.75 images of each client


def test_seconds():
    assert costs.seconds([config()], TIMED) == pytest.approx(5000 * 0.05)
    assert costs.seconds([config(), config()], TIMED) == pytest.approx(2 * 5000 * 0.05)
    # two gradients a step; a batch twice as large has half the steps
    assert costs.seconds([config(algo="fedsam")], TIMED) == pytest.approx(2 * 5000 * 0.05)
    assert costs.seconds([config(batch_size=100)], TIMED) == pytest.approx(5000 * 0.05)
    ratio = costs.STEPS["resnet18"][0] / costs.STEPS["lenet5"][0]
    assert costs.seconds([config(model="resnet18")], TIMED) == pytest.approx(ratio * 5000 * 0.05)


def test_the_stem_matters():
    small = config(model="resnet18", model_options={"stem": "cifar"})
    assert costs.seconds([small], TIMED) > 3 * costs.seconds([config(model="resnet18")], TIMED)


def test_every_table_has_a_cost():
    assert set(models.names()) <= set(costs.STEPS)
    for name in tables.names():
        runs = cells.cells(cells.places(tables.find(name), pathlib.Path("out"), seeds=[0]))
        assert costs.seconds([cell.resolved for cell in runs], TIMED) > 0


def test_timing():
    timed = costs.timing()
    assert set(timed) == {"mlp", "lenet5"}
    assert 0 < timed["mlp"] < timed["lenet5"]
