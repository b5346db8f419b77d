"""Handler of the requests that only a cluster of nats-servers can serve."""

from __future__ import annotations

from headwater.api.context import ApiContext
from headwater.api.request import Request
from headwater.errors import api_error
from headwater.wire.stream_json import Json


async def refuse(context: ApiContext, request: Request) -> Json:
    """Refuse as a nats-server outside a cluster does."""
    raise api_error("cluster_required")
