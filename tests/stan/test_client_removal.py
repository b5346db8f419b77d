"""Tests of stan.client_removal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.stan.client_removal import ClientRemoval
from headwater.wire.stan_messages import FIRST
from stan_door import streaming


@pytest.mark.parametrize("answers", [True, False])
async def test_a_client_leaves_with_its_subscriptions_and_its_durables_stay(
    tmp_path: Path, answers: bool
) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        await client.subscribe("foo")
        await client.subscribe("foo", durableName="dur", startPosition=FIRST)
        stan, recorded = server.stan, asyncio.Event()
        removal = ClientRemoval(stan.clients, stan.subscriptions, stan.subscriptions._journal)
        leaving = stan.clients.get("me")
        assert leaving is not None
        if answers:
            removal.remove(leaving, recorded.set)
            await recorded.wait()
        else:
            removal.drop(leaving)
        assert (len(stan.clients), len(stan.subscriptions)) == (0, 0)
        (flow,) = stan.channels.get("foo").flows  # type: ignore[union-attr]
        assert (flow.key.durable, flow.subscriptions) == ("dur", [])
