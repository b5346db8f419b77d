"""A client of one site's API, connected as the engine's user."""

from __future__ import annotations

import pytest

from headwater.client.jetstream_api import JetStreamApi, RequestRefusedError, UnreachableError
from headwater.site.api_client import api_client
from topologies import RunningSites


def client_of(sites: RunningSites, name: str) -> object:
    """Return the client of a site's business account."""
    site = sites.topology.site(name)
    return api_client(site, site.business[0], sites.layout.seed(site, site.business[0]))


async def test_streams_are_listed_with_their_upstreams(sites: RunningSites) -> None:
    async with client_of(sites, "hub") as client:  # type: ignore[attr-defined]
        (info,) = await client.pages("STREAM.LIST", "streams")
    assert info["config"]["name"] == "sales"
    assert info["sources"][0]["external"]["api"] == "$JS.spoke-1.API"


async def test_errors_of_the_api_and_missing_answers_differ(sites: RunningSites) -> None:
    async with client_of(sites, "hub") as client:  # type: ignore[attr-defined]
        with pytest.raises(RequestRefusedError) as refused:
            await client.request("STREAM.INFO.NONE")
        assert refused.value.err_code == 10059
        with pytest.raises(UnreachableError, match=r"no responders on \$JS\.nowhere\.API\.INFO"):
            await JetStreamApi(client.nats, "$JS.nowhere.API").request("INFO")
