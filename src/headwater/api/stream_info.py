"""A stream as the API shows it."""

from __future__ import annotations

import msgspec

from headwater.api.cluster_info import cluster_info
from headwater.api.context import ApiContext
from headwater.api.info_texts import InfoBasis
from headwater.api.request import API_LEVEL, VERSION
from headwater.model.stream import StreamConfig, StreamState
from headwater.model.times import format_time
from headwater.stream.bulk.bulk import MOST_RULED_BYTES, MOST_RULED_MESSAGES
from headwater.stream.stream import Stream
from headwater.wire import bulk_requests
from headwater.wire.progress_json import EXTENSION
from headwater.wire.stream_json import Json, config_json, source_info_json, state_json


async def stream_info(
    context: ApiContext,
    stream: Stream,
    state: StreamState | None = None,
    *,
    domain: bool = True,
    cluster: bool = False,
    versions: bool = True,
    progress: bool = False,
    writing: bool = False,
) -> Json:
    """Return the StreamInfo; its parts depend on the request, as in nats-server."""
    state = await stream.reading.state() if state is None else state
    info = _own_info(context, stream, state, versions=versions)
    if domain and context.domain_name:
        info["domain"] = context.domain_name
    # A single server shows the leader when asked for one stream. A cluster always shows it.
    if cluster or context.cluster_name:
        info["cluster"] = cluster_info(context, stream.config.num_replicas)
    await context.upstreams.refresh(stream)
    mirror, sources = context.upstreams.infos(stream)
    if mirror is not None:
        info["mirror"] = source_info_json(mirror, progress=progress)
    if sources:
        info["sources"] = [source_info_json(source, progress=progress) for source in sources]
    if progress and stream.failure:
        info[EXTENSION] = {"error": stream.failure}
    if writing:
        info[EXTENSION] = {**info.get(EXTENSION, {}), "write": _writing(stream)}
    info["ts"] = format_time(context.clock.now_ns())
    return info


def listed_info(context: ApiContext, stream: Stream, now: str) -> msgspec.Raw | None:
    """Return the info of a stream for a list, if no part of it has to be waited for."""
    if context.cluster_name or stream.failure or context.upstreams.of(stream.name):
        return None
    state = stream.reading.settled_state()
    if state is None:
        return None
    domain = {"domain": context.domain_name} if context.domain_name else {}
    basis = InfoBasis(stream.config, state, context.consumers.count(stream))
    return context.info_texts.of(
        stream, basis, now, lambda: {**_own_info(context, stream, state, versions=False), **domain}
    )


def _own_info(context: ApiContext, stream: Stream, state: StreamState, *, versions: bool) -> Json:
    """Return what an info says of the stream itself."""
    return {
        "config": _versioned(stream.config) if versions else context.config_texts.of(stream),
        "created": format_time(stream.created_ns),
        "state": {**state_json(state), "consumer_count": context.consumers.count(stream)},
    }


def _versioned(config: StreamConfig) -> Json:
    """Return the config with the server's version and API level, which are shown but never stored."""
    metadata = {**config.metadata, "_nats.level": str(API_LEVEL), "_nats.ver": VERSION}
    return {**config_json(config), "metadata": dict(sorted(metadata.items()))}


def _writing(stream: Stream) -> Json:
    """Return how clients write to a stream in bulk; with limits where its rules need each message."""
    shown: Json = {"version": bulk_requests.VERSION}
    if stream.bulk.is_ruled:
        shown |= {"most_messages": MOST_RULED_MESSAGES, "most_bytes": MOST_RULED_BYTES}
    return shown
