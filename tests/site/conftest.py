"""A headquarters and two cinemas without Spark, for the tests of a module that only look at them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from topologies import RunningSites, cinemas, running_sites

STREAMS: dict[str, list[Any]] = {
    "hub": [
        {"name": "sales", "sources": [{"name": "tickets-1", "external": {"api": "$JS.spoke-1.API"}}]},
    ],
    "spoke-1": [{"name": "tickets-1", "subjects": ["tickets-1.>"]}],
}


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSites]:
    with running_sites(tmp_path_factory.mktemp("sites"), cinemas(streams=STREAMS)) as running:
        yield running
