"""The handler of requests that only a cluster of nats-servers can serve."""

from __future__ import annotations

from headwater.api.context import ApiContext
from headwater.api.request import Request
from headwater.errors import api_error
from headwater.wire.stream_json import Json


async def refuse(context: ApiContext, request: Request) -> Json:
    """Refuse like a nats-server outside of a cluster."""
    raise api_error("cluster_required")
