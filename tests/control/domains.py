"""Domains of an account that is opened and closed around a test, and an observer that records events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from doors import opened_domain, services
from headwater.control.domain import Domain
from headwater.errors import ApiError
from headwater.model.stream import StreamConfig
from headwater.stream.stream import Stream


def config(name: str, **fields: Any) -> StreamConfig:
    return StreamConfig(**{"name": name, "subjects": (f"{name}.>",), **fields})


class Seen:
    """An observer that records the events it gets."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def on_opened(self, stream: Stream) -> None:
        self.events.append(("opened", stream.name))

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        self.events.append((f"changed from {old.description!r}", stream.name))

    def on_closed(self, stream: Stream) -> None:
        self.events.append(("closed", stream.name))


class Killed(BaseException):
    """The process ends here."""


async def on(store: Path, work: Callable[[Domain], Awaitable[None]], **wanted: Any) -> None:
    """Run work on a domain that is opened before and closed after it."""
    async with services(store) as shared, opened_domain(store, shared, **wanted) as domain:
        await work(domain)


async def refused(work: Awaitable[object]) -> int:
    """Return the err_code with which the work is refused."""
    with pytest.raises(ApiError) as error:
        await work
    return error.value.err_code


def folders(store: Path) -> list[str]:
    return sorted(p.name for p in (store / "$G").iterdir())


async def are(domain: Domain, names: list[str]) -> None:
    assert domain.names() == names


async def has_none(domain: Domain) -> None:
    assert domain.names() == []
