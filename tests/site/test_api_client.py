"""A client that speaks to one site as its engine's user."""

from __future__ import annotations

import pytest

from headwater.site.api_client import ApiClient, ApiRefusedError, NoAnswerError, api_client
from topologies import RunningSites


def client_of(sites: RunningSites, name: str) -> object:
    """Return the client of a site's business account."""
    site = sites.topology.site(name)
    return api_client(site, site.business[0], sites.layout.seed(site, site.business[0]))


async def test_streams_are_listed_with_how_they_fare(sites: RunningSites) -> None:
    async with client_of(sites, "hub") as client:  # type: ignore[attr-defined]
        (info,) = await client.streams()
    assert info["config"]["name"] == "sales"
    assert info["sources"][0]["external"]["api"] == "$JS.spoke-1.API"


async def test_a_refusal_and_a_silence_are_told_apart(sites: RunningSites) -> None:
    async with client_of(sites, "hub") as client:  # type: ignore[attr-defined]
        with pytest.raises(ApiRefusedError) as refused:
            await client.ask("STREAM.INFO.NONE")
        assert refused.value.err_code == 10059
        with pytest.raises(NoAnswerError, match=r"nobody answers on \$JS\.nowhere\.API\.INFO"):
            await ApiClient(client._client, "nowhere").ask("INFO")
