"""Cutting by the name of a scheme."""

import inspect

import numpy as np
import pytest

from tests.data.partition.cases import LABELS, OWNERS, N
from tf_fedsam.data import partition as partitions
from tf_fedsam.errors import InputError

OPTIONS = {
    "alpha": 0.3,
    "replacement": True,
    "size_sigma": 0.5,
    "classes_per_client": 2,
    "shards_per_client": 3,
}
SIZES = partitions.client_sizes(len(LABELS), N, 7, 0.5)
BY_HAND = {
    "dirichlet": lambda: partitions.dirichlet(LABELS, N, 0.3, 7, replacement=True, sizes=SIZES),
    "dirichlet_classes": lambda: partitions.dirichlet_classes(LABELS, N, 0.3, 7),
    "iid": lambda: partitions.iid(LABELS, N, 7, sizes=SIZES),
    "pathological": lambda: partitions.pathological(LABELS, N, 2, 7, replacement=True, sizes=SIZES),
    "shards": lambda: partitions.shards(LABELS, N, 3, 7),
    "natural": lambda: partitions.by_client_id(OWNERS, 7),
    "given": lambda: partitions.by_client_id(OWNERS, 7),
}
# Recorded with NumPy 2.4 before the schemes had names: a recorded run must find its split again.
RECORDED = {
    "dirichlet": "537090192e01c3b1",
    "dirichlet_classes": "7d83f13f7debfb90",
    "iid": "fa17e6416f5c642e",
    "pathological": "951df8011609d09c",
    "shards": "e31026562d897de8",
    "natural": "563247bfac1c794c",
    "given": "563247bfac1c794c",
}


def made(name, **changed):
    scheme = partitions.SCHEMES[name]
    options = {option: OPTIONS[option] for option in scheme.options} | changed
    num_clients = None if scheme.needs_client_ids else N
    return partitions.make(name, LABELS, num_clients, 7, client_id=OWNERS, **options)


@pytest.mark.parametrize("name", partitions.SCHEMES)
def test_make_is_the_function_of_the_scheme(name):
    expected = BY_HAND[name]()
    partition = made(name)
    assert partition.fingerprint() == expected.fingerprint()
    assert partition.scheme == expected.scheme
    assert partition.client_ids == expected.client_ids


@pytest.mark.parametrize("name", partitions.SCHEMES)
def test_splits_are_those_of_recorded_runs(name):
    assert made(name).fingerprint() == RECORDED[name]


@pytest.mark.parametrize("name", partitions.SCHEMES)
def test_every_option_of_a_scheme_has_an_effect(name):
    other = {
        "alpha": 3.0,
        "replacement": False,
        "size_sigma": 0.0,
        "classes_per_client": 3,
        "shards_per_client": 2,
    }
    for option in partitions.SCHEMES[name].options:
        assert made(name, **{option: other[option]}).fingerprint() != made(name).fingerprint()


@pytest.mark.parametrize("name", partitions.SCHEMES)
def test_optional_options_are_those_with_a_default(name):
    scheme = partitions.SCHEMES[name]
    assert scheme.name == name
    parameters = inspect.signature(scheme.cut).parameters
    for option in scheme.required:
        assert parameters[option].default is inspect.Parameter.empty
    for option in set(scheme.optional) - {"size_sigma"}:
        assert parameters[option].default is not inspect.Parameter.empty
    assert ("size_sigma" in scheme.options) == ("sizes" in parameters)


def test_names_of_clients_come_from_the_data():
    ids = np.array(["bob", "al", "bob"])
    partition = partitions.make("natural", [0, 1, 1], client_id=ids)
    assert partition.client_ids == ("al", "bob")
    assert partitions.make("iid", [0, 1, 1], 2).client_ids is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scheme": "dirichlett"}, "Unknown partition 'dirichlett'. Did you mean 'dirichlet'"),
        ({}, r"no alpha for partition='dirichlet'. Expected alpha, replacement.*Set alpha\."),
        ({"alpha": None}, "Received no alpha"),
        (
            {"alpha": 1, "shards_per_client": 2},
            r"shards_per_client=2 for partition='dirichlet'. Expected alpha.*is for shards\. Rem",
        ),
        ({"alpha": 1, "beta": 2}, r"beta=2 for .* Expected alpha, .*size_sigma\. Remove beta"),
        ({"scheme": "natural", "alpha": 1}, "Expected no options; alpha is for dirichlet"),
        ({"alpha": 1, "num_clients": None}, r"no num_clients.*Set num_clients"),
        ({"scheme": "given"}, r"num_clients=3 for partition='given'.*Remove num_clients"),
        ({"scheme": "given", "num_clients": None}, r"no client_id for partition='given'.*Give"),
        (
            {"scheme": "given", "num_clients": None, "client_id": [1, 2]},
            "Received 2 client ids for 12 examples",
        ),
    ],
)
def test_bad_input_is_explained(arguments, message):
    arguments = {"scheme": "dirichlet", "num_clients": 3} | arguments
    with pytest.raises(InputError, match=message):
        partitions.make(labels=np.arange(12) % 3, **arguments)
