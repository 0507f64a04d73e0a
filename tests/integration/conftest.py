import pytest

from tests.integration.crashes import Server


@pytest.fixture(scope="session")
def server():
    """Runs the launcher in processes of their own."""
    server = Server()
    yield server
    server.close()
