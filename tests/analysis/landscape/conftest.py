import shutil

import pytest

from tests.analysis.landscape import made_runs


@pytest.fixture(scope="package")
def made(tmp_path_factory):
    """Runs that are only read."""
    return made_runs.make(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def runs(made, tmp_path):
    """Copies that a test may write to."""
    for name in made_runs.NAMES:
        shutil.copytree(made / name, tmp_path / name)
    return tmp_path
