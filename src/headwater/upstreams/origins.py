"""The origins of upstreams, local or remote: their ranges, lags and start sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.bus.connection import Connection
from headwater.control.domain import Domain
from headwater.errors import ApiError, api_error
from headwater.model.cursor import Cursor
from headwater.model.gaps import PURGE, RETENTION
from headwater.model.stream import StreamConfig
from headwater.model.times import format_time, parse_time
from headwater.model.upstream import StreamSource, hash8
from headwater.replication.worker.lost_end import is_lost, lost_end, query_after
from headwater.upstreams.origin_by_consumers import (
    OriginUnansweredError,
    answer_of,
    extent_by_consumers,
    request,
    seq_at,
)
from headwater.upstreams.planner import OriginRange
from headwater.upstreams.upstream import Upstream

_BAD_REQUEST = 10003
_NO_MESSAGE = 10037
_LIMITS = ("max_age", "max_msgs", "max_bytes", "max_msgs_per_subject", "allow_msg_ttl")
COUNTED = 20_000
"""Up to this many messages are counted one by one where a filter excludes some of them."""


class Origins:
    """Reads the state of origins; of remote ones through their API, with short timeouts."""

    def __init__(self, domain: Domain, connection: Connection) -> None:
        self._domain = domain
        self._connection = connection

    async def extent(self, source: StreamSource) -> OriginRange:
        """Return the range of the origin."""
        if source.external is None:
            origin = self._domain.stream(source.name)
            takes_out = _takes_out(_limits_of(origin.config))
            retention = origin.config.retention.value
            return OriginRange(
                origin.identity, origin.reading.first_seq, origin.reading.durable_seq, takes_out, retention
            )
        try:
            info = await self.ask(f"{prefix(source)}.STREAM.INFO.{source.name}")
        except OriginUnansweredError:
            if not source.external.deliver:
                raise
            api, deliver = prefix(source), source.external.deliver
            return await extent_by_consumers(self._connection, api, source.name, deliver)
        state, config = info["state"], info["config"]
        identity, retention = hash8(info["created"]), config.get("retention", "limits")
        last_ts = max(parse_time(state.get("last_ts") or "") or 0, 0)
        return OriginRange(
            identity, state["first_seq"], state["last_seq"], _takes_out(config), retention, last_ts
        )

    async def lag(self, upstream: Upstream, extent: OriginRange, start_seq: int) -> int:
        """Return how many messages are still to be copied; an estimate if there are many behind a filter."""
        if start_seq > extent.last_seq:
            return 0
        if upstream.source.external is not None:
            return extent.last_seq - start_seq + 1
        origin, filters = self._domain.stream(upstream.source.name), upstream.filters
        left = await origin.reading.pending(start_seq)
        if not filters or left <= COUNTED:
            return await origin.reading.pending(start_seq, filters)
        # Counting them would mean reading them, at each step of a long copy.
        matching = await origin.reading.pending(0, filters)
        return round(left * matching / max(await origin.reading.pending(0), 1))

    async def oldest_ns(self, upstream: Upstream, start_seq: int) -> int | None:
        """Return when the next message to copy was stored at the origin; None if there is none.

        Filters are ignored: finding a rare subject could mean reading everything that will be copied.
        """
        source = upstream.source
        if source.external is None:
            found = await self._domain.stream(source.name).reading.next(">", start_seq)
            return found.ts if found is not None else None
        body = {"seq": start_seq, "next_by_subj": ">"}
        try:
            answer = await self.ask(f"{prefix(source)}.STREAM.MSG.GET.{source.name}", body)
        except OriginUnansweredError:
            return None  # the request is not exported, which is no error
        except ApiError as error:
            if error.err_code != _NO_MESSAGE:
                raise
            return None
        return parse_time(answer["message"]["time"])

    async def first_lost(self, source: StreamSource, cursor: Cursor, extent: OriginRange) -> int:
        """Return the first sequence up to the cursor that is another message than the copied one; 0 if none.

        An origin that does not show single messages, or not by time, is trusted.
        """
        if source.external is None or not cursor.ts or 0 < extent.last_ts <= cursor.ts:
            return 0
        subject, is_known = f"{prefix(source)}.STREAM.MSG.GET.{source.name}", False
        for query in ({"seq": cursor.seq}, query_after(cursor.ts)):
            try:
                message = (await self.ask(subject, query))["message"]
            except OriginUnansweredError:
                return 0
            except ApiError as error:
                if error.err_code not in (_NO_MESSAGE, _BAD_REQUEST):
                    raise
                continue
            if not is_lost(cursor, message):
                return 0
            if "start_time" in query:
                return int(message["seq"])
            is_known = True
        return await self._found_lost(source, cursor, extent) if is_known else 0

    async def _found_lost(self, source: StreamSource, cursor: Cursor, extent: OriginRange) -> int:
        """Return the same for a server before 2.11, which cannot find a message by its time."""
        if extent.retention != "limits":
            raise api_error("stream_general_error", err=lost_end(source.name))
        deliver = source.external.deliver if source.external else ""
        after = query_after(cursor.ts)["start_time"]
        return await seq_at(self._connection, prefix(source), source.name, deliver or "_INBOX", after)

    async def seq_at(self, source: StreamSource, extent: OriginRange) -> int:
        """Return the first sequence of an origin that is not older than the start time."""
        assert source.opt_start_time is not None
        if source.external is None:
            return await self._domain.stream(source.name).reading.seq_at(source.opt_start_time)
        start_time = format_time(source.opt_start_time)
        try:
            subject = f"{prefix(source)}.STREAM.MSG.GET.{source.name}"
            answer = await self.ask(subject, {"start_time": start_time})
        except ApiError as error:
            if error.err_code == _NO_MESSAGE:
                return extent.last_seq + 1
            # Before 2.11 a message cannot be requested by its time, or the request is not exported.
            if not (error.err_code == _BAD_REQUEST or isinstance(error, OriginUnansweredError)):
                raise
            deliver = source.external.deliver or "_INBOX"
            return await seq_at(self._connection, prefix(source), source.name, deliver, start_time)
        message = answer["message"]
        # For a time after the last message, nats-server answers with the first one.
        is_older = (parse_time(message["time"]) or 0) < source.opt_start_time
        return extent.last_seq + 1 if is_older else int(message["seq"])

    async def ask(self, subject: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer on a subject of a remote origin; errors in it are raised."""
        return answer_of(await request(self._connection, subject, body))


def _limits_of(config: StreamConfig) -> dict[str, Any]:
    """Return the fields of a config that remove messages, by their wire names."""
    return {"retention": config.retention.value, **{name: getattr(config, name) for name in _LIMITS}}


def _takes_out(config: Mapping[str, Any]) -> str:
    """Return why messages leave a stream of this config before they are copied."""
    if config.get("retention", "limits") != "limits":
        return ""
    limited = any((config.get(name) or 0) > 0 for name in _LIMITS)
    return RETENTION if limited else PURGE


def prefix(source: StreamSource) -> str:
    """Return the API prefix of a remote origin."""
    assert source.external is not None
    return source.external.api or "$JS.API"
