"""Handlers of the requests about consumers: there are none yet, and the answers say so."""

from __future__ import annotations

from headwater.api.context import Context
from headwater.api.paging import LIST_LIMIT, NAMES_LIMIT
from headwater.api.request import Request
from headwater.errors import api_error
from headwater.wire.go_json import int_
from headwater.wire.stream_json import Json

_PAGE_FIELDS = {"offset": int_}


async def names(context: Context, request: Request) -> Json:
    """List the names of a stream's consumers."""
    return _none_of(context, request, NAMES_LIMIT)


async def list_(context: Context, request: Request) -> Json:
    """List a stream's consumers."""
    return _none_of(context, request, LIST_LIMIT)


def _none_of(context: Context, request: Request, limit: int) -> Json:
    request.decode_optional(_PAGE_FIELDS, "JSApiConsumersRequest")
    context.domain.stream(request.stream)
    return {"total": 0, "offset": 0, "limit": limit, "consumers": []}


async def unknown(context: Context, request: Request) -> Json:
    """Refuse a request about one consumer: no stream has any."""
    context.domain.stream(request.stream)
    raise api_error("consumer_not_found")


async def create(context: Context, request: Request) -> Json:
    """Refuse to create a consumer."""
    context.domain.stream(request.stream)
    raise api_error("consumer_create", err="this release of Headwater serves no consumers yet")
