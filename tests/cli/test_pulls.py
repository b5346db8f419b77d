"""Pulling: limits, silence, the consumer's own caps, and consumers that cannot serve."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.cli.pulls import own_consumer, pulled
from headwater.cli.session import Session, connected
from headwater.client.connection_settings import ConnectionSettings
from headwater.errors import Error
from jetstreams import Shell


async def info_of(session: Session, stream: str, **config: Any) -> dict[str, Any]:
    body = {"stream_name": stream, "config": {"durable_name": "C", "ack_policy": "explicit", **config}}
    return await session.request(f"CONSUMER.DURABLE.CREATE.{stream}.C", body)


async def taken(session: Session, info: dict[str, Any], **how: Any) -> list[bytes]:
    return [message.data async for message in pulled(session, info, **how)]


async def test_messages_come_until_the_limit_or_silence(shell: Shell, stream: str) -> None:
    async with connected(ConnectionSettings(server=shell.url)) as session:
        info = await info_of(session, stream)
        assert await taken(session, info, limit=2) == [b"message a", b"message b"]
        assert await taken(session, info, wait=0.1) == [b"message c"]
        assert await taken(session, info, limit=1, wait=0.1) == []


async def test_requests_keep_to_the_consumers_caps(shell: Shell, stream: str) -> None:
    async with connected(ConnectionSettings(server=shell.url)) as session:
        info = await info_of(session, stream, max_batch=1, max_expires=1_000_000_000)
        assert len(await taken(session, info, limit=3)) == 3


async def test_a_consumer_that_pushes_or_is_gone_is_said(shell: Shell, stream: str) -> None:
    async with connected(ConnectionSettings(server=shell.url)) as session:
        info = await info_of(session, stream, deliver_subject=f"to.{stream}")
        with pytest.raises(Error, match="is a push consumer: use `headwater consumer sub`"):
            await taken(session, info, limit=1)
        await session.request(f"CONSUMER.DELETE.{stream}.C")
        with pytest.raises(Error, match="consumer not found"):
            await taken(session, info, limit=1)


async def test_a_consumer_of_our_own_is_removed_whatever_happens(shell: Shell, stream: str) -> None:
    async with connected(ConnectionSettings(server=shell.url)) as session:

        async def break_off() -> None:
            async with own_consumer(session, stream, ack_policy="none") as info:
                raise KeyError(info["num_pending"])

        with pytest.raises(KeyError, match="3"):
            await break_off()
        assert await session.pages(f"CONSUMER.NAMES.{stream}", "consumers") == []
