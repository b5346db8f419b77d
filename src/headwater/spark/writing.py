"""One write of a DataFrame to a stream: the stream, how it is written, and the name of the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import uuid4

from headwater.errors import SettingsError
from headwater.replication.work import NatsOrigin
from headwater.spark.bulk_client import SinkError, bulk_client
from headwater.spark.connection_options import (
    CONNECTION_OPTIONS,
    DEFAULT_SERVER,
    origin_of,
    refuse_unknown,
)
from headwater.wire.bulk_requests import MOST_NAME, MOST_NUMBER

SINK_OPTIONS: Mapping[str, str] = {
    "stream": "the stream's name",
    "server": f"the nats-server, several with commas; {DEFAULT_SERVER} by default",
    **CONNECTION_OPTIONS,
    "mode": "engine (a batch as one change), publish (message by message), or auto: what the server can",
    "queryId": "for write: who writes; each batchId of a query is stored once",
    "batchId": "for write: the number of the batch, not smaller than those before",
    "streamCreated": "when the stream was created, as its info says; a re-created one is refused",
}
IGNORED = ("checkpointlocation", "path", "outputmode", "queryname")
"""Spark's own options of a streaming query."""


class SinkMode(StrEnum):
    """How messages get into the stream."""

    AUTO = "auto"
    ENGINE = "engine"
    PUBLISH = "publish"


@dataclass(frozen=True)
class Writing:
    """Where a DataFrame goes, and under which name."""

    origin: NatsOrigin
    mode: SinkMode
    query: str
    """Empty if the option is not given."""
    batch: int
    job: str
    """A random name for this write."""
    created: str = ""
    """When the stream was created; empty if the option is not given."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Writing:
        """Return what the options say."""
        refuse_unknown(options, SINK_OPTIONS, IGNORED)
        mode = options.get("mode") or SinkMode.AUTO
        if mode not in list(SinkMode):
            raise SettingsError(f"option mode must be {', '.join(SinkMode)}, not {mode!r}")
        query, batch = options.get("queryId") or "", options.get("batchId") or "0"
        if not (query.isascii() and query.isprintable() and " " not in query and len(query) <= MOST_NAME):
            raise SettingsError(f"option queryId must be a short name, not {query!r}")
        if not batch.isdecimal() or int(batch) > MOST_NUMBER:
            raise SettingsError(f"option batchId must be a number, not {batch!r}")
        if options.get("batchId") and not query:
            raise SettingsError("option batchId needs a queryId")
        created = options.get("streamCreated") or ""
        return cls(_origin(options), SinkMode(mode), query, int(batch), uuid4().hex, created)

    def settled(self) -> Writing:
        """Return the write with the mode that the server can; raise if there is no such stream."""
        with bulk_client(self.origin) as client:
            offer = client.offer()
        if self.mode is SinkMode.ENGINE and offer is None:
            raise SinkError("the server takes no bulk writes: it is not a Headwater engine, or an older one")
        mode = SinkMode.PUBLISH if offer is None or self.mode is SinkMode.PUBLISH else SinkMode.ENGINE
        return replace(self, mode=mode)


def _origin(options: Mapping[str, str]) -> NatsOrigin:
    stream = options.get("stream")
    if not stream:
        raise SettingsError("missing option stream")
    return origin_of(options, stream)
