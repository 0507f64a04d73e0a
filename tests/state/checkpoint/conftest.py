"""A folder with checkpoints, and no waiting for the disk."""

import os

import pytest

from tests.state.checkpoint.saving import save, three_states
from tf_fedsam.state.checkpoint import CheckpointWriter


@pytest.fixture(scope="module", autouse=True)
def no_flush():
    """A killed process loses nothing that it has written: tests need not wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def saved(tmp_path):
    """A folder with the checkpoints after 2 and 3 rounds, and the three states."""
    result = three_states()
    with CheckpointWriter(tmp_path / "saved") as writer:
        for state in result:
            save(writer, state)
    return tmp_path / "saved", result
