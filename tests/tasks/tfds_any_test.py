"""Data sets of TFDS by their names there. How they are read: tfds_source_test.py."""

import pytest

from tasks import registry, tfds_any
from tf_fedsam.errors import InputError


@pytest.mark.parametrize(
    "name", ["kmnist", "emnist/letters", "svhn_cropped:3.0.0", "emnist/letters:3.0.1"]
)
def test_names_that_tfds_has(name):
    task = tfds_any.task(f"tfds:{name}")
    assert task.name == f"tfds:{name}"
    assert name in task.title
    assert task.load.__self__.tfds == name


def test_emnist_stands_on_its_side_in_tfds():
    transposed = {
        n: tfds_any.task(f"tfds:{n}").load.__self__.tfds_transposed
        for n in ("emnist/letters", "kmnist")
    }
    assert transposed == {"emnist/letters": True, "kmnist": False}


@pytest.mark.parametrize("name", ["tfds:", "tfds:a b", "tfds:hugging:face", "tfds:../x", "tfds:X/"])
def test_names_that_tfds_cannot_have(name):
    with pytest.raises(InputError, match="takes the name of a data set in TFDS"):
        registry.find(name)
