"""The declared streams of a site: created if missing, updated if they differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from headwater.client.jetstream_api import JetStreamApi, RequestRefusedError
from headwater.errors import Error
from headwater.site.topology import DeclaredStream, Json, Site

IN_USE = 10058
NOT_FOUND = 10059
_OWN = ("_nats.",)
"""Metadata that the server writes itself."""


@dataclass(frozen=True)
class Outcome:
    """The outcome for one stream: `created`, `unchanged` or `changed`, and the changes."""

    site: str
    stream: str
    what: str
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = f"{self.site}: stream {self.stream} {self.what}"
        return f"{said}: {', '.join(self.changes)}" if self.changes else said


async def declare(client: JetStreamApi, site: Site, stream: DeclaredStream) -> Outcome:
    """Create or update the stream as declared; an error names the place in the file."""
    config = stream.config
    try:
        before = await _config_of(client, stream.name)
        if before is None:
            await client.request(f"STREAM.CREATE.{stream.name}", config)
            return Outcome(site.name, stream.name, "created")
        after = await _brought_to(client, stream.name, config)
    except RequestRefusedError as refused:
        raise Error(f"{stream.place}: stream {stream.name!r} at {site.name} is refused: {refused}") from None
    found = tuple(differences(before, after))
    return Outcome(site.name, stream.name, "changed" if found else "unchanged", found)


async def _config_of(client: JetStreamApi, name: str) -> Json | None:
    """Return the config of a stream, or None if it does not exist."""
    try:
        found: Json = (await client.request(f"STREAM.INFO.{name}"))["config"]
    except RequestRefusedError as refused:
        if refused.err_code != NOT_FOUND:
            raise
        return None
    return found


async def _brought_to(client: JetStreamApi, name: str, config: Json) -> Json:
    """Create or update a stream, and return its config."""
    try:
        answer = await client.request(f"STREAM.CREATE.{name}", config)  # the same config is not an error
    except RequestRefusedError as refused:
        if refused.err_code != IN_USE:
            raise
        answer = await client.request(f"STREAM.UPDATE.{name}", config)
    found: Json = answer["config"]
    return found


def differences(before: Json, after: Json) -> list[str]:
    """Return the differences between two configs, one text per key."""
    named = sorted(before.keys() | after.keys())
    return [
        f"{key} {_shown(before.get(key))} → {_shown(after.get(key))}"
        for key in named
        if _own_left_out(before.get(key)) != _own_left_out(after.get(key))
    ]


def _own_left_out(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: inner for key, inner in value.items() if not key.startswith(_OWN)}


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(_own_left_out(value), ensure_ascii=False)
