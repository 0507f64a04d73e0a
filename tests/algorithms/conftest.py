"""What an author of a method needs is marked quick: contract, identities, each method's own."""

import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
LONG = {"behaviour_test", "dp_test", "fedsol_test", "swa_test", "wire_test"}


def pytest_collection_modifyitems(items):
    for item in items:
        long = item.path.stem in LONG or item.get_closest_marker("slow")
        if item.path.parent != HERE or long:
            continue
        if item.path.stem != "contract_test" or item.originalname == "test_equals_its_reference":
            item.add_marker(pytest.mark.quick)
