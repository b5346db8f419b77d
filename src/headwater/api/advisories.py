"""Advisories about streams and API requests, published for subscribers."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from headwater.api.request import Request
from headwater.bus.connection import Connection
from headwater.clock import Clock
from headwater.model import headers
from headwater.model.stream import StreamConfig, StreamState
from headwater.model.times import format_time
from headwater.model.unique import unique_id
from headwater.stream.stream import Stream
from headwater.wire.stream_json import Json, state_json

logger = logging.getLogger(__name__)
_EVENT = "$JS.EVENT.ADVISORY."
_TYPE = "io.nats.jetstream.advisory.v1."
_ACTIONS = {"create": "CREATED", "modify": "UPDATED", "delete": "DELETED"}


@dataclass(frozen=True, slots=True)
class Advisories:
    """Publishes advisories; one that cannot be sent is lost."""

    connection: Connection
    clock: Clock
    account: str
    server_name: str
    domain: str = ""
    _encoder: msgspec.json.Encoder = field(default_factory=msgspec.json.Encoder)

    def stream_action(self, stream: str, action: str) -> None:
        """Report that a stream was created (`create`), changed (`modify`) or removed (`delete`)."""
        subject = f"STREAM.{_ACTIONS[action]}.{stream}"
        self._publish(subject, "stream_action", {"stream": stream, "action": action})

    def on_opened(self, stream: Stream) -> None:
        """Report abandoned batches of the stream from now on."""
        stream.events.abandoned_callbacks.add(partial(self.batch_abandoned, stream.name))

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Do nothing: the component that changed it reports that."""

    def on_closed(self, stream: Stream) -> None:
        """Do nothing: the component that closed it reports that."""

    def batch_abandoned(self, stream: str, batch_id: bytes, reason: str) -> None:
        """Report that an atomic batch was abandoned."""
        fields = {"stream": stream, "batch": batch_id.decode(errors="replace"), "reason": str(reason)}
        self._publish(f"STREAM.BATCH_ABANDONED.{stream}", "stream_batch_abandoned", fields)

    def snapshot_begun(self, request: Request, state: StreamState) -> None:
        """Report that a snapshot has begun."""
        self._publish(
            f"STREAM.SNAPSHOT_CREATE.{request.stream}",
            "snapshot_create",
            {"stream": request.stream, "state": state_json(state), "client": self._client(request)},
        )

    def snapshot_ended(self, request: Request, start_ns: int, error: str) -> None:
        """Report that a snapshot has ended, successful or not."""
        fields = {"stream": request.stream, **self._span(start_ns), "client": self._client(request)}
        if error:
            fields["error"] = error
        self._publish(f"STREAM.SNAPSHOT_COMPLETE.{request.stream}", "snapshot_complete", fields)

    def restore_begun(self, request: Request) -> None:
        """Report that a restore waits for its chunks."""
        fields = {"stream": request.stream, "client": self._client(request)}
        self._publish(f"STREAM.RESTORE_CREATE.{request.stream}", "restore_create", fields)

    def restore_ended(self, request: Request, start_ns: int, size: int) -> None:
        """Report that a restore has ended after this many bytes."""
        fields = {
            "stream": request.stream,
            **self._span(start_ns),
            "bytes": size,
            "client": self._client(request),
        }
        self._publish(f"STREAM.RESTORE_COMPLETE.{request.stream}", "restore_complete", fields)

    def audit(self, request: Request, response: bytes) -> None:
        """Report a request and its answer."""
        fields: Json = {
            "server": self.server_name,
            "client": self._client(request),
            "subject": f"$JS.API.{request.subject}",
            "request": request.body.decode(errors="replace"),
            "response": response.decode(errors="replace"),
        }
        if not request.body:
            del fields["request"]
        self._publish("API", "api_audit", fields)

    def _publish(self, subject: str, kind: str, fields: Json) -> None:
        event: Json = {
            "type": _TYPE + kind,
            "id": unique_id(),
            "timestamp": format_time(self.clock.now_ns()),
            **fields,
        }
        if self.domain:
            event["domain"] = self.domain
        data = self._encoder.encode(event)
        if len(data) > self.connection.max_payload:
            logger.debug("an advisory of %d bytes on %s is too large to send", len(data), subject)
            return
        self.connection.publish((_EVENT + subject).encode(), data)

    def _span(self, start_ns: int) -> Json:
        return {"start": format_time(start_ns), "end": format_time(self.clock.now_ns())}

    def _client(self, request: Request) -> Any:
        """Return the client of a request; only requests through a service import name it."""
        info = headers.get(request.headers, b"Nats-Request-Info") if request.headers else None
        if info is not None:
            try:
                return msgspec.json.decode(info)
            except msgspec.DecodeError:
                pass
        return {"acc": self.account}
