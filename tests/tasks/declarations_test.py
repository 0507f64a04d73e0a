"""What the data sets declare exists and fits together."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tasks import protocol, registry
from tf_fedsam import models
from tf_fedsam.algorithms import registry as algorithms
from tf_fedsam.data.partition import SCHEMES
from tf_fedsam.runs.config import SETTINGS

NAMES = (
    *("cifar10", "cifar100", "emnist", "fashion_mnist", "glyphs", "image_folder", "mnist"),
    *("npz", "office_home", "tiny_imagenet"),
)
SHAPES = {"cifar10": 32, "cifar100": 32, "tiny_imagenet": 64, "office_home": 224}


@pytest.mark.parametrize("name", [*NAMES, "tfds:kmnist"])
def test_a_declaration_is_consistent(name):
    task = registry.find(name)
    assert task.name == name
    assert task.title
    known = set(SETTINGS)
    assert set(task.settings) <= known
    assert task.settings["model"] in models.names()
    assert task.settings.get("partition", "iid") in SCHEMES
    for algorithm, hparams in task.hparams.items():
        fields = dataclasses.fields(algorithms.find(algorithm).Hparams)
        defaults = {field.name: field.default for field in fields}
        for hparam, value in hparams.items():
            assert type(value) is type(defaults[hparam]), (algorithm, hparam)
        algorithms.find(algorithm)(**hparams)  # checks the values
    for algorithm, settings in task.algorithm_settings.items():
        assert algorithms.find(algorithm)
        assert set(settings) <= known


@pytest.mark.parametrize("name", NAMES)
def test_one_data_set_one_file(name):
    module = f"tasks/{name}.py"
    root = pathlib.Path(__file__).parents[2]
    text = (root / module).read_text()
    assert len(text.splitlines()) <= 120
    assert "TASK = Task(" in text


@pytest.mark.parametrize("name", [n for n in NAMES if registry.find(n).augment])
def test_augmentation_keeps_the_shape(name):
    size = SHAPES.get(name, 20)
    x = np.random.default_rng(0).normal(size=(4, size, size, 3)).astype(np.float32)
    result = registry.find(name).augment(x, tf.constant([1, 2])).numpy()
    assert result.shape == x.shape
    assert not np.array_equal(result, x)


def test_grey_digits_and_letters_are_not_augmented():
    for name in ("mnist", "emnist", "fashion_mnist", "glyphs", "npz"):
        assert registry.find(name).augment is None


def test_settings_of_the_papers():
    emnist, cifar10 = registry.find("emnist"), registry.find("cifar10")
    # Qu et al., section 5: 100 clients, each with probability 0.2, 10 epochs, batch 32, rho 0.5.
    assert emnist.settings["participation"] == 0.2
    assert emnist.settings["sampling"] == "bernoulli"
    assert emnist.settings["local_epochs"] == 10
    assert emnist.settings["batch_size"] == 32
    assert emnist.hparams["fedsam"] == {"rho": 0.5}
    # FedWMSAM, section 5: rho 0.01, but 0.1 for FedSMOO and MoFedSAM; 500 rounds.
    assert cifar10.settings["rounds"] == 500
    assert {m: cifar10.hparams[m]["rho"] for m in ("fedsam", "fedwmsam", "mofedsam")} == {
        "fedsam": 0.01,
        "fedwmsam": 0.01,
        "mofedsam": 0.1,
    }
    # FedInit: the learning rate of FedDyn decays by 0.9995, that of the others by 0.998.
    assert cifar10.algorithm_settings["feddyn"]["lr_decay"] == 0.9995


def test_class_names():
    for name, count in (("emnist", 62), ("cifar10", 10), ("cifar100", 100), ("fashion_mnist", 10)):
        module = __import__(f"tasks.{name}", fromlist=["CLASSES"])
        assert len(set(module.CLASSES)) == count
    from tasks.cifar100 import CLASSES

    assert list(CLASSES) == sorted(CLASSES)


def test_the_protocol_that_three_data_sets_share():
    """What they do not say otherwise is the protocol's; Tiny-ImageNet has another split."""
    for name in ("cifar10", "fashion_mnist", "tiny_imagenet"):
        settings = registry.find(name).settings
        other = {k for k, value in protocol.SETTINGS.items() if settings[k] != value}
        assert other <= ({"alpha", "classes_per_client"} if "tiny" in name else set()), name
