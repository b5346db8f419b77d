"""The monitoring pages of NATS Streaming (server, store, clients, channels) in its own JSON."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from headwater.clock import Clock
from headwater.errors import Error
from headwater.model.times import SECOND, format_time
from headwater.stan.channel import Channel
from headwater.stan.clients import Client
from headwater.stan.door import StanDoor
from headwater.stan.limits import ChannelLimits
from headwater.stan.role import STANDALONE, Role
from headwater.stan.subscription import SharedFlow, StanSubscription
from headwater.version import VERSION

Answer = tuple[int, str, bytes]
Query = Mapping[str, str]
Handler = Callable[[Query], Awaitable[Answer]]
Json = dict[str, Any]
T = TypeVar("T")

DEFAULT_LIMIT = 1024
PREFIX = "/streaming"


class _WrongQueryError(Error):
    """A query option that is not a number."""


class Monitoring:
    """The monitoring pages of a running server."""

    def __init__(self, door: StanDoor, clock: Clock, role: Role = STANDALONE) -> None:
        self._door = door
        self._role = role
        self._clock = clock

    @property
    def pages(self) -> dict[str, Handler]:
        """Return the pages by their paths."""
        return {
            PREFIX: self._index,
            f"{PREFIX}/serverz": page(self._server),
            f"{PREFIX}/storez": page(self._store),
            f"{PREFIX}/clientsz": page(self._clients),
            f"{PREFIX}/channelsz": page(self._channels),
            f"{PREFIX}/isFTActive": self._is_active,
        }

    async def _index(self, query: Query) -> Answer:
        return index(self.pages)

    async def _is_active(self, query: Query) -> Answer:
        """Answer as the server that is active; `stan.standby` answers for one that waits."""
        # This page is about fault tolerance. In a cluster, `role` in serverz names the leader.
        return 204 if self._role.role else 200, "text/plain; charset=utf-8", b""

    def _envelope(self) -> Json:
        now = format_time(self._clock.now_ns())
        return {"cluster_id": self._door.cluster_id, "server_id": self._door.server_id, "now": now}

    async def _totals(self) -> Json:
        states = [await channel.stream.reading.state() for channel in list(self._door.channels)]
        return {
            "total_msgs": sum(state.messages for state in states),
            "total_bytes": sum(state.bytes for state in states),
        }

    async def _server(self, query: Query) -> Json:
        door, now_ns = self._door, self._clock.now_ns()
        channels = list(door.channels)
        return {
            "cluster_id": door.cluster_id,
            "server_id": door.server_id,
            **process(self._role, door.started_ns, now_ns),
            "clients": len(door.clients),
            "subscriptions": sum(channel.subs_count for channel in channels),
            "channels": len(channels),
            **await self._totals(),
            "in_msgs": door.publishing.in_msgs,
            "in_bytes": door.publishing.in_bytes,
            "out_msgs": door.outbox.out_msgs,
            "out_bytes": door.outbox.out_bytes,
            **files(),
        }

    async def _store(self, query: Query) -> Json:
        limits = self._door.channels.limits
        report: Json = {"max_channels": limits.max_channels, **_limits(limits.each)}
        if limits.channels:
            report["channels"] = {name: _limits(limits.of_pattern(name)) for name in limits.channels}
        return {**self._envelope(), "type": "FILE", "limits": report, **await self._totals()}

    async def _clients(self, query: Query) -> Json | None:
        with_subs = query.get("subs") == "1"
        if name := query.get("client"):
            client = self._door.clients.get(name)
            return self._client(client, with_subs) if client else None
        part = _Page.of(query, sorted(self._door.clients, key=lambda client: client.client_id))
        return {
            **self._envelope(),
            **part.counts,
            "clients": [self._client(c, with_subs) for c in part.shown],
        }

    def _client(self, client: Client, with_subs: bool) -> Json:
        subscriptions = list(self._door.subscriptions.of_client(client.client_id))
        report: Json = {
            "id": client.client_id,
            "hb_inbox": client.heartbeat_inbox,
            "subs_count": len(subscriptions),
        }
        if with_subs and subscriptions:
            by_channel: dict[str, list[Json]] = {}
            for subscription in subscriptions:
                by_channel.setdefault(subscription.channel, []).append(_subscription(subscription))
            report["subscriptions"] = by_channel
        return report

    async def _channels(self, query: Query) -> Json | None:
        with_subs = query.get("subs") == "1"
        if name := query.get("channel"):
            channel = self._door.channels.get(name)
            return await self._channel(channel, with_subs) if channel else None
        part = _Page.of(query, sorted(self._door.channels, key=lambda channel: channel.name))
        report: Json = {**self._envelope(), **part.counts}
        if with_subs and part.shown:
            report["channels"] = [await self._channel(channel, True) for channel in part.shown]
        elif part.shown:
            report["names"] = [channel.name for channel in part.shown]
        return report

    async def _channel(self, channel: Channel, with_subs: bool) -> Json:
        state = await channel.stream.reading.state()
        report: Json = {
            "name": channel.name,
            "msgs": state.messages,
            "bytes": state.bytes,
            "first_seq": state.first_seq,
            "last_seq": state.last_seq,
            "subs_count": channel.subs_count,
        }
        if with_subs and channel.flows:
            report["subscriptions"] = [
                one
                for shared in channel.flows
                for one in ([_subscription(s) for s in shared.subscriptions] or [_offline(shared)])
            ]
        return report


def page(look: Callable[[Query], Awaitable[Json | None]]) -> Handler:
    """Return a handler that answers a query with JSON."""

    async def answer(query: Query) -> Answer:
        try:
            seen = await look(query)
        except _WrongQueryError as error:
            return 400, "text/plain; charset=utf-8", f"{error}\n".encode()
        if seen is None:
            return 404, "text/plain; charset=utf-8", b"Client or channel not found\n"
        body = msgspec.json.format(msgspec.json.encode(seen), indent=2)
        if (callback := query.get("callback")) is not None and callback.isidentifier():
            return 200, "application/javascript", callback.encode() + b"(" + body + b")"
        return 200, "application/json", body

    return answer


def index(pages: Iterable[str]) -> Answer:
    """Return a page with a link to each."""
    links = "".join(f'<a href="{path}">{path}</a><br/>\n' for path in sorted(pages))
    return 200, "text/html; charset=utf-8", f"<html><body>\n{links}</body></html>\n".encode()


def process(role: Role, started_ns: int, now_ns: int) -> Json:
    """Return the part of serverz that describes the process."""
    clustered = {"role": role.role, "node_id": role.node_id} if role.role else {}
    return {
        "version": VERSION,
        "go": f"python{platform.python_version()}",
        "state": role.state,
        **clustered,
        "now": format_time(now_ns),
        "start_time": format_time(started_ns),
        "uptime": uptime((now_ns - started_ns) // SECOND),
    }


def files() -> Json:
    """Return how many files this process has open, and how many it may have."""
    return {"open_fds": _open_files(), "max_fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}


@dataclass(frozen=True, slots=True)
class _Page(Generic[T]):
    """The part of a list that a query selects."""

    shown: Sequence[T]
    counts: Json

    @classmethod
    def of(cls, query: Query, everything: Sequence[T]) -> _Page[T]:
        offset = max(_number(query, "offset", 0), 0)
        limit = _number(query, "limit", DEFAULT_LIMIT)
        limit = limit if limit > 0 else DEFAULT_LIMIT
        shown = everything[offset : offset + limit]
        counts = {"offset": offset, "limit": limit, "count": len(shown), "total": len(everything)}
        return cls(shown, counts)


def _number(query: Query, name: str, default: int) -> int:
    try:
        return int(query.get(name) or default)
    except ValueError:
        raise _WrongQueryError(f"{name} must be a number, not {query[name]!r}") from None


def _limits(limits: ChannelLimits) -> Json:
    return {
        "max_msgs": limits.max_msgs,
        "max_bytes": limits.max_bytes,
        "max_age": limits.max_age,
        "max_subscriptions": limits.max_subscriptions,
        "max_inactivity": limits.max_inactivity,
    }


def _subscription(subscription: StanSubscription) -> Json:
    shared, member = subscription.shared, subscription.member
    return {
        "client_id": subscription.client_id,
        "inbox": subscription.inbox,
        "ack_inbox": subscription.ack_inbox,
        **_named(shared),
        "is_durable": shared.is_durable,
        "is_offline": False,
        "max_inflight": subscription.max_in_flight,
        "ack_wait": subscription.ack_wait_s,
        "last_sent": shared.flow.last_sent,
        "pending_count": member.held,
        "is_stalled": member.is_stalled,
    }


def _offline(shared: SharedFlow) -> Json:
    return {
        "client_id": shared.key.client_id,
        "inbox": "",
        "ack_inbox": "",
        **_named(shared),
        "is_durable": True,
        "is_offline": True,
        "max_inflight": 0,
        "ack_wait": 0,
        "last_sent": shared.flow.last_sent,
        "pending_count": len(shared.flow.pending),
        "is_stalled": False,
    }


def _named(shared: SharedFlow) -> Json:
    """Return a subscription's names without empty ones."""
    key = shared.key
    names = {"durable_name": "" if key.group else key.durable, "queue_name": key.queue_name}
    return {label: name for label, name in names.items() if name}


def _open_files() -> int:
    """Return how many files this process has open, 0 if the system does not report it."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def uptime(seconds: int) -> str:
    """Return a time as `1d2h3m4s`, starting with the largest unit."""
    minutes, s = divmod(seconds, 60)
    hours, m = divmod(minutes, 60)
    d, h = divmod(hours, 24)
    if d:
        return f"{d}d{h}h{m}m{s}s"
    if h:
        return f"{h}h{m}m{s}s"
    return f"{m}m{s}s" if m else f"{s}s"
