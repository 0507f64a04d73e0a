"""Examples that all runs have."""

import dataclasses

import numpy as np
import pytest

from tf_fedsam.analysis.landscape import compared, examples
from tf_fedsam.errors import InputError


@pytest.fixture
def read(made):
    return compared.read_all([made / "avg", made / "sam"])


def holding(monkeypatch, *held):
    """Lets the clients of each run hold only these examples."""
    make, left = examples.make_dataset, [np.asarray(each) for each in held]

    def made(config, loaded):
        dataset, indices = make(config, loaded), left.pop(0)
        dataset.partition = dataclasses.replace(
            dataset.partition,
            indices=indices,
            offsets=np.asarray([0, 1, 2, 3, len(indices)]),
        )
        return dataset

    monkeypatch.setattr(examples, "make_dataset", made)
    monkeypatch.setattr(examples.provenance, "fingerprints", lambda config, dataset: {})


def test_all_training_examples(read, made):
    toy = np.load(made / "toy.npz")
    found = examples.load_examples(read, "train", 1000, 0)
    assert found.available == len(found.examples) == 40
    np.testing.assert_array_equal(found.examples.x, toy["x_train"])
    np.testing.assert_array_equal(found.examples.y, toy["y_train"])
    assert found.num_classes == 3


def test_test_examples(read, made):
    found = examples.load_examples(read, "test", 5, 0)
    assert (found.available, len(found.examples)) == (12, 5)
    rows = {tuple(row) for row in np.load(made / "toy.npz")["x_test"].tolist()}
    assert len({tuple(row) for row in found.examples.x.tolist()} & rows) == 5


def test_only_what_clients_of_every_run_have(read, made, monkeypatch):
    holding(monkeypatch, [0, 5, 7, 30, 31], [5, 8, 30, 39, 1])
    found = examples.load_examples(read, "train", 1000, 0)
    expected = np.load(made / "toy.npz")["x_train"][[5, 30]]
    np.testing.assert_array_equal(found.examples.x, expected)


def test_no_example_in_common(read, monkeypatch):
    holding(monkeypatch, [0, 1, 2, 3, 4], [5, 6, 7, 8, 9])
    with pytest.raises(InputError, match=r"belongs to a client of every run. Use on=test") as seen:
        examples.load_examples(read, "train", 1000, 0)
    assert "Use --on=test." in seen.value.with_flags()
