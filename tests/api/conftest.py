"""The API under test, alone or next to a real JetStream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from doors import Asker, Body, Door, normal, normal_frame, opened_door, opened_jetstream
from headwater.wire.frames import Frame


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    """Run an engine's API."""
    async with opened_door(tmp_path) as running:
        yield running


@pytest.fixture
async def ask(door: Door) -> Asker:
    """Return a client of the engine's API."""
    return door.asker


class Twins:
    """Asks Headwater and a real JetStream the same; both must answer alike."""

    def __init__(self, ours: Asker, theirs: Asker) -> None:
        self.ours = ours
        self.theirs = theirs

    async def ask(self, subject: str, body: Body = None, headers: bytes = b"") -> Any:
        """Return the answer that both gave."""
        wanted = normal(await self.theirs.ask(subject, body, headers))
        assert normal(await self.ours.ask(subject, body, headers)) == wanted, f"{subject} {body!r}"
        return wanted

    async def publish(self, subject: str, data: bytes = b"", headers: bytes = b"") -> Any:
        """Publish to both and return the acknowledgement that both gave."""
        wanted = await self.theirs.publish(subject, data, headers)
        assert await self.ours.publish(subject, data, headers) == wanted
        return wanted

    async def many(self, subject: str, body: Body = None, headers: bytes = b"") -> list[Frame]:
        """Return the raw answers that both gave."""
        wanted = [normal_frame(f) for f in await self.theirs.many(subject, body, headers)]
        got = [normal_frame(f) for f in await self.ours.many(subject, body, headers)]
        assert got == wanted, f"{subject} {body!r}"
        return wanted

    async def one(self, subject: str, body: Body = None, headers: bytes = b"") -> Frame:
        """Return the raw answer that both gave."""
        wanted = normal_frame(await self.theirs.raw(f"$JS.API.{subject}", body, headers))
        got = normal_frame(await self.ours.raw(f"$JS.API.{subject}", body, headers))
        assert got == wanted, f"{subject} {body!r}"
        return wanted


@pytest.fixture
async def twins(door: Door) -> AsyncIterator[Twins]:
    """Run a real JetStream next to the engine's API."""
    async with opened_jetstream() as theirs:
        yield Twins(door.asker, theirs)
