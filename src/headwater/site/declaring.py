"""A site's streams made as the file declares them: created when missing, changed when they differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from headwater.errors import Error
from headwater.site.api_client import ApiClient, ApiRefusedError
from headwater.site.topology import DeclaredStream, Json, Site

IN_USE = 10058
NOT_FOUND = 10059
_OWN = ("_nats.",)
"""Metadata that the server writes itself."""


@dataclass(frozen=True)
class Outcome:
    """What became of one stream: `created`, `unchanged` or `changed`, and what changed."""

    site: str
    stream: str
    what: str
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = f"{self.site}: stream {self.stream} {self.what}"
        return f"{said}: {', '.join(self.changes)}" if self.changes else said


async def declare(client: ApiClient, site: Site, stream: DeclaredStream) -> Outcome:
    """Return what was done so that the stream is there as declared; a refusal names the place in the file."""
    config = fitted(stream.config, site.size)
    try:
        before = await _config_of(client, stream.name)
        if before is None:
            await client.ask(f"STREAM.CREATE.{stream.name}", config)
            return Outcome(site.name, stream.name, "created")
        after = await _brought_to(client, stream.name, config)
    except ApiRefusedError as refused:
        raise Error(f"{stream.place}: stream {stream.name!r} at {site.name} is refused: {refused}") from None
    found = tuple(differences(before, after))
    return Outcome(site.name, stream.name, "changed" if found else "unchanged", found)


async def _config_of(client: ApiClient, name: str) -> Json | None:
    """Return the config of a stream, or nothing when there is no such stream."""
    try:
        found: Json = (await client.ask(f"STREAM.INFO.{name}"))["config"]
    except ApiRefusedError as refused:
        if refused.err_code != NOT_FOUND:
            raise
        return None
    return found


async def _brought_to(client: ApiClient, name: str, config: Json) -> Json:
    """Return the config of a stream that is as wanted: it was so, or it is changed."""
    try:
        answer = await client.ask(f"STREAM.CREATE.{name}", config)  # the same config again is no error
    except ApiRefusedError as refused:
        if refused.err_code != IN_USE:
            raise
        answer = await client.ask(f"STREAM.UPDATE.{name}", config)
    found: Json = answer["config"]
    return found


def fitted(config: Json, nodes: int) -> Json:
    """Return the config with no more replicas than the site has nodes."""
    replicas = config.get("num_replicas", 1)
    return {**config, "num_replicas": min(replicas, nodes)} if isinstance(replicas, int) else config


def differences(before: Json, after: Json) -> list[str]:
    """Return what differs between two configs, one short text for each key."""
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
