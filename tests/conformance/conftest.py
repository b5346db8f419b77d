"""The two servers, started once for each module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.server import Headwater, NatsServer, Server


@pytest.fixture(scope="module")
def _servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    directory: Path = tmp_path_factory.mktemp("conformance")
    pair = NatsServer(directory / "nats-server"), Headwater(directory / "headwater")
    yield pair
    for server in pair:
        server.stop()


@pytest.fixture
def reference(_servers: tuple[Server, Server]) -> Server:
    """nats-server, running."""
    _servers[0].start()
    return _servers[0]


@pytest.fixture
def headwater(_servers: tuple[Server, Server]) -> Server:
    """Headwater, running; started again if the scenario before killed it."""
    _servers[1].start()
    return _servers[1]
