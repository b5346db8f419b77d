"""Requests to create and update streams, valid and not, for nats-server and for the rules alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

S = 1_000_000_000
MS = 1_000_000


class Step(NamedTuple):
    """One request: the verb, the stream named by the subject, and the body."""

    verb: str
    name: str
    body: bytes


def create(_subject: str | None = None, **config: Any) -> Step:
    """Return a request to create a stream, called S unless it says otherwise."""
    body = {"name": "S"} | config
    return Step("CREATE", _subject or str(body["name"]), json.dumps(body).encode())


def update(_subject: str | None = None, **config: Any) -> Step:
    """Return a request to update a stream, called S unless it says otherwise."""
    return create(_subject, **config)._replace(verb="UPDATE")


def raw(body: str, verb: str = "CREATE", name: str = "S") -> Step:
    """Return a request with this very body."""
    return Step(verb, name, body.encode())


def source(name: str = "O", **fields: Any) -> dict[str, Any]:
    """Return a source or a mirror."""
    return {"name": name, **fields}


def transform(src: str, dest: str) -> dict[str, str]:
    """Return a declared subject transform."""
    return {"src": src, "dest": dest}


ORIGIN = create(name="O", subjects=["o.>"])
LONG = "x" * 256

ONE_CREATE: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "name alone": {"name": "T"},
    "name too long": {"name": LONG},
    "name of 255": {"name": "x" * 255},
    "description": {"description": "d"},
    "description too long": {"description": "d" * 4097},
    "description of 4096": {"description": "d" * 4096},
    "metadata": {"metadata": {"a": "b", "_nats.ver": "9", "_nats.level": "9", "_nats.req.level": "9"}},
    "empty metadata": {"metadata": {}},
    "metadata too large": {"metadata": {"k": "v" * 131072}},
    "retention interest": {"retention": "interest"},
    "retention workqueue": {"retention": "workqueue"},
    "unknown retention": {"retention": "x"},
    "discard new": {"discard": "new"},
    "discard in capitals": {"discard": "NEW"},
    "storage memory": {"storage": "memory"},
    "storage unknown": {"storage": "x"},
    "compression s2": {"compression": "s2"},
    "compression unknown": {"compression": "lz4"},
    "replicas 0": {"num_replicas": 0},
    "replicas 3": {"num_replicas": 3},
    "replicas 6": {"num_replicas": 6},
    "replicas negative": {"num_replicas": -1},
    "limits 0": {"max_msgs": 0, "max_bytes": 0, "max_msg_size": 0, "max_consumers": 0},
    "limits below -1": {"max_msgs": -2, "max_bytes": -3, "max_msg_size": -4, "max_consumers": -5},
    "limits set": {"max_msgs": 2, "max_bytes": 3000, "max_msg_size": 4, "max_consumers": 5},
    "per subject limit": {"max_msgs_per_subject": 5},
    "pedantic plain": {"pedantic": True},
    "pedantic max_msgs": {"pedantic": True, "max_msgs": -2},
    "pedantic max_msgs_per_subject": {"pedantic": True, "max_msgs_per_subject": -2},
    "pedantic max_bytes": {"pedantic": True, "max_bytes": -2},
    "pedantic max_msg_size": {"pedantic": True, "max_msg_size": -2},
    "pedantic max_consumers": {"pedantic": True, "max_consumers": -2},
    "pedantic two wrong": {"pedantic": True, "max_consumers": -2, "max_age": -1},
    "pedantic order": {"pedantic": True, "max_age": -1, "duplicate_window": -1},
    "max_age": {"max_age": 3600 * S},
    "max_age short": {"max_age": 99 * MS},
    "max_age of 100ms": {"max_age": 100 * MS},
    "max_age negative": {"max_age": -1},
    "max_age below the default window": {"max_age": 60 * S},
    "pedantic max_age below the default window": {"pedantic": True, "max_age": 60 * S},
    "duplicate window": {"duplicate_window": 10 * S},
    "duplicate window negative": {"duplicate_window": -1},
    "duplicate window short": {"duplicate_window": 99 * MS},
    "duplicate window beyond max_age": {"duplicate_window": 10 * S, "max_age": 5 * S},
    "deny purge and rollup": {"deny_purge": True, "allow_rollup_hdrs": True},
    "deny delete": {"deny_delete": True},
    "no ack": {"no_ack": True},
    "allow direct": {"allow_direct": True},
    "sealed": {"sealed": True},
    "mirror direct without mirror": {"mirror_direct": True},
    "first_seq": {"first_seq": 100},
    "consumer limits": {"consumer_limits": {"inactive_threshold": 5 * S, "max_ack_pending": 7}},
    "discard new per subject": {
        "discard": "new",
        "discard_new_per_subject": True,
        "max_msgs_per_subject": 1,
    },
    "discard new per subject with discard old": {"discard_new_per_subject": True},
    "discard new per subject without a limit": {"discard": "new", "discard_new_per_subject": True},
    "ttl": {"allow_msg_ttl": True},
    "marker": {"subject_delete_marker_ttl": 2 * S},
    "marker with deny purge": {"subject_delete_marker_ttl": 2 * S, "deny_purge": True},
    "marker short": {"subject_delete_marker_ttl": 999 * MS},
    "marker negative": {"subject_delete_marker_ttl": -1},
    "pedantic marker without ttl": {"pedantic": True, "subject_delete_marker_ttl": 2 * S},
    "pedantic marker without rollup": {
        "pedantic": True,
        "subject_delete_marker_ttl": 2 * S,
        "allow_msg_ttl": True,
    },
    "pedantic marker with all": {
        "pedantic": True,
        "subject_delete_marker_ttl": 2 * S,
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": True,
    },
    "counter": {"allow_msg_counter": True},
    "counter and discard new": {"allow_msg_counter": True, "discard": "new"},
    "counter and ttl": {"allow_msg_counter": True, "allow_msg_ttl": True},
    "counter and marker": {"allow_msg_counter": True, "subject_delete_marker_ttl": 2 * S},
    "counter and schedules": {"allow_msg_counter": True, "allow_msg_schedules": True},
    "counter and interest": {"allow_msg_counter": True, "retention": "interest"},
    "atomic": {"allow_atomic": True},
    "batched": {"allow_batched": True},
    "batched and counter": {"allow_batched": True, "allow_msg_counter": True},
    "schedules": {"allow_msg_schedules": True},
    "schedules and discard new": {"allow_msg_schedules": True, "discard": "new"},
    "schedules and deny purge": {"allow_msg_schedules": True, "deny_purge": True},
    "pedantic schedules": {"pedantic": True, "allow_msg_schedules": True},
    "async": {"persist_mode": "async"},
    "async in memory": {"persist_mode": "async", "storage": "memory"},
    "async replicated": {"persist_mode": "async", "num_replicas": 3},
    "async and atomic": {"persist_mode": "async", "allow_atomic": True},
    "persist mode default": {"persist_mode": "default"},
    "subjects": {"subjects": ["a", "b.*", "c.>"]},
    "subject invalid": {"subjects": ["a..b"]},
    "subject with a blank": {"subjects": ["a b"]},
    "subject empty": {"subjects": [""]},
    "subjects twice": {"subjects": ["a", "b", "a"]},
    "subjects overlap": {"subjects": ["a.*", "a.b"]},
    "subjects overlap quoted": {"subjects": ['a".*', 'a".b']},
    "everything": {"subjects": [">"]},
    "everything without acks": {"subjects": [">"], "no_ack": True},
    "everything replicated": {"subjects": [">"], "no_ack": True, "num_replicas": 3},
    "first token wild": {"subjects": ["*.a"]},
    "api subjects": {"subjects": ["$JS.API.>"]},
    "api subjects without acks": {"subjects": ["$JS.API.>"], "no_ack": True},
    "events": {"subjects": ["$JS.EVENT.>"]},
    "one advisory": {"subjects": ["$JS.EVENT.ADVISORY.API"]},
    "consumer subjects": {"subjects": ["$JSC.a"]},
    "raft subjects": {"subjects": ["$NRG.a"]},
    "system subjects": {"subjects": ["$SYS.>"]},
    "system account subjects": {"subjects": ["$SYS.ACCOUNT.*.CONNECT"]},
    "placement": {"placement": {"tags": ["a"]}},
    "placement empty": {"placement": {}},
    "placement preferred": {"placement": {"preferred": "n1"}},
    "transform": {"subjects": ["a.*"], "subject_transform": transform("a.*", "b.$1")},
    "transform empty": {"subject_transform": transform("", "")},
    "transform source invalid": {"subject_transform": transform("a..b", "x")},
    "transform dest invalid": {"subject_transform": transform("a", "x..y")},
    "transform dest with a blank": {"subject_transform": transform("a", "x y")},
    "transform index": {"subject_transform": transform("a.*", "x.$2")},
    "transform unknown function": {"subject_transform": transform("a.*", "x.{{nope(1)}}")},
    "transform left": {"subject_transform": transform("a.*", "x.{{left(1,2)}}")},
    "transform tail on one side": {"subject_transform": transform("a.>", "x")},
    "republish": {"subjects": ["a.>"], "republish": {"src": "a.>", "dest": "r.>"}},
    "republish without src": {"subjects": ["a.>"], "republish": {"dest": "r.>"}},
    "pedantic republish without src": {
        "pedantic": True,
        "subjects": ["a.>"],
        "republish": {"dest": "r.>"},
    },
    "republish without dest": {"subjects": ["a.>"], "republish": {"src": "a.>"}},
    "republish headers only": {
        "subjects": ["a"],
        "republish": {"src": ">", "dest": "r.>", "headers_only": True},
    },
    "republish cycle": {"subjects": ["a.>"], "republish": {"src": "a.>", "dest": "a.b.>"}},
    "republish invalid": {"subjects": ["a.>"], "republish": {"src": "a.>", "dest": "r"}},
    "republish implied": {
        "subjects": ["a.>"],
        "subject_transform": transform("a.>", "b.>"),
        "republish": {"src": ">", "dest": ">"},
    },
    "pedantic republish implied": {
        "pedantic": True,
        "subjects": ["a.>"],
        "subject_transform": transform("a.>", "b.>"),
        "republish": {"src": ">", "dest": ">"},
    },
    "republish all to all": {"subjects": ["a.>"], "republish": {"src": ">", "dest": ">"}},
    "unknown field": {"nonsense": 1},
    "template owner": {"template_owner": "x"},
    "null values": {"subjects": None, "mirror": None, "max_msgs": None, "sealed": None},
    "null retention": {"retention": None},
    "wrong type": {"max_msgs": "5"},
    "key in capitals": {"MAX_MSGS": 7},
    "mirror of nothing": {"mirror": source("X")},
    "mirror and first_seq": {"mirror": source("X"), "first_seq": 5},
    "mirror and subjects": {"mirror": source("X"), "subjects": ["a"]},
    "mirror and sources": {"mirror": source("X"), "sources": [source("Y")]},
    "mirror and counter": {"mirror": source("X"), "allow_msg_counter": True},
    "mirror and atomic": {"mirror": source("X"), "allow_atomic": True},
    "mirror and batched": {"mirror": source("X"), "allow_batched": True},
    "mirror and schedules": {"mirror": source("X"), "allow_msg_schedules": True},
    "mirror and markers": {"mirror": source("X"), "subject_delete_marker_ttl": 2 * S},
    "mirror and ttl": {"mirror": source("X"), "allow_msg_ttl": True},
    "mirror and window": {"mirror": source("X"), "duplicate_window": 10 * S},
    "mirror and workqueue": {"mirror": source("X"), "retention": "workqueue"},
    "mirror and republish": {"mirror": source("X"), "republish": {"src": ">", "dest": "r.>"}},
    "mirror direct of nothing": {"mirror": source("X"), "mirror_direct": True},
    "mirror with both starts": {
        "mirror": source("X", opt_start_seq=5, opt_start_time="2024-01-01T00:00:00.5Z")
    },
    "mirror name invalid": {"mirror": source("a.b")},
    "mirror name empty": {"mirror": {}},
    "mirror name invalid but external": {"mirror": source("a.b", external={"api": "$JS.d.API"})},
    "mirror filter": {"mirror": source("X", filter_subject="a.*")},
    "mirror filter invalid": {"mirror": source("X", filter_subject="o..b")},
    "mirror filter and transforms": {
        "mirror": source("X", filter_subject="a", subject_transforms=[transform("a", "b")])
    },
    "mirror transform source invalid": {"mirror": source("X", subject_transforms=[transform("a..", "b")])},
    "mirror transform dest invalid": {"mirror": source("X", subject_transforms=[transform("a.*", "b.$3")])},
    "mirror transforms": {
        "mirror": source("X", subject_transforms=[transform("a.*", "b.$1"), transform("c", "")])
    },
    "mirror transforms collide": {
        "mirror": source("X", subject_transforms=[transform("a.*", ""), transform("*.b", "")])
    },
    "mirror transforms empty sources": {
        "mirror": source("X", subject_transforms=[transform("", ""), transform("", "")])
    },
    "mirror of itself": {"mirror": source("S")},
    "mirror consumer": {"mirror": source("X", consumer={"name": "c", "deliver_subject": "d"})},
    "mirror consumer without a name": {"mirror": source("X", consumer={"deliver_subject": "d"})},
    "mirror consumer without a subject": {"mirror": source("X", consumer={"name": "c"})},
    "mirror consumer wild": {"mirror": source("X", consumer={"name": "c", "deliver_subject": "d.*"})},
    "mirror consumer and start": {
        "mirror": source("X", opt_start_seq=1, consumer={"name": "c", "deliver_subject": "d"})
    },
    "mirror consumer and filter": {
        "mirror": source("X", filter_subject="a", consumer={"name": "c", "deliver_subject": "d"})
    },
    "mirror with a domain": {"mirror": source("X", domain="d")},
    "source of nothing": {"sources": [source("X")]},
    "source null": {"sources": [None]},
    "sources empty": {"sources": []},
    "source name invalid": {"sources": [source("a.b")]},
    "source name invalid and external": {"sources": [source("a.b", external={"api": "$JS.d.API"})]},
    "source and subjects": {"sources": [source("X")], "subjects": ["a"]},
    "source and first_seq": {"sources": [source("X")], "first_seq": 7},
    "source and window": {"sources": [source("X")], "duplicate_window": 10 * S},
    "source and schedules": {"sources": [source("X")], "allow_msg_schedules": True},
    "source and workqueue": {"sources": [source("X")], "retention": "workqueue"},
    "source and counter": {"sources": [source("X")], "allow_msg_counter": True},
    "sources twice": {"sources": [source("X"), source("X")]},
    "sources twice by start": {"sources": [source("X"), source("X", opt_start_seq=5)]},
    "sources by filter": {"sources": [source("X", filter_subject="a"), source("X", filter_subject="b")]},
    "source filter invalid": {"sources": [source("X", filter_subject="o..b")]},
    "source filter and transforms": {
        "sources": [source("X", filter_subject="a", subject_transforms=[transform("a", "b")])]
    },
    "source transform source invalid": {"sources": [source("X", subject_transforms=[transform("a b", "b")])]},
    "source transform dest invalid": {"sources": [source("X", subject_transforms=[transform("a", "b.$1")])]},
    "source transforms collide only": {
        "sources": [source("X", subject_transforms=[transform("a.*", ""), transform("*.b", "")])]
    },
    "source transforms subset": {
        "sources": [source("X", subject_transforms=[transform("a.*", ""), transform("a.b", "")])]
    },
    "source consumer": {"sources": [source("X", consumer={"name": "c", "deliver_subject": "d"})]},
    "source consumer invalid": {"sources": [source("X", consumer={"name": "c.d", "deliver_subject": "d"})]},
    "source consumer twice": {
        "sources": [
            source("X", consumer={"name": "c", "deliver_subject": "d"}),
            source(
                "X",
                consumer={"name": "c", "deliver_subject": "e"},
                subject_transforms=[transform("a", "b")],
            ),
        ]
    },
    "external": {"sources": [source("X", external={"api": "$JS.d.API", "deliver": "del"})]},
    "external empty": {"sources": [source("X", external={})]},
    "external api wild": {"sources": [source("X", external={"api": "$JS.*.API"})]},
    "external api our own": {"sources": [source("X", external={"api": "$JS.API"})]},
    "external api invalid": {"mirror": source("X", external={"api": "a..b"})},
    "external deliver wild": {"sources": [source("X", external={"api": "$JS.d.API", "deliver": "x.*"})]},
    "external deliver wild on a mirror": {
        "mirror": source("X", external={"api": "$JS.d.API", "deliver": "x.>"})
    },
    "source itself": {"sources": [source("S")], "subjects": ["s.>"]},
    "source itself beside": {"sources": [source("S", filter_subject="t.>")], "subjects": ["s.>"]},
    "remote source of the same name": {"sources": [source("S", external={"api": "$JS.d.API"})]},
}

MANY_STEPS: Mapping[str, list[Step]] = {
    "name and subject differ": [create("T")],
    "name with a dot": [update("S", name="a.b")],
    "name with a blank": [update("S", name="a b")],
    "name with a wildcard": [update("S", name="*")],
    "name empty": [update("S", name="")],
    "path in the name": [create(name="a/b")],
    "backslash in the name": [create(name="a\\b")],
    "empty body": [raw("")],
    "null body": [raw("null")],
    "broken body": [raw("{")],
    "an array": [raw("[]")],
    "two bodies": [raw('{"name":"S"}{"max_msgs":5}')],
    "a fraction": [raw('{"name":"S","max_msgs":1.0}')],
    "same again": [create(max_msgs=5), create(max_msgs=5)],
    "same again by defaults": [create(), create(max_msgs=-1, subjects=["S"], retention="limits")],
    "same again with metadata": [create(metadata={"a": "b"}), create(metadata={"a": "b", "_nats.ver": "1"})],
    "other again": [create(), create(max_msgs=5)],
    "other metadata again": [create(), create(metadata={"a": "b"})],
    "same mirror again": [create(mirror=source("X")), create(mirror=source("X"))],
    "same source again": [create(sources=[source("X")]), create(sources=[source("X")])],
    "overlap": [create(name="A", subjects=["a.>"]), create(subjects=["a.b"])],
    "overlap by name": [create(name="A", subjects=["S"]), create()],
    "no overlap": [create(name="A", subjects=["a.*"]), create(subjects=["a.b.c"])],
    "overlap before idempotency": [
        create(name="A", subjects=["a"]),
        create(subjects=["b"]),
        create(subjects=["a"]),
    ],
    "mirror of a visible stream": [ORIGIN, create(mirror=source())],
    "mirror inherits direct": [create(name="O", allow_direct=True), create(mirror=source())],
    "mirror loses direct": [ORIGIN, create(mirror=source(), mirror_direct=True)],
    "pedantic mirror loses direct": [ORIGIN, create(mirror=source(), mirror_direct=True, pedantic=True)],
    "pedantic mirror without direct": [
        create(name="O", allow_direct=True),
        create(mirror=source(), pedantic=True),
    ],
    "mirror external keeps direct": [
        ORIGIN,
        create(mirror=source(external={"api": "$JS.d.API"}), mirror_direct=True),
    ],
    "mirror too small": [create(name="O", max_msg_size=100), create(mirror=source(), max_msg_size=50)],
    "mirror large enough": [create(name="O", max_msg_size=100), create(mirror=source(), max_msg_size=100)],
    "source too small": [create(name="O", max_msg_size=100), create(sources=[source()], max_msg_size=50)],
    "remote source too small": [
        create(name="O", max_msg_size=100),
        create(sources=[source(external={"api": "$JS.d.API"})], max_msg_size=50),
    ],
    "deliver prefix beside a visible origin": [
        ORIGIN,
        create(sources=[source(), source("X", external={"api": "$JS.d.API", "deliver": "o"})]),
    ],
    "deliver prefix beside a narrow origin": [
        create(name="O", subjects=["o.a"]),
        create(sources=[source(), source("X", external={"api": "$JS.d.API", "deliver": "o"})]),
    ],
    "cycle of two": [
        create(name="A", subjects=["a"], sources=[source("S")]),
        create(subjects=["s"], sources=[source("A")]),
    ],
    "cycle of two with a filter beside": [
        create(name="A", subjects=["a"], sources=[source("S", filter_subject="x")]),
        create(subjects=["s"], sources=[source("A", filter_subject="y")]),
    ],
    "cycle through a mirror": [
        create(name="A", mirror=source("S")),
        create(subjects=["s"], sources=[source("A")]),
    ],
    "cycle of mirrors": [create(name="A", mirror=source("S")), create(mirror=source("A"))],
    "mirror of a mirror": [ORIGIN, create(name="A", mirror=source()), create(mirror=source("A"))],
    "diamond": [
        ORIGIN,
        create(name="A", sources=[source()]),
        create(name="B", sources=[source()]),
        create(sources=[source("A"), source("B")]),
    ],
    "diamond of unequal depth": [
        ORIGIN,
        create(name="A", sources=[source()]),
        create(name="B", sources=[source("A")]),
        create(sources=[source("B"), source()]),
    ],
    "update nothing there": [update()],
    "update something wrong that is not there": [update(max_age=-1)],
    "update with another name": [create(), update("S", name="T")],
    "update with another name that is there": [create(), create(name="T"), update("S", name="T")],
    "update nothing": [create(), update()],
    "update limits": [create(), update(max_msgs=5, max_bytes=100, max_age=10 * S, max_msg_size=7)],
    "update max_consumers": [create(), update(max_consumers=5)],
    "update subjects": [create(subjects=["a"]), update(subjects=["a", "b"])],
    "update subjects to overlap": [
        create(name="A", subjects=["a"]),
        create(subjects=["b"]),
        update(subjects=["a"]),
    ],
    "update wrong": [create(), update(max_age=-1)],
    "update pedantic": [create(), update(max_msgs=-2, pedantic=True)],
    "update unknown field": [create(), update(nonsense=1)],
    "update storage": [create(), update(storage="memory")],
    "update replicas": [create(), update(num_replicas=3)],
    "update limits to interest": [create(), update(retention="interest")],
    "update interest to limits": [create(retention="interest"), update()],
    "update to workqueue": [create(), update(retention="workqueue")],
    "update from workqueue": [create(retention="workqueue"), update()],
    "update compression": [create(), update(compression="s2")],
    "update first_seq": [create(), update(first_seq=100)],
    "update discard": [create(), update(discard="new")],
    "seal": [create(max_age=10 * S), update(max_age=10 * S, sealed=True)],
    "pedantic seal": [create(), update(sealed=True, pedantic=True)],
    "seal with rollup": [create(allow_rollup_hdrs=True), update(allow_rollup_hdrs=True, sealed=True)],
    "unseal": [create(), update(sealed=True), update(deny_delete=True, deny_purge=True)],
    "sealed stays sealed": [create(), update(sealed=True), update(sealed=True)],
    "sealed stays sealed with all": [
        create(),
        update(sealed=True),
        update(sealed=True, deny_delete=True, deny_purge=True, max_msgs=3),
    ],
    "allow delete again": [create(deny_delete=True), update()],
    "allow purge again": [create(deny_purge=True), update()],
    "update mirror": [create(mirror=source("X")), update(mirror=source("Y"))],
    "update mirror filter": [create(mirror=source("X")), update(mirror=source("X", filter_subject="a"))],
    "update mirror limits": [create(mirror=source("X")), update(mirror=source("X"), max_msgs=5)],
    "become a mirror": [create(), update(mirror=source("X"))],
    "become a mirror without subjects": [create(sources=[source("X")]), update(mirror=source("X"))],
    "promote": [create(mirror=source("X")), update()],
    "promote with subjects": [create(mirror=source("X")), update(subjects=["a"])],
    "promote with mirror direct": [
        create(mirror=source("X"), mirror_direct=True),
        update(mirror_direct=True),
    ],
    "promote with sources": [create(mirror=source("X")), update(sources=[source("X")])],
    "add a source": [create(subjects=["a"]), update(subjects=["a"], sources=[source("X")])],
    "remove a source": [create(sources=[source("X"), source("Y")]), update(sources=[source("X")])],
    "remove all sources": [create(sources=[source("X")]), update()],
    "change a source": [create(sources=[source("X")]), update(sources=[source("X", filter_subject="a")])],
    "update to a cycle": [
        create(name="A", subjects=["a"], sources=[source("S")]),
        create(subjects=["s"]),
        update(subjects=["s"], sources=[source("A")]),
    ],
    "update source duplicate": [
        create(sources=[source("X")]),
        update(sources=[source("X"), source("X")]),
    ],
    "update source filter invalid": [
        create(sources=[source("X")]),
        update(sources=[source("X", filter_subject="o..b")]),
    ],
    "ttl on": [create(), update(allow_msg_ttl=True)],
    "ttl off": [create(allow_msg_ttl=True), update()],
    "marker off": [create(subject_delete_marker_ttl=2 * S), update(allow_msg_ttl=True)],
    "marker off and ttl": [create(subject_delete_marker_ttl=2 * S), update()],
    "counter on": [create(), update(allow_msg_counter=True)],
    "counter off": [create(allow_msg_counter=True), update()],
    "atomic on and off": [create(), update(allow_atomic=True), update()],
    "batched on and off": [create(), update(allow_batched=True), update()],
    "schedules on": [create(), update(allow_msg_schedules=True)],
    "schedules off": [create(allow_msg_schedules=True), update()],
    "persist mode changed": [create(), update(persist_mode="async")],
    "direct on": [create(), update(allow_direct=True)],
    "mirror direct on by update": [create(), update(mirror_direct=True)],
    "mirror follows direct": [
        ORIGIN,
        create(mirror=source()),
        update(name="O", subjects=["o.>"], allow_direct=True),
        update(mirror=source()),
    ],
    "transform on and off": [
        create(subjects=["a.*"]),
        update(subjects=["a.*"], subject_transform=transform("a.*", "b.$1")),
        update(subjects=["a.*"]),
    ],
    "republish on": [create(subjects=["a"]), update(subjects=["a"], republish={"dest": "r.>"})],
    "republish on without dest": [create(subjects=["a"]), update(subjects=["a"], republish={"src": "a"})],
    "republish on without anything": [create(subjects=["a"]), update(subjects=["a"], republish={})],
    "republish to a cycle": [create(subjects=["a"]), update(subjects=["a"], republish={"dest": ">"})],
    "placement by update": [create(), update(placement={"tags": ["a"]})],
    "preferred by update": [create(), update(placement={"preferred": "a"})],
    "metadata by update": [create(metadata={"a": "b"}), update(metadata={"_nats.req.level": "7"})],
    "consumer limits by update": [create(), update(consumer_limits={"max_ack_pending": 5})],
    "window by update": [create(), update(duplicate_window=5 * S)],
    "window left out by update": [create(duplicate_window=5 * S), update()],
}

BODIES = (
    '{"name":"S",}',
    '{"name":"S"} x',
    '"x"',
    "5",
    '{"NAME":"S","MAX_msgs":7}',
    '{"name":5}',
    '{"name":"S","max_msgs":5.0}',
    '{"name":"S","max_msgs":1e3}',
    '{"name":"S","max_msgs":9223372036854775808}',
    '{"name":"S","max_msg_size":2147483648}',
    '{"name":"S","first_seq":-1}',
    '{"name":"S","first_seq":18446744073709551616}',
    '{"name":"S","discard":null}',
    '{"name":"S","retention":"Limits"}',
    '{"name":"S","retention":5}',
    '{"name":"S","retention":{}}',
    '{"name":"S","storage":""}',
    '{"name":"S","compression":null}',
    '{"name":"S","persist_mode":""}',
    '{"name":"S","persist_mode":null}',
    '{"name":"S","subjects":"a"}',
    '{"name":"S","subjects":[1]}',
    '{"name":"S","subjects":[null]}',
    '{"name":"S","sealed":"x"}',
    '{"name":"S","mirror":"x"}',
    '{"name":"S","mirror":{"name":5}}',
    '{"name":"S","mirror":{"NAME":"X","Opt_Start_Seq":4}}',
    '{"name":"S","sources":[{"name":5}]}',
    '{"name":"S","sources":{}}',
    '{"name":"S","mirror":{"name":"X","opt_start_time":"x"}}',
    '{"name":"S","mirror":{"name":"X","opt_start_time":5}}',
    '{"name":"S","mirror":{"name":"X","opt_start_time":null}}',
    '{"name":"S","mirror":{"name":"X","opt_start_time":"2024-01-01T00:00:00+02:00"}}',
    '{"name":"S","mirror":{"name":"X","subject_transforms":[{"src":1}]}}',
    '{"name":"S","mirror":{"name":"X","subject_transforms":[{"src":"a","z":1}]}}',
    '{"name":"S","metadata":{"a":1}}',
    '{"name":"S","metadata":[]}',
    '{"name":"S","metadata":{"a":null}}',
    '{"name":"S","max_age":"1s"}',
    '{"name":"S","consumer_limits":5}',
    '{"name":"S","consumer_limits":{"x":1}}',
    '{"name":"S","pedantic":"x"}',
    '{"name":"S","placement":{"cluster":5}}',
    '{"name":"S" "a"}',
    '{name:"S"}',
    "{'a':1}",
    '{"name":"S","max_msgs":01}',
    '{"name":"S","x":1,"max_msgs":"a"}',
    '{"name":"S","max_msgs":"a","x":1}',
    '{"name":"S","max_msgs":"a","retention":"zz"}',
    '{"name":"S","max_msgs":true}',
    '{"name":"S","max_msgs":[]}',
    '{"name":"S","name":"S","max_msgs":3,"Max_Msgs":4}',
    '{"name":"S","description":"ÿ"}',
    "nul",
)

REQUESTS: Mapping[str, list[Step]] = {
    **{title: [create(**config)] for title, config in ONE_CREATE.items()},
    **MANY_STEPS,
    **{body: [raw(body)] for body in BODIES},
}
