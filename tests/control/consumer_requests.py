"""Requests to create and update consumers, valid and not, for nats-server and for the rules alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

S = 1_000_000_000
MS = 1_000_000
HEARD = "heard"
"""A deliver subject on which somebody listens."""

Config = Mapping[str, Any]


class Step(NamedTuple):
    """One request: what follows `CONSUMER.` in its subject, and the body."""

    subject: str
    body: bytes


class Scenario(NamedTuple):
    """A stream, and requests to it one after the other."""

    stream: Config
    steps: list[Step]


def create(_subject: str | None = None, _request: Config | None = None, **config: Any) -> Step:
    """Return a request to create a consumer of S, named by its subject if it has a name."""
    name = config.get("durable_name") or config.get("name")
    body = {"stream_name": "S", "config": config} | dict(_request or {})
    return Step(_subject or f"CREATE.S.{name}" if name else _subject or "CREATE.S", json.dumps(body).encode())


def action(verb: str, **config: Any) -> Step:
    """Return a request that may only create, or only update."""
    return create(None, {"action": verb}, **config)


def pedantic(**config: Any) -> Step:
    """Return a request that wants nothing filled in."""
    return create(None, {"pedantic": True}, **config)


def raw(body: str, subject: str = "CREATE.S.c") -> Step:
    """Return a request with this very body."""
    return Step(subject, body.encode())


LIMITS: Config = {"subjects": ["s.>"]}
INTEREST: Config = {"subjects": ["s.>"], "retention": "interest"}
WORKQUEUE: Config = {"subjects": ["s.>"], "retention": "workqueue"}
PULL: dict[str, Any] = {"name": "c", "ack_policy": "explicit"}
PUSH: dict[str, Any] = {"name": "c", "ack_policy": "explicit", "deliver_subject": "d"}
DURABLE: dict[str, Any] = {"durable_name": "c", "ack_policy": "explicit"}
FC: dict[str, Any] = {"durable_name": "c", "ack_policy": "flow_control", "deliver_subject": "d"}
SOURCE: dict[str, Any] = {
    "name": "JS_SRC_k85m4LZR",
    "deliver_policy": "all",
    "ack_policy": "none",
    "ack_wait": 79200 * S,
    "max_deliver": 1,
    "flow_control": True,
    "deliver_subject": "$JS.S.abc",
    "idle_heartbeat": S,
    "inactive_threshold": 10 * S,
    "direct": True,
    "sourcing": True,
    "metadata": {"_nats.src.acc": "$G"},
}
TIME = "2024-01-02T03:04:05.6Z"
LONG = "x" * 256

ONE_CREATE: Mapping[str, dict[str, Any]] = {
    "ephemeral pull": {"name": "c"},
    "explicit pull": PULL,
    "explicit push": PUSH,
    "durable": DURABLE,
    "durable push": DURABLE | {"deliver_subject": "d"},
    "durable and name": DURABLE | {"name": "c"},
    "ack all": {"name": "c", "ack_policy": "all"},
    "name of 255": {"name": "x" * 255},
    "name of 256": {"name": LONG},
    "durable of 256": {"durable_name": LONG},
    "durable of 255": {"durable_name": "x" * 255},
    "description": PULL | {"description": "d"},
    "description of 4096": PULL | {"description": "d" * 4096},
    "description of 4097": PULL | {"description": "d" * 4097},
    "metadata": PULL | {"metadata": {"a": "b", "_nats.ver": "9", "_nats.level": "9", "_nats.req.level": "9"}},
    "metadata too large": PULL | {"metadata": {"k": "v" * 131072}},
    "empty metadata": PULL | {"metadata": {}},
    **{f"deliver {p}": PULL | {"deliver_policy": p} for p in ("all", "last", "new", "undefined")},
    **{
        f"deliver {p} with sequence": PULL | {"deliver_policy": p, "opt_start_seq": 3}
        for p in ("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject")
    },
    **{
        f"deliver {p} with time": PULL | {"deliver_policy": p, "opt_start_time": TIME}
        for p in ("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject")
    },
    "by sequence and time": PULL
    | {"deliver_policy": "by_start_sequence", "opt_start_seq": 1, "opt_start_time": TIME},
    "by time and sequence": PULL
    | {"deliver_policy": "by_start_time", "opt_start_seq": 1, "opt_start_time": TIME},
    "by sequence without": PULL | {"deliver_policy": "by_start_sequence"},
    "by time without": PULL | {"deliver_policy": "by_start_time"},
    "last per subject without filter": PULL | {"deliver_policy": "last_per_subject"},
    "last per subject": PULL | {"deliver_policy": "last_per_subject", "filter_subject": "s.a"},
    "last per subjects": PULL | {"deliver_policy": "last_per_subject", "filter_subjects": ["s.a", "s.b"]},
    "ack wait": PULL | {"ack_wait": 5 * S},
    "ack wait negative": PULL | {"ack_wait": -1},
    "ack wait with ack none": {"name": "c", "ack_wait": 5 * S},
    "max deliver": PULL | {"max_deliver": 5},
    "max deliver -1": PULL | {"max_deliver": -1},
    "max deliver -5": PULL | {"max_deliver": -5},
    "backoff": PULL | {"backoff": [S, 2 * S], "max_deliver": 3},
    "backoff unlimited": PULL | {"backoff": [S, 2 * S]},
    "backoff as long": PULL | {"backoff": [S, 2 * S], "max_deliver": 2},
    "backoff too long": PULL | {"backoff": [S, 2 * S, 3 * S], "max_deliver": 2},
    "backoff over ack wait": PULL | {"backoff": [2 * S], "ack_wait": S},
    "backoff negative": PULL | {"backoff": [S, -1]},
    "backoff with ack none": {"name": "c", "backoff": [S]},
    "filter": PULL | {"filter_subject": "s.a"},
    "filter beyond the stream": PULL | {"filter_subject": "t.a"},
    "filter invalid": PULL | {"filter_subject": "s..a"},
    "filter with blank": PULL | {"filter_subject": "s. a"},
    "filters": PULL | {"filter_subjects": ["s.a", "s.b"]},
    "one of filters": PULL | {"filter_subjects": ["s.a"]},
    "filters overlap": PULL | {"filter_subjects": ["s.*", "s.b"]},
    "filters collide": PULL | {"filter_subjects": ["s.*.a", "s.b.*"]},
    "filters repeated": PULL | {"filter_subjects": ["s.b", "s.b"]},
    "filters invalid": PULL | {"filter_subjects": ["s.b", "s..b"]},
    "filters with empty": PULL | {"filter_subjects": ["s.b", ""]},
    "filters only empty": PULL | {"filter_subjects": [""]},
    "filters none": PULL | {"filter_subjects": []},
    "filter and filters": PULL | {"filter_subjects": ["s.b"], "filter_subject": "s.a"},
    "replay original": PULL | {"replay_policy": "original"},
    "rate limit pull": PULL | {"rate_limit_bps": 1000},
    "rate limit push": PUSH | {"rate_limit_bps": 1000},
    **{
        f"sample {f!r}": PULL | {"sample_freq": f}
        for f in ("30", "30%", "100", "0", "x", "-1", "-5%", "30%%", "1.5", "%", "200", "9" * 30, "9" * 5000)
    },
    "max waiting": PULL | {"max_waiting": 5},
    "max waiting negative": PULL | {"max_waiting": -5},
    "max waiting push": PUSH | {"max_waiting": 5},
    "max waiting negative push": PUSH | {"max_waiting": -5},
    "max ack pending": PULL | {"max_ack_pending": 5},
    "max ack pending -1": PULL | {"max_ack_pending": -1},
    "max ack pending -5": PULL | {"max_ack_pending": -5},
    "max ack pending without acks pull": {"name": "c", "max_ack_pending": 5},
    "max ack pending without acks push": {"name": "c", "max_ack_pending": 5, "deliver_subject": "d"},
    "flow control pull": PULL | {"flow_control": True},
    "flow control without heartbeat": PUSH | {"flow_control": True},
    "flow control": PUSH | {"flow_control": True, "idle_heartbeat": S},
    "headers only": PULL | {"headers_only": True},
    "caps": PULL | {"max_batch": 5, "max_expires": S, "max_bytes": 1000},
    "caps negative": PULL | {"max_batch": -5, "max_expires": -1, "max_bytes": -1000},
    "caps push": PUSH | {"max_batch": 5, "max_expires": S, "max_bytes": 1000},
    "max expires too small": PULL | {"max_expires": 999_999},
    "deliver wildcard": PUSH | {"deliver_subject": "d.*"},
    "deliver full wildcard": PUSH | {"deliver_subject": "d.>"},
    "deliver invalid": PUSH | {"deliver_subject": "d..e"},
    "deliver blank": PUSH | {"deliver_subject": "d e"},
    "deliver cycle": PUSH | {"deliver_subject": "s.a"},
    "deliver group": PUSH | {"deliver_group": "g"},
    "deliver group pull": PULL | {"deliver_group": "g"},
    "heartbeat": PUSH | {"idle_heartbeat": S},
    "heartbeat small": PUSH | {"idle_heartbeat": 99 * MS},
    "heartbeat smallest": PUSH | {"idle_heartbeat": 100 * MS},
    "heartbeat negative": PUSH | {"idle_heartbeat": -1},
    "heartbeat pull": PULL | {"idle_heartbeat": S},
    "inactive threshold": PULL | {"inactive_threshold": 60 * S},
    "inactive threshold durable": DURABLE | {"inactive_threshold": 60 * S},
    "inactive threshold negative": PULL | {"inactive_threshold": -1},
    "replicas 1": PULL | {"num_replicas": 1},
    "replicas 3": PULL | {"num_replicas": 3},
    "replicas negative": PULL | {"num_replicas": -1},
    "memory": PULL | {"mem_storage": True},
    "direct pull": PULL | {"direct": True},
    "direct durable": DURABLE | {"direct": True, "deliver_subject": "d"},
    "direct": PUSH | {"direct": True},
    "sourcing alone": PUSH | {"sourcing": True},
    "source of nats-server": SOURCE,
    "pause": PULL | {"pause_until": "2099-01-01T00:00:00Z"},
    "pause in the past": PULL | {"pause_until": TIME},
    "priority overflow": PULL | {"priority_policy": "overflow", "priority_groups": ["a"]},
    "priority pinned": PULL | {"priority_policy": "pinned_client", "priority_groups": ["a"]},
    "priority pinned for": PULL
    | {"priority_policy": "pinned_client", "priority_groups": ["a"], "priority_timeout": S},
    "priority prioritized": PULL | {"priority_policy": "prioritized", "priority_groups": ["a"]},
    "priority none": PULL | {"priority_policy": "none"},
    "priority two groups": PULL | {"priority_policy": "overflow", "priority_groups": ["a", "b"]},
    "priority without group": PULL | {"priority_policy": "overflow"},
    "priority push": PUSH | {"priority_policy": "overflow", "priority_groups": ["a"]},
    "priority group without policy": PULL | {"priority_groups": ["a"]},
    "priority timeout without policy": PULL | {"priority_timeout": S},
    "priority timeout negative": PULL | {"priority_timeout": -1},
    "priority timeout overflow": PULL
    | {"priority_policy": "overflow", "priority_groups": ["a"], "priority_timeout": S},
    **{
        f"priority group {g!r}": PULL | {"priority_policy": "overflow", "priority_groups": [g]}
        for g in ("", "a b", "a.b", "a" * 16, "a" * 17, "A-_/=9")
    },
    "ack flow control": FC,
    "ack flow control pull": {"durable_name": "c", "ack_policy": "flow_control"},
    "ack flow control heartbeat": FC | {"idle_heartbeat": 5 * S},
    "ack flow control ack wait": FC | {"ack_wait": S},
    "ack flow control backoff": FC | {"backoff": [S]},
    "ack flow control max deliver": FC | {"max_deliver": 3},
    "ack flow control unlimited": FC | {"max_ack_pending": -1},
    "ack flow control ephemeral": {"name": "c", "ack_policy": "flow_control", "deliver_subject": "d"},
}

PEDANTIC: Mapping[str, dict[str, Any]] = {
    "nothing": PULL,
    **{
        f"{field} negative": PULL | {field: -5}
        for field in (
            "max_deliver",
            "max_waiting",
            "max_ack_pending",
            "max_batch",
            "max_expires",
            "max_bytes",
            "idle_heartbeat",
            "inactive_threshold",
            "priority_timeout",
        )
    },
    "several negative": PULL | {"max_bytes": -1, "max_waiting": -1},
    "backoff": PULL | {"backoff": [S]},
    "backoff equal": PULL | {"backoff": [S], "ack_wait": S},
    "flow control policy": FC,
    "flow control policy said": FC | {"flow_control": True, "idle_heartbeat": S},
    "flow control policy other heartbeat": FC | {"flow_control": True, "idle_heartbeat": 2 * S},
}

UPDATES: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": (DURABLE, DURABLE),
    "an ephemeral": (PULL, PULL),
    "description": (DURABLE, DURABLE | {"description": "d"}),
    "ack wait": (DURABLE, DURABLE | {"ack_wait": S}),
    "max deliver": (DURABLE, DURABLE | {"max_deliver": 2}),
    "backoff": (DURABLE, DURABLE | {"backoff": [S], "max_deliver": 2}),
    "backoff too long": (DURABLE, DURABLE | {"backoff": [S, S], "max_deliver": 1}),
    "filter": (DURABLE, DURABLE | {"filter_subject": "s.a"}),
    "filters": (DURABLE, DURABLE | {"filter_subjects": ["s.a", "s.b"]}),
    "max ack pending": (DURABLE, DURABLE | {"max_ack_pending": 7}),
    "sample": (DURABLE, DURABLE | {"sample_freq": "5"}),
    "headers only": (DURABLE, DURABLE | {"headers_only": True}),
    "inactive threshold": (DURABLE, DURABLE | {"inactive_threshold": S}),
    "inactive threshold of an ephemeral": (PULL | {"inactive_threshold": 60 * S}, PULL),
    "metadata": (DURABLE, DURABLE | {"metadata": {"a": "b"}}),
    "caps": (DURABLE, DURABLE | {"max_batch": 3}),
    "replicas": (DURABLE, DURABLE | {"num_replicas": 1}),
    "deliver policy": (DURABLE, DURABLE | {"deliver_policy": "new"}),
    "storage": (DURABLE, DURABLE | {"mem_storage": True}),
    "direct": (PUSH, PUSH | {"direct": True}),
    "sourcing": (PUSH, PUSH | {"sourcing": True}),
    "start sequence": (
        DURABLE | {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
        DURABLE | {"deliver_policy": "by_start_sequence", "opt_start_seq": 2},
    ),
    "start time": (
        DURABLE | {"deliver_policy": "by_start_time", "opt_start_time": TIME},
        DURABLE | {"deliver_policy": "by_start_time", "opt_start_time": "2025-01-02T03:04:05.6Z"},
    ),
    "same start time": (
        DURABLE | {"deliver_policy": "by_start_time", "opt_start_time": TIME},
        DURABLE | {"deliver_policy": "by_start_time", "opt_start_time": TIME, "description": "d"},
    ),
    "ack policy": (DURABLE, DURABLE | {"ack_policy": "all"}),
    "replay policy": (DURABLE, DURABLE | {"replay_policy": "original"}),
    "heartbeat": (PUSH, PUSH | {"idle_heartbeat": S}),
    "flow control": (PUSH | {"idle_heartbeat": S}, PUSH | {"idle_heartbeat": S, "flow_control": True}),
    "pull to push": (PULL, PUSH),
    "push to pull": (PUSH, PULL),
    "push to pull with its max waiting": (PUSH, PULL | {"description": "d"}),
    "deliver subject": (PUSH, PUSH | {"deliver_subject": "e"}),
    "deliver subject that is heard": (PUSH | {"deliver_subject": HEARD}, PUSH),
    "deliver group": (PUSH, PUSH | {"deliver_group": "g"}),
    "rate limit": (PUSH, PUSH | {"rate_limit_bps": 100}),
    "max waiting": (DURABLE, DURABLE | {"max_waiting": 7}),
    "pause": (DURABLE, DURABLE | {"pause_until": "2099-01-01T00:00:00Z"}),
    "pause kept": (DURABLE | {"pause_until": "2099-01-01T00:00:00Z"}, DURABLE),
    "ephemeral to durable": (PULL, DURABLE),
    "durable to ephemeral": (DURABLE, PULL),
    "priority": (DURABLE, DURABLE | {"priority_policy": "overflow", "priority_groups": ["a"]}),
    "several": (DURABLE, DURABLE | {"replay_policy": "original", "ack_policy": "all", "max_waiting": 3}),
}

OTHERS: Mapping[str, Scenario] = {
    "legacy ephemeral": Scenario(LIMITS, [create()]),
    "legacy ephemeral with name": Scenario(LIMITS, [create("CREATE.S", name="n")]),
    "legacy ephemeral with durable": Scenario(LIMITS, [create("CREATE.S", durable_name="n")]),
    "legacy ephemeral with a bad name": Scenario(LIMITS, [create("CREATE.S", name="a.b")]),
    "legacy ephemeral with a path": Scenario(LIMITS, [create("CREATE.S", name="a/b")]),
    "legacy durable": Scenario(LIMITS, [create("DURABLE.CREATE.S.n", durable_name="n")]),
    "legacy durable without": Scenario(LIMITS, [create("DURABLE.CREATE.S.n", name="n")]),
    "legacy durable other": Scenario(LIMITS, [create("DURABLE.CREATE.S.n", durable_name="m")]),
    "legacy durable and name": Scenario(LIMITS, [create("DURABLE.CREATE.S.n", durable_name="n", name="m")]),
    "named other durable": Scenario(LIMITS, [create("CREATE.S.n", durable_name="m")]),
    "named other name": Scenario(LIMITS, [create("CREATE.S.n", name="m")]),
    "named path": Scenario(LIMITS, [create("CREATE.S.a/b")]),
    "named backslash": Scenario(LIMITS, [create("CREATE.S.a\\b")]),
    "durable with a bad name": Scenario(LIMITS, [create("CREATE.S", durable_name="a b")]),
    "filter in subject": Scenario(LIMITS, [create("CREATE.S.n.s.a", filter_subject="s.a")]),
    "filter in subject with wildcard": Scenario(LIMITS, [create("CREATE.S.n.s.>", filter_subject="s.>")]),
    "filter in subject other": Scenario(LIMITS, [create("CREATE.S.n.s.a", filter_subject="s.b")]),
    "filter in subject only": Scenario(LIMITS, [create("CREATE.S.n.s.a")]),
    "filter in subject and filters": Scenario(LIMITS, [create("CREATE.S.n.s.a", filter_subjects=["s.a"])]),
    "other stream in body": Scenario(LIMITS, [create("CREATE.S.n", {"stream_name": "T"})]),
    "no stream in body": Scenario(LIMITS, [raw("{}")]),
    "empty body": Scenario(LIMITS, [raw("")]),
    "config null": Scenario(LIMITS, [raw('{"stream_name":"S","config":null}')]),
    "keys in any case": Scenario(LIMITS, [raw('{"Stream_Name":"S","CONFIG":{"Ack_Policy":"explicit"}}')]),
    "create only": Scenario(LIMITS, [action("create", **DURABLE)]),
    "create only twice": Scenario(LIMITS, [action("create", **DURABLE)] * 2),
    "create only an ephemeral twice": Scenario(LIMITS, [action("create", **PULL)] * 2),
    "create only other": Scenario(
        LIMITS, [action("create", **DURABLE), action("create", **DURABLE, description="d")]
    ),
    "update only": Scenario(LIMITS, [action("update", **DURABLE)]),
    "update only after create": Scenario(
        LIMITS, [create(**DURABLE), action("update", **DURABLE, description="d")]
    ),
    "update only bad": Scenario(LIMITS, [action("update", **DURABLE, max_waiting=1, backoff=[-1])]),
    "max consumers": Scenario(
        {**LIMITS, "max_consumers": 1}, [create(name="a"), create(name="b"), create(name="a")]
    ),
    "max consumers and sources": Scenario(
        {**LIMITS, "max_consumers": 1}, [create(**SOURCE), create(name="b"), create(**SOURCE)]
    ),
    "stream limits taken over": Scenario(
        {**LIMITS, "consumer_limits": {"max_ack_pending": 7, "inactive_threshold": 60 * S}},
        [create(**PULL), create(name="n"), create(durable_name="d")],
    ),
    "stream limits kept to": Scenario(
        {**LIMITS, "consumer_limits": {"max_ack_pending": 7, "inactive_threshold": 60 * S}},
        [
            create(**PULL, max_ack_pending=8),
            create(**PULL, inactive_threshold=61 * S),
            create(**PULL, max_ack_pending=7, inactive_threshold=60 * S),
            create(name="u", ack_policy="explicit", max_ack_pending=-1),
            pedantic(name="p", ack_policy="explicit", inactive_threshold=S),
            pedantic(name="p", ack_policy="explicit", max_ack_pending=2),
        ],
    ),
    "stream limits on ack none push": Scenario(
        {**LIMITS, "consumer_limits": {"max_ack_pending": 7}}, [create(name="c", deliver_subject="d")]
    ),
    "interest": Scenario(
        INTEREST, [create(**PULL), create(name="n"), create(name="o", deliver_policy="new")]
    ),
    "interest replicas": Scenario(INTEREST, [create(**PULL, num_replicas=1)]),
    "interest source": Scenario(INTEREST, [create(**SOURCE), create(**SOURCE)]),
    "interest source twice from a remote stream": Scenario(
        INTEREST,
        [create(**SOURCE), create(**SOURCE | {"deliver_policy": "by_start_sequence", "opt_start_seq": 5})],
    ),
    "workqueue": Scenario(WORKQUEUE, [create(**PULL)]),
    "workqueue pull without acks": Scenario(WORKQUEUE, [create(name="c")]),
    "workqueue push without acks": Scenario(WORKQUEUE, [create(name="c", deliver_subject="d")]),
    "workqueue ack all": Scenario(WORKQUEUE, [create(name="c", ack_policy="all")]),
    "workqueue flow control": Scenario(WORKQUEUE, [create(**FC)]),
    "workqueue deliver new": Scenario(WORKQUEUE, [create(**PULL, deliver_policy="new")]),
    "workqueue second": Scenario(WORKQUEUE, [create(**PULL), create(name="b", ack_policy="explicit")]),
    "workqueue second with filter": Scenario(
        WORKQUEUE, [create(**PULL), create(name="b", ack_policy="explicit", filter_subject="s.a")]
    ),
    "workqueue unfiltered second": Scenario(
        WORKQUEUE, [create(**PULL, filter_subject="s.a"), create(name="b", ack_policy="explicit")]
    ),
    "workqueue partitions": Scenario(
        WORKQUEUE,
        [
            create(**PULL, filter_subject="s.a"),
            create(name="b", ack_policy="explicit", filter_subject="s.b"),
            create(name="d", ack_policy="explicit", filter_subjects=["s.c", "s.*.x"]),
            create(name="e", ack_policy="explicit", filter_subject="s.>"),
            create(name="f", ack_policy="explicit", filter_subject="s.q.*"),
            create(name="b", ack_policy="explicit", filter_subject="s.a"),
            create(name="b", ack_policy="explicit", filter_subject="s.bb"),
            create(name="b", ack_policy="explicit"),
        ],
    ),
    "workqueue and sources": Scenario(
        WORKQUEUE,
        [create(**SOURCE), create(**PULL), create(**SOURCE | {"name": "JS_SRC_other"}), create(**SOURCE)],
    ),
    "workqueue direct": Scenario(WORKQUEUE, [create(**PUSH | {"ack_policy": "none"}, direct=True)]),
    "mirror metadata": Scenario(LIMITS, [create(**SOURCE | {"name": "JS_MIRROR_x"})]),
    "no such stream": Scenario(LIMITS, [create("CREATE.T.n", {"stream_name": "T"})]),
    "no such stream and replicas": Scenario(
        LIMITS, [create("CREATE.T.n", {"stream_name": "T"}, num_replicas=3)]
    ),
}

BODIES = [
    "{",
    "[]",
    '{"stream_name":1}',
    '{"stream_name":"S","bogus":1}',
    '{"stream_name":"S","config":{"bogus":1}}',
    '{"stream_name":"S","config":[]}',
    '{"stream_name":"S","config":{"max_deliver":"x"}}',
    '{"stream_name":"S","config":{"max_deliver":1.5}}',
    '{"stream_name":"S","config":{"max_deliver":null}}',
    '{"stream_name":"S","config":{"ack_policy":"x"}}',
    '{"stream_name":"S","config":{"ack_policy":null}}',
    '{"stream_name":"S","config":{"ack_policy":1}}',
    '{"stream_name":"S","config":{"deliver_policy":"All"}}',
    '{"stream_name":"S","config":{"replay_policy":"x"}}',
    '{"stream_name":"S","config":{"priority_policy":"x"}}',
    '{"stream_name":"S","config":{"priority_policy":null}}',
    '{"stream_name":"S","config":{"backoff":"x"}}',
    '{"stream_name":"S","config":{"backoff":["x"]}}',
    '{"stream_name":"S","config":{"backoff":[null,1]}}',
    '{"stream_name":"S","config":{"filter_subjects":[1]}}',
    '{"stream_name":"S","config":{"filter_subjects":null}}',
    '{"stream_name":"S","config":{"opt_start_seq":-1}}',
    '{"stream_name":"S","config":{"rate_limit_bps":-1}}',
    '{"stream_name":"S","config":{"metadata":{"a":1}}}',
    '{"stream_name":"S","config":{"pause_until":null}}',
    '{"stream_name":"S","config":{"flow_control":1}}',
    '{"stream_name":"S","action":"x"}',
    '{"stream_name":"S","action":null}',
    '{"stream_name":"S","action":1}',
    '{"stream_name":"S","pedantic":"x"}',
    '{"stream_name":"S","config":{"pause_until":"x"}}',
    '{"stream_name":"S","config":{"pause_until":"2099-01-01T02:00:00+02:00"}}',
]

REQUESTS: Mapping[str, Scenario] = {
    **{f"create {title}": Scenario(LIMITS, [create(**config)]) for title, config in ONE_CREATE.items()},
    **{f"pedantic {title}": Scenario(LIMITS, [pedantic(**config)]) for title, config in PEDANTIC.items()},
    **{
        f"update {title}": Scenario(LIMITS, [create(**old), create(**new)])
        for title, (old, new) in UPDATES.items()
    },
    **OTHERS,
    **{body: Scenario(LIMITS, [raw(body)]) for body in BODIES},
}
