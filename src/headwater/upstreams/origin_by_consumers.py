"""The state of an origin, learnt from consumers alone, if its account exports only the consumer API.

Consumers are created for a moment and never deliver. The answer contains the sequence at which they would
begin: for the policy `all` the first message, for the policy `new` the one after the last.
"""

from __future__ import annotations

import json
from typing import Any

from headwater.bus.connection import Connection, DeniedError, NoRespondersError
from headwater.errors import ApiError, api_error
from headwater.model import headers as header_block
from headwater.model.unique import unique_id
from headwater.replication import durable
from headwater.replication.exports import unanswered
from headwater.replication.hidden_consumer import hidden_consumer
from headwater.upstreams.planner import OriginRange
from headwater.wire.frames import Frame

ASK_S = 3.0
"""How long a remote origin may take to answer."""
_IDENTITY = b"Nats-Stream-Identity"
UNKNOWN = "unknown"
"""The identity of a stream whose server does not report one: its re-creation cannot be detected."""


class OriginUnansweredError(ApiError):
    """No service answers on a subject of an origin's API; the text names what may be missing."""

    def __init__(self, subject: str) -> None:
        row = api_error("stream_general_error", err=unanswered(subject))
        super().__init__(row.name, row.code, row.err_code, row.description)
        self._subject = subject

    def of_known_origin(self) -> ApiError:
        """Return the error for an origin that answered before: no export is missing."""
        return api_error(
            "stream_general_error", err=f"no responders on {self._subject}: the origin is unreachable"
        )


async def request(connection: Connection, subject: str, body: dict[str, Any] | None = None) -> Frame:
    """Return the answer on a subject of a remote origin, also if it contains an error."""
    data = json.dumps(body).encode() if body else b""
    try:
        return await connection.request(subject.encode(), data, ASK_S)
    except NoRespondersError:
        raise OriginUnansweredError(subject) from None
    except DeniedError as error:
        why = f"{error}: the server's permissions do not allow it to this engine's user"
        raise api_error("stream_general_error", err=why) from None
    except TimeoutError:
        raise api_error("stream_general_error", err=f"no answer from {subject}") from None


def answer_of(frame: Frame) -> dict[str, Any]:
    """Return an answer's JSON; raise the error that it contains."""
    try:
        answer: dict[str, Any] = json.loads(frame[3])
        found = answer.get("error")
        error = found and ApiError("origin", found["code"], found.get("err_code", 0), found["description"])
    except (ValueError, LookupError, TypeError, AttributeError):
        shown = frame[3][:100].decode(errors="replace")
        raise api_error("stream_general_error", err=f"this is not a JetStream answer: {shown}") from None
    if error:
        raise error
    return answer


async def extent_by_consumers(connection: Connection, api: str, stream: str, deliver: str) -> OriginRange:
    """Return the range of the origin."""
    before_first, identity, ack_policy = await _place(connection, api, stream, deliver, "all")
    last, again, _ = await _place(connection, api, stream, deliver, "new")
    if identity != again:
        raise api_error("stream_general_error", err=f"stream {stream!r} was re-created just now")
    # A stream that removes acknowledged messages replaces the ack policy that a source asks for.
    if ack_policy != "none":
        return OriginRange(identity, before_first + 1, last, "", "interest")
    return OriginRange(identity, before_first + 1, last)


async def seq_at(connection: Connection, api: str, stream: str, deliver: str, start_time: str) -> int:
    """Return the first sequence that is not older than a time, or the one after the last."""
    policy = "by_start_time"
    before, _, _ = await _place(connection, api, stream, deliver, policy, opt_start_time=start_time)
    return before + 1


async def _place(
    connection: Connection, api: str, stream: str, deliver: str, policy: str, **more: Any
) -> tuple[int, str, str]:
    """Return the sequence before the one a consumer begins with, the stream's identity, the ack policy."""
    config = hidden_consumer(
        f"{deliver}.{unique_id()}",
        name=f"HEADWATER_{unique_id()}",
        sourcing=True,
        deliver_policy=policy,
        **more,
    )
    frame, made = await _made(connection, api, {"stream_name": stream, "config": config})
    # No reply is awaited: if the request is lost, the origin removes the inactive consumer by itself.
    connection.publish(f"{api}.CONSUMER.DELETE.{stream}.{made['name']}".encode(), b"")
    identity = header_block.get(frame[2], _IDENTITY)
    shown = identity.decode() if identity else UNKNOWN
    return int(made["delivered"]["stream_seq"]), shown, str(made["config"]["ack_policy"])


async def _made(connection: Connection, api: str, asked: dict[str, Any]) -> tuple[Frame, dict[str, Any]]:
    """Return the consumer that an origin creates, with as many of the wanted options as it accepts."""
    while True:
        frame = await request(connection, f"{api}.CONSUMER.CREATE.{asked['stream_name']}", asked)
        try:
            return frame, answer_of(frame)
        except ApiError as error:
            simpler = durable.simpler_request(asked, error.err_code)
            if simpler is None:
                raise
            asked = simpler
