"""What a hostile or careless client sends: requests, publishes, acks, transfers, receipts, plans, streaming.

One seeded generator creates everything, so a run can be repeated.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor

from fuzz.bulk_attacks import BulkAttacks
from headwater.api.endpoints import ENDPOINTS
from headwater.replication.work import PlanRequest, Receipt, encode
from headwater.wire import stan_messages as stan

T = TypeVar("T")
CLUSTER = "fuzzed"
"""The cluster id of the engine under attack."""
STREAMS = ("S0", "S1", "S2", "KV_b", "M0")
CONSUMERS = ("C0", "C1", "C2")
NASTY_NAMES = (
    "..",
    "../../../etc",
    "a.b",
    "*",
    ">",
    "a b",
    "",
    "é" * 300,
    "x" * 2000,
    "\x00",
    "a\\b",
    "/tmp/x",
    "$G",
)
NASTY_SUBJECTS = (
    *(
        ">",
        "*",
        "s.>",
        "s.*",
        ">.>",
        "s.>.x",
        ".".join("*" * 200),
        ">." * 60 + "x",
        "a..b",
        ".",
        "$HEADWATER.>",
    ),
    *(
        "$JS.API.>",
        "*.*.REPLICATION.COMMIT",
        "$JS.ACK.>",
        "s " * 5,
        "s." + "x" * 4000,
        "s.\r\nPUB a 0\r\n\r\n",
    ),
)
NASTY_INTEGERS = (
    0,
    1,
    -1,
    2**31,
    2**32,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    10**400,
    -(2**63),
    -(10**30),
)
NASTY_TEXTS = (
    *(
        "",
        "0",
        "-1",
        "1e9",
        "9" * 30,
        "9" * 5000,
        "1h",
        "-5m",
        "1ns" * 200,
        "never",
        "NaN",
        "true",
        "\x00",
        "é",
    ),
    *(
        "all",
        "sub",
        "2026-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
        "%s%n{}",
        "* * * * * *",
    ),
    *("@every 1ns", "@every 9999999h", "@at 2026-01-01T00:00:00Z", "0 0 0 30 2 *", "+5", "x" * 60_000),
)
CONFIG_FIELDS = (
    *(
        "max_msgs",
        "max_bytes",
        "max_age",
        "max_msgs_per_subject",
        "max_msg_size",
        "num_replicas",
        "first_seq",
    ),
    *(
        "duplicate_window",
        "max_consumers",
        "retention",
        "storage",
        "discard",
        "subjects",
        "mirror",
        "sources",
    ),
    *(
        "subject_transform",
        "republish",
        "no_ack",
        "sealed",
        "deny_delete",
        "allow_direct",
        "allow_rollup_hdrs",
    ),
    *(
        "allow_msg_ttl",
        "allow_atomic",
        "allow_batched",
        "allow_msg_counter",
        "allow_msg_schedules",
        "metadata",
    ),
    *(
        "placement",
        "compression",
        "consumer_limits",
        "subject_delete_marker_ttl",
        "persist_mode",
        "description",
    ),
)
CONSUMER_FIELDS = (
    *(
        "ack_policy",
        "ack_wait",
        "max_deliver",
        "backoff",
        "filter_subject",
        "filter_subjects",
        "deliver_policy",
    ),
    *(
        "opt_start_seq",
        "opt_start_time",
        "deliver_subject",
        "deliver_group",
        "flow_control",
        "idle_heartbeat",
    ),
    *("max_waiting", "max_ack_pending", "max_batch", "max_expires", "max_bytes", "inactive_threshold"),
    *("rate_limit_bps", "headers_only", "mem_storage", "num_replicas", "priority_policy", "priority_groups"),
    *("pause_until", "sample_freq", "replay_policy", "metadata", "priority_timeout"),
)
REQUEST_FIELDS = (
    *("seq", "keep", "filter", "offset", "subject", "subjects_filter", "deleted_details", "last_by_subj"),
    *(
        "next_by_subj",
        "multi_last",
        "batch",
        "max_bytes",
        "start_time",
        "up_to_seq",
        "up_to_time",
        "no_erase",
    ),
    *("expires", "no_wait", "idle_heartbeat", "group", "min_pending", "priority", "id", "config", "state"),
    *("deliver_subject", "chunk_size", "window_size", "no_consumers", "jsck", "pause_until", "stream_name"),
)
HEADERS = (
    *("Nats-Msg-Id", "Nats-Expected-Stream", "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Msg-Id"),
    *("Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject", "Nats-Rollup"),
    *("Nats-TTL", "Nats-Incr", "Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit", "Nats-Schedule"),
    *(
        "Nats-Schedule-Target",
        "Nats-Schedule-TTL",
        "Nats-Schedule-Source",
        "Nats-Stream-Source",
        "Nats-Marker-Reason",
    ),
    *("Nats-Schedule-Time-Zone", "KV-Operation", "Nats-Required-Api-Level", "Nats-Counter-Sources", "X", ""),
)
WORDS = (
    "limits",
    "interest",
    "workqueue",
    "memory",
    "file",
    "new",
    "old",
    "explicit",
    "none",
    "all",
    "s2",
    "last",
)
STAN_REQUESTS = (
    (stan.ConnectRequest, f"_STAN.discover.{CLUSTER}"),
    (stan.Ping, f"_STAN.discover.{CLUSTER}.pings"),
    (stan.PubMsg, f"_STAN.pub.{CLUSTER}"),
    (stan.PubMsg, f"_STAN.pub.{CLUSTER}"),
    (stan.SubscriptionRequest, f"_STAN.sub.{CLUSTER}"),
    (stan.UnsubscribeRequest, f"_STAN.unsub.{CLUSTER}"),
    (stan.UnsubscribeRequest, f"_STAN.subclose.{CLUSTER}"),
    (stan.CloseRequest, f"_STAN.close.{CLUSTER}"),
    (stan.Ack, ""),
)
STAN_USUAL: dict[str, tuple[Any, ...]] = {
    "clientID": ("me", "you", "them"),
    "connID": (b"1", b"2", b"3"),
    "subject": ("news", "news.local", "S0.1", "s.2", "sports"),
    "inbox": ("_INBOX.f.stan.1", "_INBOX.f.stan.2", "$HEADWATER.x.REPLICATION.COMMIT"),
    "heartbeatInbox": ("_INBOX.f.beat", "_STAN.discover.fuzzed", "$HEADWATER.x.REPLICATION.PLAN"),
    "qGroup": ("", "workers"),
    "durableName": ("", "kept"),
    "guid": ("g1", "g2"),
    "protocol": (0, 1),
    "maxInFlight": (1, 100),
    "ackWaitInSecs": (1, 30),
    "startPosition": (0, 1, 2, 3, 4),
    "startSequence": (1, 2),
    "pingInterval": (1, 5),
    "pingMaxOut": (2, 3),
}
STAN_RANGES = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
GIVEN_UP = 8
"""Tries for a subject that fits into a line of the protocol."""


class Attack(NamedTuple):
    """One message of an attacker."""

    kind: str
    subject: bytes
    headers: bytes
    body: bytes
    internal: bool = False
    """Whether it goes where only engines and replicators may speak."""


class Attacks:
    """An endless supply of attacks."""

    def __init__(self, seed: int, store_id: str, outside: str) -> None:
        self._random = random.Random(seed)
        self._store_id = store_id
        self._outside = outside
        """A file that no attack may touch."""
        self._bulk = BulkAttacks(self._random, self._mutated)
        makers: list[tuple[int, Callable[[], Attack]]] = [
            (30, self._request),
            (8, self._creation),
            (30, self._publish),
            (8, self._ack),
            (8, self._direct),
            (6, self._pull),
            (3, self._transfer),
            (4, self._receipt),
            (3, self._plan_request),
            (20, self._streaming),
            (10, self._bulk_write),
        ]
        self._weights = [weight for weight, _ in makers]
        self._makers = [maker for _, maker in makers]

    def _streaming(self) -> Attack:
        """Return a request of a NATS Streaming client; some are valid, of clients that connect and leave."""
        kind, subject = self._pick(STAN_REQUESTS)
        if kind is stan.PubMsg:
            subject += f".{self._channel()}"
        elif kind is stan.Ack:
            subject = f"_INBOX.{self._text()[:30] or 'x'}.a.{self._random.randrange(9)}"
        fields = kind.DESCRIPTOR.fields
        body = kind(**{field.name: self._stan_value(field.name, field.type) for field in fields})
        return Attack(f"stan {kind.DESCRIPTOR.name}", subject.encode(), b"", self._stan_body(body))

    def _stan_body(self, message: Any) -> bytes:
        if self._random.random() < 0.1:
            return self._garbage()
        return self._mutated(bytes(message.SerializeToString()))

    def _stan_value(self, name: str, kind: int) -> Any:
        """Return a value of a field: one that takes a request further in most cases."""
        if self._random.random() < 0.7 and name in STAN_USUAL:
            return self._pick(STAN_USUAL[name])
        low, high = STAN_RANGES.get(kind, (0, 1))
        values: dict[int, Callable[[], Any]] = {
            FieldDescriptor.TYPE_STRING: lambda: self._pick((*NASTY_NAMES, self._text(), self._subject())),
            FieldDescriptor.TYPE_BYTES: self._garbage,
            FieldDescriptor.TYPE_BOOL: lambda: self._random.random() < 0.5,
        }
        number = self._pick((0, 1, -1, 30, low, high))
        return values.get(kind, lambda: min(max(number, low), high))()

    def _channel(self) -> str:
        return self._pick(STAN_USUAL["subject"]) if self._random.random() < 0.8 else self._subject()

    def _bulk_write(self) -> Attack:
        subject, body = self._bulk.next()
        return Attack("bulk write", f"$JS.API.{subject}".encode(), b"", body)

    def next(self) -> Attack:
        """Return the next attack that a server would pass on."""
        for _ in range(GIVEN_UP):
            attack = self._random.choices(self._makers, self._weights)[0]()
            if is_sendable(attack):
                return attack
        return Attack("publish", b"s.plain", b"", b"")

    def _request(self) -> Attack:
        pattern = self._random.choice(ENDPOINTS).pattern
        pattern = pattern.replace("{stream}", self._stream()).replace("{consumer}", self._consumer())
        subject = pattern.replace(".>", f".{self._subject()}")
        return Attack(
            "request", f"$JS.API.{subject}".encode(), self._maybe_headers(), self._body(REQUEST_FIELDS)
        )

    def _creation(self) -> Attack:
        """Return a config of which most is right, so that it gets far."""
        stream, consumer = self._stream(), self._consumer()
        fields: dict[str, Any]
        if self._random.random() < 0.6:
            fields = {"name": stream, "subjects": [f"{stream}.>", *self._few(self._subject)]}
            fields |= {self._pick(CONFIG_FIELDS): self._value() for _ in range(self._random.randrange(4))}
            verb = self._pick(("CREATE", "UPDATE"))
            return Attack(
                "config", f"$JS.API.STREAM.{verb}.{stream}".encode(), b"", self._mutated(_json(fields))
            )
        fields = {"durable_name": consumer, "ack_policy": "explicit"}
        fields |= {self._pick(CONSUMER_FIELDS): self._value() for _ in range(self._random.randrange(4))}
        body = {"stream_name": stream, "config": fields, "action": self._pick(("", "create", "update"))}
        subject = f"$JS.API.CONSUMER.CREATE.{stream}.{consumer}"
        return Attack("consumer", subject.encode(), b"", self._mutated(_json(body)))

    def _publish(self) -> Attack:
        subject = self._pick(
            (f"s.{self._random.randrange(50)}", f"{self._stream()}.x", "$KV.b.key", self._subject(), "S1.c")
        )
        data = self._random.randbytes(self._random.choice((0, 1, 10, 200, 5000)))
        return Attack("publish", subject.encode(), self._headers(), data)

    def _ack(self) -> Attack:
        numbers = ".".join(self._digits() for _ in range(self._random.choice((3, 5, 5, 5, 7))))
        subject = f"$JS.{self._pick(('ACK', 'ACK', 'FC'))}.{self._stream()}.{self._consumer()}.{numbers}"
        bodies = (b"", b"+ACK", b"-NAK", b"+WPI", b"+TERM x", b"+NXT 5", b'-NAK {"delay": -1}', b"-NAK 1h")
        hostile = (b"-NAK " + self._text().encode(), b"+NXT " + self._body(REQUEST_FIELDS), self._garbage())
        return Attack(
            "ack", subject.encode(), self._maybe_headers(), self._random.choice((*bodies, *hostile))
        )

    def _direct(self) -> Attack:
        subject = f"$JS.API.DIRECT.GET.{self._stream()}"
        if self._random.random() < 0.3:
            subject += f".{self._subject()}"
        return Attack("direct", subject.encode(), self._maybe_headers(), self._body(REQUEST_FIELDS))

    def _pull(self) -> Attack:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream()}.{self._consumer()}"
        body = self._pick((self._digits().encode(), self._body(REQUEST_FIELDS)))
        return Attack("pull", subject.encode(), self._maybe_headers(), body)

    def _transfer(self) -> Attack:
        """Return an unrequested chunk of an archive, or the beginning of a transfer."""
        stream = self._stream()
        if self._random.random() < 0.5:
            body = _json({"config": {"name": stream, "subjects": [self._subject()]}, "state": self._value()})
            return Attack("restore", f"$JS.API.STREAM.RESTORE.{stream}".encode(), b"", self._mutated(body))
        return Attack("chunk", f"$JS.SNAPSHOT.RESTORE.{stream}.x".encode(), b"", self._garbage())

    def _receipt(self) -> Attack:
        path = self._pick((self._outside, "../../outside/kept", "", "/etc/passwd", "\x00", "x" * 5000))
        receipt = Receipt(
            work=self._text()[:100],
            target=self._stream(),
            upstream=self._text()[:50],
            expected=self._garbage()[:40],
            through=self._random.choice(NASTY_INTEGERS) % 2**63,
            rows=self._random.choice((0, 1, -1, 2**40)),
            data=self._garbage()[:100],
            path=path,
            sums=self._text()[:100],
            error=self._pick(("", "x")),
        )
        subject = f"$HEADWATER.{self._store_id}.REPLICATION.COMMIT"
        return Attack("receipt", subject.encode(), b"", self._mutated(encode([receipt])), internal=True)

    def _plan_request(self) -> Attack:
        slots = self._random.choice((0, 1, -1, 2**31))
        request = PlanRequest(name=self._text()[:100], under_way=("a", self._text()[:50]), slots=slots)
        subject = f"$HEADWATER.{self._store_id}.REPLICATION.PLAN"
        return Attack("plan", subject.encode(), b"", self._mutated(encode(request)), internal=True)

    def _stream(self) -> str:
        return self._pick(STREAMS if self._random.random() < 0.9 else NASTY_NAMES)

    def _consumer(self) -> str:
        return self._pick(CONSUMERS if self._random.random() < 0.9 else NASTY_NAMES)

    def _subject(self) -> str:
        usual = (f"s.{self._random.randrange(50)}", "s.a.b", f"S0.{self._random.randrange(9)}")
        return self._pick(usual if self._random.random() < 0.5 else NASTY_SUBJECTS)

    def _text(self) -> str:
        return self._pick(NASTY_TEXTS)

    def _digits(self) -> str:
        return str(
            self._pick((*range(6), *(n for n in NASTY_INTEGERS if abs(n) < 10**100), "", "x", "9" * 4400))
        )

    def _value(self, depth: int = 0) -> Any:
        """Return any JSON value; a right one as often as not."""
        scalars: tuple[Callable[[], Any], ...] = (
            lambda: self._random.choice(NASTY_INTEGERS),
            lambda: self._random.randrange(100),
            lambda: self._random.randrange(10**9, 10**12),
            self._text,
            self._subject,
            lambda: self._pick(WORDS),
            lambda: self._random.random() < 0.5,
            lambda: None,
            lambda: 1.5,
        )
        if depth < 2 and self._random.random() < 0.2:
            return [self._value(depth + 1) for _ in range(self._random.randrange(4))]
        if depth < 2 and self._random.random() < 0.2:
            keys = (
                "name",
                "src",
                "dest",
                "external",
                "filter_subject",
                "api",
                "deliver",
                "opt_start_seq",
                "cluster",
            )
            return {self._pick(keys): self._value(depth + 1) for _ in range(self._random.randrange(4))}
        return self._random.choice(scalars)()

    def _body(self, fields: tuple[str, ...]) -> bytes:
        chosen = self._random.random()
        if chosen < 0.1:
            return b""
        if chosen < 0.2:
            return self._garbage()
        members = {self._pick(fields): self._value() for _ in range(self._random.randrange(1, 5))}
        return self._mutated(_json(members))

    def _garbage(self) -> bytes:
        deep = b"[" * 5000 + b"]" * 5000
        return self._random.choice(
            (
                self._random.randbytes(self._random.randrange(300)),
                deep,
                b"{" * 3000,
                b"null",
                b'"',
                b"\xff\xfe",
                b"1" * 6000,
            )
        )

    def _mutated(self, body: bytes) -> bytes:
        """Return the bytes, in a fifth of all cases with some of them wrong."""
        if not body or self._random.random() < 0.8:
            return body
        changed = bytearray(body)
        for _ in range(self._random.randrange(1, 5)):
            at = self._random.randrange(len(changed))
            changed[at : at + self._random.randrange(2)] = self._random.randbytes(self._random.randrange(3))
            if not changed:
                return b""
        return bytes(changed)

    def _maybe_headers(self) -> bytes:
        return self._headers() if self._random.random() < 0.2 else b""

    def _headers(self) -> bytes:
        chosen = self._random.random()
        if chosen < 0.2:
            return b""
        if chosen < 0.3:
            return self._pick(
                (
                    b"NATS/1.0",
                    b"NATS/1.0\r\n",
                    b"X" * 100,
                    b"NATS/1.0 503\r\n\r\n",
                    b"\r\n\r\n",
                    b"NATS/1.0\r\n:\r\n\r\n",
                )
            )
        lines = [b"NATS/1.0"]
        for _ in range(self._random.randrange(1, 4)):
            value = self._pick((self._text(), self._subject(), str(self._random.randrange(10))))[:30_000]
            lines.append(f"{self._pick(HEADERS)}: {value}".encode())
        return b"\r\n".join([*lines, b"", b""])

    def _few(self, make: Callable[[], str]) -> list[str]:
        return [make() for _ in range(self._random.randrange(2))]

    def _pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)


def is_sendable(attack: Attack) -> bool:
    """Return whether the attack is one line of the protocol; after anything else a server disconnects."""
    subject = attack.subject
    return 0 < len(subject) < 3500 and not any(
        blank in subject for blank in (b" ", b"\r", b"\n", b"\t", b"\0", b"\f")
    )


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
