"""The handlers of stream requests."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.api.context import ApiContext
from headwater.api.paging import LIST_LIMIT, NAMES_LIMIT, SUBJECTS_LIMIT, fitting, page
from headwater.api.request import Request
from headwater.api.stream_info import listed_info, stream_info
from headwater.control.pipeline_rules import check_pipelines
from headwater.control.rules import ConsumerBounds
from headwater.errors import api_error
from headwater.model.row_pipeline import KEY
from headwater.model.stream import MAX_SEQUENCE, StreamConfig
from headwater.model.times import format_time
from headwater.stream.stream import Stream
from headwater.stream.subjects import in_order
from headwater.wire.go_json import boolean, int_, string, uint64
from headwater.wire.stream_json import Json, decode_config

_PAGE_FIELDS = {"offset": int_, "subject": string}
_INFO_FIELDS = {"deleted_details": boolean, "subjects_filter": string, "offset": int_}
_PURGE_FIELDS = {"filter": string, "seq": uint64, "keep": uint64}
# Room for the rest of an answer next to a list in it.
_ENVELOPE_BYTES = 64 * 1024
_ENCODER = msgspec.json.Encoder()


async def create(context: ApiContext, request: Request) -> Json:
    """Declare a stream; declaring it again with the same config changes nothing."""
    config, pedantic = decode_config(request.body)
    await _require_valid_sql(context, config)
    stream, created = await context.domain.create_stream(config, pedantic=pedantic, name=request.stream)
    if created:
        context.advisories.stream_action(stream.name, "create")
    return {**await stream_info(context, stream, domain=False), "did_create": True}


async def update(context: ApiContext, request: Request) -> Json:
    """Replace the config of a stream."""
    config, pedantic = decode_config(request.body)
    await _require_valid_sql(context, config)
    stream = await context.domain.update_stream(
        config, pedantic=pedantic, name=request.stream, consumers=_bounds(context, config.name)
    )
    context.advisories.stream_action(stream.name, "modify")
    return await stream_info(context, stream)


async def _require_valid_sql(context: ApiContext, config: StreamConfig) -> None:
    """Have Spark check the SQL of row pipelines, once everything else of them is valid."""
    if KEY in config.metadata:
        check_pipelines(config, {each.name: each for each in context.domain.configs()})
        await context.upstreams.require_valid(config)


def _bounds(context: ApiContext, name: str) -> Iterator[ConsumerBounds]:
    """Yield the consumers' limits that a change must not undercut; read when the stream is changed."""
    stream = context.domain.find(name)
    for consumer in context.consumers.of(stream) if stream is not None else ():
        config = consumer.config
        yield ConsumerBounds(consumer.name, config.inactive_threshold, config.max_ack_pending)


async def delete(context: ApiContext, request: Request) -> Json:
    """Remove a stream with all its messages."""
    await context.domain.delete_stream(request.stream)
    context.advisories.stream_action(request.stream, "delete")
    return {"success": True}


async def names(context: ApiContext, request: Request) -> Json:
    """List the names of streams, all or those that capture a subject."""
    asked = request.decode_optional(_PAGE_FIELDS, "JSApiStreamNamesRequest")
    found = context.domain.names(asked.get("subject", ""))
    shown, paging = page(found, asked.get("offset", 0), NAMES_LIMIT)
    return {**paging, "streams": list(shown) or None}


async def list_(context: ApiContext, request: Request) -> Json:
    """List streams, all or those that capture a subject; a page is bounded by the size of a message."""
    asked = request.decode_optional(_PAGE_FIELDS, "JSApiStreamListRequest")
    found = context.domain.names(asked.get("subject", ""))
    shown, paging = page(found, asked.get("offset", 0), LIST_LIMIT)
    streams = [stream for name in shown if (stream := context.domain.find(name)) is not None]
    now = format_time(context.clock.now_ns())
    texts = {
        stream.name: text for stream in streams if (text := listed_info(context, stream, now)) is not None
    }
    answers = await context.domain.late.ask(
        (stream for stream in streams if stream.name not in texts),
        lambda stream: stream_info(context, stream, versions=False, progress=request.wants_progress),
    )
    # Encoded here for their sizes, and not again in the answer.
    texts |= {name: msgspec.Raw(_ENCODER.encode(info)) for name, info in answers.given.items()}
    infos = [texts[name] for name in shown if name in texts]
    sizes = [len(info) + 1 for info in infos]
    fit = fitting(sizes, context.connection.max_payload - _ENVELOPE_BYTES)
    if fit < len(infos):
        infos, paging["limit"] = infos[:fit], fit
    answer: Json = {**paging, "streams": infos}
    offline = {name: context.domain.offline[name] for name in shown if name in context.domain.offline}
    offline |= answers.failed
    if offline:
        answer["offline"] = offline
    # As in nats-server, `missing` names all that are not shown, and `offline` has the reason if it is known.
    if missing := sorted((*answers.missing, *offline)):
        answer["missing"] = missing
    return answer


async def info(context: ApiContext, request: Request) -> Json:
    """Return a stream's info, with its deleted sequences or its subjects if requested."""
    asked = request.decode_optional(_INFO_FIELDS, "JSApiStreamInfoRequest")
    stream = context.domain.stream(request.stream)
    state = await stream.reading.state()
    if asked.get("deleted_details"):
        state = msgspec.structs.replace(state, deleted=tuple(stream.reading.deleted()))
    paging: Json = {"total": 0, "offset": 0, "limit": 0}
    if asked.get("subjects_filter"):
        room = context.connection.max_payload - _ENVELOPE_BYTES
        offset = max(asked.get("offset", 0), 0)
        subjects, paging = await _subjects(stream, asked["subjects_filter"], offset, room)
        state = msgspec.structs.replace(state, subjects=subjects)
    return {
        **paging,
        **await stream_info(
            context,
            stream,
            state,
            cluster=True,
            progress=request.wants_progress,
            writing=request.wants_writing,
        ),
    }


async def _subjects(stream: Stream, filter: str, offset: int, room: int) -> tuple[dict[str, int], Json]:
    """Return a page of the matching subjects, with the number of messages of each."""
    counts = await stream.reading.counted_subjects(filter)
    if not counts:
        return {}, {"total": 0, "offset": 0, "limit": 0}
    names = await in_order(list(counts), offset + SUBJECTS_LIMIT)
    shown, paging = page(names, offset, SUBJECTS_LIMIT)
    paging["total"] = len(counts)
    fit = fitting([len(subject) + 16 for subject in shown], room)
    if fit < len(shown):
        shown, paging["limit"] = shown[:fit], fit
    paging["offset"] = offset
    return {subject.decode(errors="replace"): counts[subject] for subject in shown}, paging


async def purge(context: ApiContext, request: Request) -> Json:
    """Remove messages: all, those of a subject, those below a sequence, or all but the newest."""
    asked = request.decode_optional(_PURGE_FIELDS, "JSApiStreamPurgeRequest")
    seq, keep = asked.get("seq", 0), asked.get("keep", 0)
    if seq and keep:
        raise api_error("bad_request")
    if seq > MAX_SEQUENCE:
        raise api_error("stream_purge_failed", err=f"sequence must not be above {MAX_SEQUENCE}")
    stream = context.domain.stream(request.stream)
    if stream.config.sealed:
        raise api_error("stream_sealed")
    if stream.config.deny_purge:
        raise api_error("stream_purge_failed", err="stream purge not permitted")
    purged = await stream.retention.purge(filter=asked.get("filter", ""), seq=seq, keep=keep)
    return {"success": True, "purged": purged}
