"""The handlers of consumer requests."""

from __future__ import annotations

import msgspec

from headwater.api.cluster_info import cluster_info
from headwater.api.context import ApiContext
from headwater.api.paging import LIST_LIMIT, NAMES_LIMIT, fitting, page
from headwater.api.request import API_LEVEL, VERSION, Request, WithHeaders
from headwater.control.consumer_rules import parse_address
from headwater.delivery.consumer import Consumer
from headwater.delivery.pull import PullConsumer
from headwater.errors import api_error
from headwater.model import headers as header_block
from headwater.model.consumer import ConsumerInfo
from headwater.model.times import ZERO_TIME, format_time
from headwater.model.upstream import hash8
from headwater.stream.stream import Stream
from headwater.wire.consumer_json import decode_create, info_json
from headwater.wire.go_json import int_, string, time, uint64
from headwater.wire.stream_json import Json

_PAGE_FIELDS = {"offset": int_}
_PAUSE_FIELDS = {"pause_until": time}
_UNPIN_FIELDS = {"group": string}
_RESET_FIELDS = {"seq": uint64}
_ENVELOPE_BYTES = 64 * 1024
_IDENTITY = b"Nats-Stream-Identity"


async def create(context: ApiContext, request: Request) -> Json | WithHeaders:
    """Create a consumer, or update an existing one."""
    asked = decode_create(request.body)
    stream = context.domain.stream(request.stream)
    _check_identity(stream, request)
    address = parse_address(request.subject.removeprefix("CONSUMER."))
    made = await context.consumers.create(stream, asked, address)
    members = _shown(context, stream, made)
    if made.config.direct or made.config.sourcing:
        return WithHeaders(members, header_block.build([(_IDENTITY, _identity(stream))]))
    return members


def _identity(stream: Stream) -> bytes:
    """Return the identity that distinguishes a stream from earlier and later ones of its name."""
    return hash8(format_time(stream.created_ns)).encode()


def _check_identity(stream: Stream, request: Request) -> None:
    known = header_block.get(request.headers, _IDENTITY)
    if known and known != _identity(stream):
        ours = _identity(stream).decode()
        raise api_error(
            "consumer_stream_identity_mismatch", msg=f"expected {known.decode(errors='replace')}, have {ours}"
        )


async def names(context: ApiContext, request: Request) -> Json:
    """List the names of a stream's consumers."""
    asked = request.decode_optional(_PAGE_FIELDS, "JSApiConsumersRequest")
    found = [c.name for c in context.consumers.of(context.domain.stream(request.stream)).listed]
    shown, paging = page(found, asked.get("offset", 0), NAMES_LIMIT)
    return {**paging, "consumers": list(shown)}


async def list_(context: ApiContext, request: Request) -> Json:
    """List a stream's consumers; a page is bounded by the size of a message."""
    asked = request.decode_optional(_PAGE_FIELDS, "JSApiConsumersRequest")
    stream = context.domain.stream(request.stream)
    found = context.consumers.of(stream).listed
    shown, paging = page(found, asked.get("offset", 0), LIST_LIMIT)
    infos = [_shown(context, stream, await consumer.info(), versions=False) for consumer in shown]
    sizes = [len(msgspec.json.encode(each)) + 1 for each in infos]
    fit = fitting(sizes, context.connection.max_payload - _ENVELOPE_BYTES)
    if fit < len(infos):
        infos, paging["limit"] = infos[:fit], fit
    return {**paging, "consumers": infos}


async def info(context: ApiContext, request: Request) -> Json:
    """Show a consumer."""
    stream = context.domain.stream(request.stream)
    return _shown(context, stream, await _consumer(context, request).info())


async def delete(context: ApiContext, request: Request) -> Json:
    """Remove a consumer."""
    await context.consumers.delete(context.domain.stream(request.stream), request.consumer)
    return {"success": True}


async def pause(context: ApiContext, request: Request) -> Json:
    """Pause a consumer until a time, or resume it."""
    asked = request.decode_optional(_PAUSE_FIELDS, "JSApiConsumerPauseRequest")
    stream = context.domain.stream(request.stream)
    consumer = await context.consumers.pause(stream, request.consumer, asked.get("pause_until"))
    until_ns = consumer.config.pause_until
    shown = ZERO_TIME if until_ns is None else format_time(until_ns)
    answer: Json = {"paused": consumer.is_paused, "pause_until": shown}
    if consumer.is_paused and until_ns is not None:
        answer["pause_remaining"] = until_ns - context.clock.now_ns()
    return answer


async def reset(context: ApiContext, request: Request) -> Json:
    """Reset a consumer."""
    asked = request.decode_optional(_RESET_FIELDS, "JSApiConsumerResetRequest")
    consumer = _consumer(context, request)
    start_seq = await context.consumers.reset(consumer, asked.get("seq", 0))
    stream = context.domain.stream(request.stream)
    return {**_shown(context, stream, await consumer.info()), "reset_seq": start_seq}


async def unpin(context: ApiContext, request: Request) -> Json:
    """Unpin the client of a priority group."""
    asked = request.decode_optional(_UNPIN_FIELDS, "JSApiConsumerUnpinRequest")
    consumer = _consumer(context, request)
    group = asked.get("group", "")
    if not group:
        raise api_error("invalid_json", err="consumer group not specified")
    if group not in consumer.config.priority_groups:
        raise api_error("consumer_invalid_priority_group")
    if isinstance(consumer, PullConsumer):
        consumer.unpin(group)
    return {}


def _consumer(context: ApiContext, request: Request) -> Consumer:
    return context.consumers.get(context.domain.stream(request.stream), request.consumer)


def _shown(context: ApiContext, stream: Stream, info: ConsumerInfo, *, versions: bool = True) -> Json:
    shown = info_json(info)
    # A single server shows nothing here. A cluster shows who keeps the consumer.
    cluster = cluster_info(context, info.config.num_replicas or stream.config.num_replicas)
    if context.cluster_name or "replicas" in cluster:
        shown["cluster"] = cluster
    if versions:
        metadata = {**info.config.metadata, "_nats.level": str(API_LEVEL), "_nats.ver": VERSION}
        shown["config"]["metadata"] = dict(sorted(metadata.items()))
    return shown
