"""`headwater.spark.register`: every stream of a server or a store as a view of a Spark session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headwater.control.declaration import read_declaration
from headwater.disk import RealDisk
from headwater.errors import BusError, SettingsError
from headwater.lake.lake import Lake
from headwater.model.payload_schema import schema_in
from headwater.replication.worker.client import BlockingClient
from headwater.replication.worker.origin import connect_options
from headwater.spark.reading import Reading

_SERVERS = ("nats", "tls")


@dataclass(frozen=True)
class ViewedStream:
    """A stream that becomes a view."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    """Of its read; they may contain a password."""
    schema: Any = None
    """The JSON Schema of its payload, if it has one."""


def register(spark: Any, place: str | Path, *, account: str | None = None, **options: str) -> list[str]:
    """Make each stream a temporary view of a Spark session, and return the names of the views.

    `place` is a server (`nats://127.0.0.1:4222`) or the folder of a store. The options are those of the data
    source; with a store, `server` adds what is not in its tables yet. A stream with a registered schema has
    typed fields in `data`, and `_corrupt`. A view shows its stream as it is when it is first used: call this
    again to see newer messages.
    """
    streams = streams_of(place, options, account)
    for stream in streams:
        frame = frame_of(spark, stream.options, stream.schema)
        frame.createOrReplaceTempView("`" + stream.name.replace("`", "``") + "`")
    return [stream.name for stream in streams]


def frame_of(spark: Any, options: Mapping[str, str], schema: Any) -> Any:
    """Return the DataFrame of a stream, decoded if it has a JSON Schema."""
    from headwater.spark.decoding import decode

    frame = spark.read.format("headwater").options(**options).load()
    return frame if schema is None else decode(frame, "json", schema)


def streams_of(
    place: str | Path, options: Mapping[str, str], account: str | None = None
) -> list[ViewedStream]:
    """Return the streams of a server or of a store, in order."""
    if urlsplit(str(place)).scheme in _SERVERS:
        return _on_server({**options, "server": str(place)})
    found = Lake(place).streams(account)
    names = [stream.name for stream in found]
    if len(set(names)) < len(names):
        accounts = ", ".join(sorted({stream.account for stream in found}))
        raise SettingsError(f"several accounts have streams of the same name: {accounts}; name one")
    return [
        ViewedStream(each.name, {**options, "path": str(each.path)}, _declared(each.path)) for each in found
    ]


def _on_server(options: Mapping[str, str]) -> list[ViewedStream]:
    origin = Reading({**options, "stream": "any"}).origin
    assert origin is not None
    found: list[ViewedStream] = []
    with BlockingClient(connect_options(origin)) as client:
        while True:
            answer = client.request(f"{origin.api_prefix}.STREAM.LIST", {"offset": len(found)})
            if error := answer.get("error"):
                raise BusError(f"cannot list streams: {error.get('description')}")
            page = [each["config"] for each in answer.get("streams") or ()]
            found += [
                ViewedStream(
                    each["name"], {**options, "stream": each["name"]}, schema_in(each.get("metadata"))
                )
                for each in page
            ]
            if not page or len(found) >= int(answer.get("total", 0)):
                return sorted(found, key=lambda stream: stream.name)


def _declared(path: Path) -> Any:
    declared = read_declaration(RealDisk(), path)
    return schema_in(json.loads(declared.config).get("metadata")) if declared is not None else None
