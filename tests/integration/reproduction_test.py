"""Every method and every network of the papers' tables trains, on images that mean nothing.

The tables' own settings but for the number of clients and steps and the width of networks, so that
a command for a machine with the data and GPUs starts there at once.
"""

import dataclasses
import functools
import pathlib

import numpy as np
import pytest

import tasks
from tf_fedsam import Examples, build
from tf_fedsam.reproduction import cells, tables
from tf_fedsam.runs.config import RunConfig
from tf_fedsam.runs.task import Loaded, Request

pytestmark = pytest.mark.slow

SHAPES = {
    "fashion_mnist": (28, 28, 1, 10),
    "npz": (28, 28, 1, 10),
    "emnist": (28, 28, 1, 62),
    "cifar10": (32, 32, 3, 10),
    "cifar100": (32, 32, 3, 100),
    "tiny_imagenet": (64, 64, 3, 200),
    "office_home": (64, 64, 3, 65),
}
SMALLER = {
    "resnet": {"width": 8},
    "vgg11": {"width": 8},
    "vit_b16": {"pretrained": "", "layers": 1, "dim": 16, "heads": 2, "mlp_dim": 16},
    "swin": {
        "pretrained": "",
        "dim": 8,
        "depths": (1, 1, 1, 1),
        "heads": (1, 1, 2, 2),
        "window": 2,
    },
}
FEW = {"num_clients": 4, "participation": 0.5, "sampling": "fixed", "local_steps": 2}


@functools.cache
def wanted() -> dict[str, cells.Place]:
    """Every method with its plug-ins, on the first network it is seen with, and every network."""
    found = {}
    for name in tables.names():
        table = tables.find(name)
        for place in cells.places(table, pathlib.Path("out"), seeds=[0]):
            config = place.cell.config
            plug_ins = (config.relaxed_init, config.nesterov)
            method = (config.algo, str(dict(config.hparams)), *plug_ins)
            network = (config.dataset, config.model, str(dict(config.model_options)))
            for key in (method, network):
                found.setdefault(key, (f"{name}-{place.cell.name}", place))
    return dict(found.values())


def mock(name: str, task):
    """The data set with noise for images: four of each class for training, two for tests."""
    *shape, num_classes = SHAPES[name]
    generator = np.random.default_rng(0)

    def examples(each):
        y = np.tile(np.arange(num_classes), each)
        return Examples(generator.integers(0, 256, (len(y), *shape), np.uint8), y)

    train, test = examples(4), examples(2)

    def load(request: Request) -> Loaded:
        own = np.arange(len(train)) % 4 if name == "office_home" else None
        names = tuple(map(str, range(num_classes)))
        loaded = tasks.fashion_mnist.SOURCE.preprocess
        preprocess = dataclasses.replace(loaded, mean=(0.5,) * shape[-1], std=(0.2,) * shape[-1])
        return Loaded(train, test, names, preprocess, "noise", own)

    return dataclasses.replace(task, load=load)


@pytest.mark.parametrize("table", tables.names())
def test_what_a_table_is_the_first_to_have_trains(table):
    for name, place in wanted().items():
        if name.startswith(f"{table}-"):
            check_training(place.cell.config)


def test_all_methods_and_networks_are_looked_at():
    configs = [place.cell.config for place in wanted().values()]
    assert {c.model for c in configs} == {
        *("mlp", "cnn", "lenet5", "vgg11", "resnet18", "resnet34", "resnet50"),
        *("vit_b16", "swin_s", "swin_b"),
    }
    assert len({c.algo for c in configs}) >= 20
    assert any(c.nesterov for c in configs)
    assert any(c.relaxed_init for c in configs)


def check_training(config: RunConfig) -> None:
    """Two rounds move the weights, to finite values."""
    smaller = next((o for part, o in SMALLER.items() if config.model.startswith(part)), {})
    few = {n: v for n, v in FEW.items() if n != "num_clients" or config.dataset != "office_home"}
    given = {n: v for n, v in config.given.items() if n not in ("local_epochs", "subset")}
    given = {**given, **few, "rounds": 2, "batch_size": 4, "validation": "none"}
    given["model_options"] = {**given.get("model_options", {}), **smaller}
    small = type(config).from_values(given)
    experiment = build(small.resolve(mock(config.dataset, config.resolve().task)))
    state = experiment.initialize()
    for round_num in range(2):
        clients, fraction = experiment.cohort(round_num)
        state, metrics = experiment.process.next(state, clients, fraction)
    assert np.isfinite(metrics["train_loss"])
    before, after = experiment.initialize(), experiment.process.get_model_weights(state)
    moved = [
        np.abs(new - old).max()
        for new, old in zip(
            after.trainable,
            experiment.process.get_model_weights(before).trainable,
            strict=True,
        )
    ]
    assert max(moved) > 0
    assert all(np.isfinite(m) for m in moved)
