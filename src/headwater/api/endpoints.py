"""The endpoints of the API as data: their subjects, handlers and response types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from headwater.api import account, cluster, consumers, messages, restore, snapshot, streams
from headwater.api.context import ApiContext
from headwater.api.request import Request, WithHeaders
from headwater.model.times import ZERO_TIME
from headwater.wire.stream_json import Json

Handler = Callable[[ApiContext, Request], Awaitable[Json | WithHeaders]]


class Body(Enum):
    """What the body of a request must be before its handler runs."""

    ANY = auto()
    EMPTY = auto()
    NEEDED = auto()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row: the subject below the prefix, the type of its answers, and its handler.

    `zero` are the fields that an answer has even if it is an error. A handler that only reads may have
    `within_s` to answer: a stream that does not answer by then is reported as unavailable.
    """

    pattern: str
    response: str
    handler: Handler
    body: Body = Body.ANY
    zero: Mapping[str, Any] = field(default_factory=dict)
    audited: bool = True
    within_s: float | None = None

    @property
    def type(self) -> str:
        """Return the type of the answers."""
        return f"io.nats.jetstream.api.v1.{self.response}"


INFO_WITHIN_S = 6.0
"""Longer than asking all streams once may take (`control/late_streams`)."""
READ_WITHIN_S = 30.0
"""For requests that may have to read the stream."""
_PAGED = {"total": 0, "offset": 0, "limit": 0}

ENDPOINTS = (
    Endpoint("INFO", "account_info_response", account.info),
    Endpoint("STREAM.CREATE.{stream}", "stream_create_response", streams.create),
    Endpoint("STREAM.UPDATE.{stream}", "stream_update_response", streams.update),
    Endpoint("STREAM.NAMES", "stream_names_response", streams.names, zero={**_PAGED, "streams": None}),
    Endpoint("STREAM.LIST", "stream_list_response", streams.list_, zero={**_PAGED, "streams": []}),
    Endpoint(
        "STREAM.INFO.{stream}", "stream_info_response", streams.info, zero=_PAGED, within_s=INFO_WITHIN_S
    ),
    Endpoint("STREAM.DELETE.{stream}", "stream_delete_response", streams.delete, Body.EMPTY),
    Endpoint("STREAM.PURGE.{stream}", "stream_purge_response", streams.purge, zero={"purged": 0}),
    Endpoint(
        "STREAM.MSG.GET.{stream}",
        "stream_msg_get_response",
        messages.get,
        Body.NEEDED,
        audited=False,
        within_s=READ_WITHIN_S,
    ),
    Endpoint("STREAM.MSG.DELETE.{stream}", "stream_msg_delete_response", messages.delete, Body.NEEDED),
    Endpoint("STREAM.SNAPSHOT.{stream}", "stream_snapshot_response", snapshot.begin, Body.NEEDED),
    Endpoint(
        "STREAM.RESTORE.{stream}",
        "stream_restore_response",
        restore.begin,
        Body.NEEDED,
        zero={"deliver_subject": ""},
    ),
    Endpoint("STREAM.PEER.REMOVE.{stream}", "stream_remove_peer_response", cluster.refuse),
    Endpoint("STREAM.PEER.EVACUATE.{stream}", "stream_evacuate_peer_response", cluster.refuse),
    Endpoint("STREAM.LEADER.STEPDOWN.{stream}", "stream_leader_stepdown_response", cluster.refuse),
    Endpoint("STREAM.CANCEL_MOVE.{stream}", "stream_cancel_move_response", cluster.refuse),
    Endpoint("CONSUMER.CREATE.{stream}", "consumer_create_response", consumers.create),
    Endpoint("CONSUMER.CREATE.{stream}.{consumer}", "consumer_create_response", consumers.create),
    Endpoint("CONSUMER.CREATE.{stream}.{consumer}.>", "consumer_create_response", consumers.create),
    Endpoint("CONSUMER.DURABLE.CREATE.{stream}.{consumer}", "consumer_create_response", consumers.create),
    Endpoint(
        "CONSUMER.NAMES.{stream}",
        "consumer_names_response",
        consumers.names,
        zero={**_PAGED, "consumers": []},
    ),
    Endpoint(
        "CONSUMER.LIST.{stream}",
        "consumer_list_response",
        consumers.list_,
        zero={**_PAGED, "consumers": []},
        within_s=READ_WITHIN_S,
    ),
    Endpoint(
        "CONSUMER.INFO.{stream}.{consumer}",
        "consumer_info_response",
        consumers.info,
        Body.EMPTY,
        within_s=READ_WITHIN_S,
    ),
    Endpoint("CONSUMER.DELETE.{stream}.{consumer}", "consumer_delete_response", consumers.delete, Body.EMPTY),
    Endpoint(
        "CONSUMER.PAUSE.{stream}.{consumer}",
        "consumer_pause_response",
        consumers.pause,
        zero={"paused": False, "pause_until": ZERO_TIME},
    ),
    Endpoint("CONSUMER.UNPIN.{stream}.{consumer}", "consumer_unpin_response", consumers.unpin),
    Endpoint(
        "CONSUMER.RESET.{stream}.{consumer}",
        "consumer_reset_response",
        consumers.reset,
        zero={"reset_seq": 0},
    ),
    Endpoint(
        "CONSUMER.LEADER.STEPDOWN.{stream}.{consumer}", "consumer_leader_stepdown_response", cluster.refuse
    ),
)

UNANSWERED = ("META.>", "SERVER.>", "ACCOUNT.>")
"""Requests of the system account, which a nats-server outside of a cluster does not answer either."""

MSG_NEXT = "CONSUMER.MSG.NEXT."
"""Pull requests, which are answered with messages."""


@dataclass(frozen=True, slots=True)
class EndpointMatch:
    """The endpoint of a subject, and the names in the subject."""

    endpoint: Endpoint
    stream: str
    consumer: str


def find(subject: str) -> EndpointMatch | None:
    """Return the endpoint for this subject below the prefix, or None."""
    tokens = subject.split(".")
    for endpoint in _BY_LENGTH.get(len(tokens), ()):
        names = _match(endpoint, tokens)
        if names is not None:
            return EndpointMatch(endpoint, names.get("{stream}", ""), names.get("{consumer}", ""))
    for endpoint in _OPEN_ENDED:
        names = _match(endpoint, tokens[: endpoint.pattern.count(".")])
        if names is not None and all(tokens):
            return EndpointMatch(endpoint, names.get("{stream}", ""), names.get("{consumer}", ""))
    return None


def _match(endpoint: Endpoint, tokens: list[str]) -> dict[str, str] | None:
    """Return the names at the pattern's placeholders if all other tokens are equal."""
    names = {}
    wanted = endpoint.pattern.removesuffix(".>").split(".")
    if len(wanted) != len(tokens):
        return None
    for want, token in zip(wanted, tokens, strict=True):
        if want.startswith("{") and token:
            names[want] = token
        elif want != token:
            return None
    return names


_OPEN_ENDED = tuple(e for e in ENDPOINTS if e.pattern.endswith(".>"))
_BY_LENGTH: dict[int, list[Endpoint]] = {}
for _endpoint in ENDPOINTS:
    if _endpoint not in _OPEN_ENDED:
        _BY_LENGTH.setdefault(_endpoint.pattern.count(".") + 1, []).append(_endpoint)
