"""Data sets by their names."""

import pytest

from tasks import registry
from tests.tasks.declarations_test import NAMES
from tf_fedsam.errors import InputError


def test_all_are_found():
    assert tuple(registry.all_tasks()) == NAMES


def test_a_name_is_that_of_its_file():
    for name in NAMES:
        assert registry.find(name) is registry.all_tasks()[name]
        assert registry.find(name).name == name


def test_sets_of_tfds():
    assert registry.find("tfds:kmnist").name == "tfds:kmnist"
    assert "tfds:kmnist" not in registry.all_tasks()


def test_an_unknown_data_set_is_told_of_tfds():
    with pytest.raises(InputError, match=r"'mnist'.*tfds:NAME"):
        registry.find("mnits")
