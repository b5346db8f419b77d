"""The clients that people use, unmodified: what their own suites check, tried on an engine."""

from __future__ import annotations

import asyncio

import pytest

from engines import engine
from stan.clients import real_clients
from stan.clients.real_clients import Problems

CLUSTER = "test-cluster"

# Whoever is asked whether it is there may be slow to answer on a busy machine.
OPTIONS = ("--stan", CLUSTER, "--stan-probe-s", "5")


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Problems]:
    """What is wrong with each behaviour, by client, all tried on one engine."""

    async def tried() -> dict[str, Problems]:
        async with engine(tmp_path_factory.mktemp("engine"), *OPTIONS) as running:
            found = {"python": await real_clients.try_python(running.client_url, CLUSTER)}
            if not real_clients.javascript_missing():
                found["javascript"] = await real_clients.try_javascript(running.client_url, CLUSTER)
            return found

    return asyncio.run(tried())


@pytest.mark.parametrize("behaviour", real_clients.python_behaviours())
def test_the_python_client_works(behaviour: str, problems: dict[str, Problems]) -> None:
    assert problems["python"][behaviour] is None, problems["python"][behaviour]


@pytest.mark.skipif(bool(real_clients.javascript_missing()), reason=real_clients.javascript_missing())
@pytest.mark.parametrize("behaviour", real_clients.javascript_behaviours())
def test_the_javascript_client_works(behaviour: str, problems: dict[str, Problems]) -> None:
    assert problems["javascript"][behaviour] is None, problems["javascript"][behaviour]
