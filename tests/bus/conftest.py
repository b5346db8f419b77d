"""Everything of the bus runs on both event loops."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Mapping

import pytest

from identities import Certificates, make_certificates


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give the loop of the standard library, and uvloop where it exists."""
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if importlib.util.find_spec("uvloop") is not None:
        factories["uvloop"] = importlib.import_module("uvloop").new_event_loop
    return factories


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Make the certificates once."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))
