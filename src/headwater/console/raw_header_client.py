"""A NATS client that keeps headers as they were sent: repeated names and spaces are lost in its own form."""

from __future__ import annotations

from typing import Any

from nats.aio.client import Client


class RawHeaders(dict[str, str]):
    """Headers as the client parses them, with the bytes that they came from."""

    raw: bytes = b""
    """The whole block, with the line of the version and the empty line."""


class RawHeaderClient(Client):
    """The usual client, whose messages have `RawHeaders`."""

    async def _process_headers(self, headers: Any) -> dict[str, str] | None:
        # Not a public method. If a release of the client does without it, messages have plain headers.
        parsed = await super()._process_headers(headers)
        if parsed is None:
            return None
        kept = RawHeaders(parsed)
        kept.raw = bytes(headers)
        return kept
