"""Sweeps whose processes are not real."""

import functools

import pytest

from tests.sweeps.pretending import install


@pytest.fixture
def pretend(monkeypatch):
    return functools.partial(install, monkeypatch)
