"""Consumers of all streams, the slowest first, and the channels and clients of NATS Streaming."""

from __future__ import annotations

from typing import Any

from headwater.console.console_page import Query
from headwater.console.sampler import Sampler
from headwater.console.site_states import site_states
from headwater.console.snapshot import Json

MOST_ROWS = 3000


def consumers_view(sampler: Sampler, query: Query) -> dict[str, Any]:
    """Return one row for each consumer that was read so far, and NATS Streaming by site."""
    rows: dict[str, Any] = {}
    total = 0
    for name, site in sampler.sites.items():
        total += sum(int(info["state"].get("consumer_count") or 0) for info in site.snapshot.streams.values())
        for stream, consumers in site.snapshot.consumers.items():
            for consumer in consumers[: MOST_ROWS - len(rows)]:
                rows[f"{name}/{stream}/{consumer.get('name')}"] = consumer_row(name, stream, consumer)
    return {
        "sites": site_states(sampler),
        "rows": rows,
        "total": total,
        "channels": _channels(sampler),
        "clients": _clients(sampler),
    }


def consumer_row(site: str, stream: str, consumer: Json) -> dict[str, Any]:
    """Return what is shown of one consumer."""
    config = consumer.get("config") or {}
    delivered, floor = consumer.get("delivered") or {}, consumer.get("ack_floor") or {}
    return {
        "site": site,
        "stream": stream,
        "name": str(consumer.get("name") or ""),
        "kind": "push" if config.get("deliver_subject") else "pull",
        "paused": bool(consumer.get("paused")),
        "pending": int(consumer.get("num_pending") or 0),
        "ack_pending": int(consumer.get("num_ack_pending") or 0),
        "max_ack_pending": int(config.get("max_ack_pending") or 0),
        "redelivered": int(consumer.get("num_redelivered") or 0),
        "waiting": int(consumer.get("num_waiting") or 0),
        "delivered": int(delivered.get("stream_seq") or 0),
        "floor": int(floor.get("stream_seq") or 0),
        "active": delivered.get("last_active"),
        "filter": ", ".join(
            [config.get("filter_subject") or "", *(config.get("filter_subjects") or ())]
        ).strip(", "),
    }


def _channels(sampler: Sampler) -> dict[str, Any]:
    return {
        f"{name}/{channel.get('name')}": {
            "site": name,
            "name": channel.get("name"),
            "messages": channel.get("msgs"),
            "bytes": channel.get("bytes"),
            "last_seq": channel.get("last_seq"),
            "subscriptions": len(channel.get("subscriptions") or ()),
            "pending": sum(
                int(each.get("pending_count") or 0) for each in channel.get("subscriptions") or ()
            ),
            "stalled": sum(bool(each.get("is_stalled")) for each in channel.get("subscriptions") or ()),
            "offline": sum(bool(each.get("is_offline")) for each in channel.get("subscriptions") or ()),
        }
        for name, site in sampler.sites.items()
        for channel in site.snapshot.streaming.get("channels") or ()
    }


def _clients(sampler: Sampler) -> dict[str, Any]:
    return {
        f"{name}/{client.get('id')}": {
            "site": name,
            "id": client.get("id"),
            "subscriptions": client.get("subs_count"),
        }
        for name, site in sampler.sites.items()
        for client in site.snapshot.streaming.get("clients") or ()
    }
