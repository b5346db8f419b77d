"""One API request, as it arrived and as handlers read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import api_error
from headwater.model import headers as header_block
from headwater.model.api_level import level_is_enough
from headwater.wire import go_json
from headwater.wire.bulk_requests import OFFERED_TO
from headwater.wire.go_json import Reader
from headwater.wire.progress_json import REQUESTED_BY

API_LEVEL = 5
"""Our features are those of nats-server 2.15."""

VERSION = "2.15.1"
"""The nats-server whose answers we reproduce."""

_PROGRESS = REQUESTED_BY.encode()
_WRITING = OFFERED_TO.encode()
_BLANKS = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class WithHeaders:
    """The fields of an answer that has headers, too."""

    members: dict[str, Any]
    headers: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """A request: its subject below the API prefix, the names in it, and its content."""

    subject: str
    stream: str
    consumer: str
    reply: bytes
    headers: bytes
    body: bytes

    @property
    def is_empty(self) -> bool:
        """Return whether the body is empty or an empty object."""
        if not self.body or self.body == b"{}":
            return True
        try:
            return bool(json.loads(self.body) == {})
        except (ValueError, RecursionError):
            return False

    @property
    def has_members(self) -> bool:
        """Return whether the body begins like an object or array; other optional bodies are ignored."""
        return self.body.lstrip(_BLANKS)[:1] in (b"{", b"[")

    @property
    def wants_progress(self) -> bool:
        """Return whether the progress of upstreams is requested, which nats-server does not show."""
        return bool(self.headers) and header_block.get(self.headers, _PROGRESS) is not None

    @property
    def wants_writing(self) -> bool:
        """Return whether the request asks how to write to the stream in bulk, which nats-server cannot."""
        return bool(self.headers) and header_block.get(self.headers, _WRITING) is not None

    def decode(self, fields: Mapping[str, Reader], name: str) -> dict[str, Any]:
        """Return the fields of the body, which must be JSON with these fields only."""
        return go_json.decode(self.body, fields, name)

    def decode_optional(self, fields: Mapping[str, Reader], name: str) -> dict[str, Any]:
        """Return the fields of a body that may be missing or not be a JSON object."""
        return self.decode(fields, name) if self.has_members else {}


def check_level(raw: bytes) -> None:
    """Refuse a request that requires a higher API level than ours."""
    if not level_is_enough(raw):
        raise api_error("required_api_level")
