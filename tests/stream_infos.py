"""Infos of streams with everything in them that a table can show, always the same."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

SECOND = 1_000_000_000
CREATED = "2026-01-02T03:04:05.123Z"
LAST = "2026-01-02T03:05:00Z"


def info(name: str, **changes: Any) -> Json:
    """Return the info of an empty file stream, with other fields of config, state or itself."""
    config: Json = {
        "name": name,
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "discard": "old",
        "storage": "file",
        "num_replicas": 1,
        "duplicate_window": 120 * SECOND,
        "allow_direct": True,
    }
    state: Json = {
        "messages": 0,
        "bytes": 0,
        "first_seq": 0,
        "first_ts": "0001-01-01T00:00:00Z",
        "last_seq": 0,
        "last_ts": "0001-01-01T00:00:00Z",
        "consumer_count": 0,
    }
    return {
        "config": config | changes.pop("config", {}),
        "created": CREATED,
        "state": state | changes.pop("state", {}),
        **changes,
    }


def cluster(leader: str, *others: str, behind: str = "") -> Json:
    """Return a cluster of servers, one of them perhaps behind."""
    peers = [{"name": name, "current": name != behind, "active": 200_000_000} for name in others]
    return {"name": "c2", "leader": leader, "raft_group": "S-R3F", "replicas": peers}


def held(messages: int, size: int, **more: Any) -> Json:
    """Return the state of a stream with so many messages."""
    return {
        "messages": messages,
        "bytes": size,
        "first_seq": 1,
        "first_ts": CREATED,
        "last_seq": messages,
        "last_ts": LAST,
        **more,
    }


ORDERS = info(
    "ORDERS",
    config={"storage": "memory", "subjects": ["ORDERS.>"]},
    state=held(100, 3_380, consumer_count=1),
    cluster=cluster("n2-c2", "n1-c2", "n3-c2"),
)
RETURNS = info(
    "RETURNS",
    config={"storage": "memory", "subjects": ["RETURNS.>"]},
    state=held(100, 3_584),
    cluster=cluster("n1-c2", "n2-c2", "n3-c2"),
)
ARCHIVE = info(
    "ARCHIVE",
    config={"sources": [{"name": "ORDERS"}, {"name": "RETURNS"}]},
    state=held(200, 27_648),
    cluster=cluster("n3-c2", "n1-c2", "n2-c2"),
    sources=[
        {"name": "RETURNS", "lag": 0, "active": 9_830_000_000},
        {"name": "ORDERS", "lag": 0, "active": 14_480_000_000},
    ],
)
REPORT = info(
    "REPORT",
    config={"mirror": {"name": "ARCHIVE"}},
    state=held(200, 27_648),
    cluster=cluster("n1-c2"),
    mirror={"name": "ARCHIVE", "lag": 0, "active": 9_820_000_000},
)
STORY = [ARCHIVE, ORDERS, REPORT, RETURNS]
"""Two streams, an archive of both, and its mirror."""

SALES = info(
    "sales",
    description="What was sold, of all cinemas",
    config={
        "description": "What was sold, of all cinemas",
        "subjects": ["sales.>"],
        "placement": {"cluster": "east", "tags": ["ssd", "eu"]},
        "metadata": {
            "owner": "accounting",
            "_nats.req.level": "2",
            "_nats.level": "5",
            "_nats.ver": "2.15.1",
        },
        "compression": "s2",
        "max_age": 86_400 * SECOND,
        "max_bytes": 1 << 30,
        "max_msgs": 1_000_000,
        "discard": "new",
        "discard_new_per_subject": True,
        "deny_delete": True,
        "allow_atomic": True,
        "republish": {"src": "sales.>", "dest": "seen.>", "headers_only": True},
        "subject_transform": {"src": "in.*", "dest": "out.{{wildcard(1)}}"},
        "consumer_limits": {"inactive_threshold": 60 * SECOND, "max_ack_pending": 1000},
        "num_replicas": 3,
        "sources": [
            {
                "name": "tickets-1",
                "filter_subject": "tickets-1.sold",
                "opt_start_seq": 1200,
                "external": {"api": "$JS.spoke-1.API", "deliver": ""},
            },
            {
                "name": "tickets-2",
                "subject_transforms": [{"src": "tickets-2.*", "dest": "sold.{{wildcard(1)}}"}],
                "opt_start_time": "2026-01-02T03:04:05Z",
                "external": {"api": "$JS.spoke-2.API", "deliver": "deliver.spoke-2"},
            },
        ],
    },
    state=held(
        1_234_567,
        79 << 20,
        num_deleted=12,
        num_subjects=40,
        lost={"msgs": [7, 8], "bytes": 2048},
        consumer_count=3,
    ),
    cluster=cluster("nats-1", "nats-0", "nats-2", behind="nats-2"),
    sources=[
        {
            "name": "tickets-1",
            "external": {"api": "$JS.spoke-1.API", "deliver": ""},
            "filter_subject": "tickets-1.sold",
            "lag": 12_345,
            "active": 150 * SECOND,
            "error": {"code": 404, "err_code": 10059, "description": "stream not found"},
        },
        {
            "name": "tickets-2",
            "external": {"api": "$JS.spoke-2.API", "deliver": "deliver.spoke-2"},
            "subject_transforms": [{"src": "tickets-2.*", "dest": "sold.{{wildcard(1)}}"}],
            "lag": 7,
            "active": 440_000_000,
        },
    ],
)
"""A stream with trouble, and with nearly everything set."""

FRESH = info(
    "fresh",
    config={"mirror": {"name": "cinema-a", "external": {"api": "$JS.hub.API", "deliver": ""}}},
    mirror={"name": "cinema-a", "external": {"api": "$JS.hub.API", "deliver": ""}, "lag": 0, "active": -1},
)
"""A mirror that has not heard of its origin yet."""

TROUBLE = [SALES, FRESH, ORDERS]
