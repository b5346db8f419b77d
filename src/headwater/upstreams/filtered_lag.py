"""How many messages a remote origin still has for an upstream's filters.

Only a consumer reports that number. As nats-server does for its own sources, a consumer is created for a
moment. It never delivers, and the answer to its creation contains the number. This happens when the origin
has grown, and not often. In between, each new sequence is counted as a matching one.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from headwater.bus.connection import Connection
from headwater.clock import Clock
from headwater.errors import ApiError
from headwater.model.unique import unique_id
from headwater.replication.hidden_consumer import hidden_consumer
from headwater.upstreams.origin_by_consumers import answer_of, request
from headwater.upstreams.planner import OriginRange
from headwater.upstreams.upstream import Upstream

EVERY_NS = 2_000_000_000
"""How long a count is used before the origin is asked again."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """How many messages were to be copied from `start_seq` on when the origin ended at `last_seq`."""

    start_seq: int
    last_seq: int
    lag: int
    at_ns: int


class FilteredLag:
    """Counts the messages that match filters at remote origins."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._measured: WeakKeyDictionary[Upstream, _Measured] = WeakKeyDictionary()
        """The last measurement of each upstream."""

    async def of(self, upstream: Upstream, extent: OriginRange, start_seq: int, api: str) -> int:
        """Return how many messages from a sequence on match the upstream's filters, or an upper bound."""
        span = max(extent.last_seq - start_seq + 1, 0)
        if not span or not upstream.filters or ">" in upstream.filters:
            return span
        known, now_ns = self._measured.get(upstream), self._clock.now_ns()
        is_new = known is None or (known.start_seq, known.last_seq) != (start_seq, extent.last_seq)
        if known is None or (is_new and now_ns - known.at_ns >= EVERY_NS):
            try:
                lag = await self._ask(upstream, start_seq, api)
            except ApiError:
                return span
            known = _Measured(start_seq, extent.last_seq, lag, now_ns)
            self._measured[upstream] = known
        if known.start_seq > start_seq:
            return span
        return min(known.lag + max(extent.last_seq - known.last_seq, 0), span)

    async def _ask(self, upstream: Upstream, start_seq: int, api: str) -> int:
        stream, filters = upstream.source.name, upstream.filters
        external = upstream.source.external
        deliver = external.deliver if external is not None else ""
        config = hidden_consumer(
            # No client subscribes to this subject.
            f"{deliver or '_INBOX.headwater.lag'}.{unique_id()}",
            filters,
            deliver_policy="by_start_sequence",
            opt_start_seq=start_seq,
        )
        asked = {"stream_name": stream, "config": config}
        made = answer_of(await request(self._connection, f"{api}.CONSUMER.CREATE.{stream}", asked))
        # No reply is awaited: if the request is lost, the origin removes the inactive consumer by itself.
        self._connection.publish(f"{api}.CONSUMER.DELETE.{stream}.{made['name']}".encode(), b"")
        return int(made["num_pending"])
