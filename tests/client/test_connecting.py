"""`headwater.connect`: entered, awaited, and with credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater
from servers import nats_server

LOCKED = "authorization { users: [{ user: a, password: b }] }"


async def test_a_client_is_connected_when_it_is_entered_or_awaited() -> None:
    async with nats_server(jetstream=True) as server:
        async with headwater.connect(server.client_url) as client:
            assert await client.stream_names() == []
        assert client.nats.is_closed
        kept = await headwater.connect(server.client_url)
        assert await kept.stream_names() == []
        await kept.close()
        assert kept.nats.is_closed
        with headwater.connect(server.client_url) as blocking:
            assert blocking.stream_names() == []


async def test_one_description_may_be_entered_again() -> None:
    async with nats_server(jetstream=True) as server:
        pending = headwater.connect(server.client_url)
        for _ in range(2):
            async with pending as client:
                assert await client.stream_names() == []


async def test_credentials_are_passed_and_never_shown(tmp_path: Path) -> None:
    async with nats_server(LOCKED, jetstream=True) as server:
        with pytest.raises(headwater.Error, match="refused the credentials"):
            await headwater.connect(server.client_url)
        async with headwater.connect(server.client_url, user="a", password="b") as client:
            assert await client.stream_names() == []
        url = server.client_url.replace("//", "//a:b@")
        async with headwater.connect(url) as client:
            assert await client.stream_names() == []
    with pytest.raises(headwater.Error) as caught:
        await headwater.connect(url)
    assert "a:b" not in str(caught.value)
    with pytest.raises(headwater.Error, match="creds: the file"):
        await headwater.connect(creds=tmp_path / "no.creds")
