"""Bulk writes of a hostile client: some are valid, most lie about lengths, codes, numbers, names or parts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

STREAMS = ("S0", "S1", "M0", "KV_b", "S2", "none")
SUBJECTS = {"S0": "s.1", "S1": "S1.a", "M0": "M0.a", "KV_b": "$KV.b.k", "S2": "s.1"}
"""A subject that each stream takes."""
WRITES = 100
"""So many names of writes are used: more than may be in progress."""
NASTY_NAMES = ("", " ", "..", "../../etc/passwd", "\x00query q", "\x00", "é", "x" * 129, "x" * 5000, "a\r\nb")
NASTY_SUBJECTS = (
    b"",
    b">",
    b"s.*",
    b"s..x",
    b"s.\r\nPUB a 0",
    b"\xff\xfe",
    b"s." + b"x" * 50_000,
    b"$JS.API.x",
)
NASTY_NUMBERS = (-1, 1, 2**31, 2**62, 2**63 - 1, 2**64 - 1)
HEADERS = (
    b"",
    b"NATS/1.0\r\nA: b\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n",
    b"NATS/1.0\r\nNats-Rollup: all\r\n\r\n",
    b"NATS/1.0\r\nNats-TTL: 9999999h\r\n\r\n",
    b"NATS/1.0\r\nNats-Batch-Id: x\r\nNats-Batch-Commit: 1\r\n\r\n",
    b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence-Subject: >.>.>\r\n\r\n",
    b"NATS/1.0",
    b"x" * 70_000,
)


class BulkAttacks:
    """Requests below `STREAM.WRITE`; `mutated` changes bytes of some."""

    def __init__(self, chance: random.Random, mutated: Callable[[bytes], bytes]) -> None:
        self._random = chance
        self._mutated = mutated
        self._sent: dict[tuple[str, str], dict[str, int]] = {}
        """The parts of each write, with the numbers of their messages."""

    def next(self) -> tuple[str, bytes]:
        """Return what stands behind the prefix of the API, and the body."""
        stream = self._random.choice(STREAMS)
        verb, body = self._random.choice((self._part, self._part, self._part, self._commit, self._other))(
            stream
        )
        if self._random.random() < 0.05:
            verb = self._random.choice(("", "PART.x", "NONE", ">", "part"))
        return f"STREAM.WRITE.{stream}.{verb}", body

    def _name(self, usual: str) -> str:
        return self._random.choice(NASTY_NAMES) if self._random.random() < 0.06 else usual

    def _number(self, usual: int) -> int:
        return self._random.choice(NASTY_NUMBERS) if self._random.random() < 0.06 else usual

    def _part(self, stream: str) -> tuple[str, bytes]:
        write, part = f"w{self._random.randrange(WRITES)}", f"p{self._random.randrange(4)}"
        count = self._random.choice((0, 1, 3, 200))
        self._sent.setdefault((stream, write), {})[part] = count
        index, is_last = self._number(self._random.choice((0, 0, 0, 1, 7))), self._random.random() < 0.8
        fields = [1, self._name(write), self._name(part), index, is_last, self._rows(stream, count)]
        if self._random.random() < 0.05:
            fields = [*fields[: self._random.randrange(6)], fields]
        return "PART", self._changed(msgspec.msgpack.encode(fields))

    def _rows(self, stream: str, count: int) -> bytes:
        """Return messages whose columns agree in most cases."""
        usual = SUBJECTS.get(stream, "s.1").encode()
        subjects = [usual if self._random.random() < 0.9 else self._random.choice(NASTY_SUBJECTS)]
        block = self._random.choice(HEADERS) if self._random.random() < 0.2 else b""
        data = b"x" * self._random.choice((0, 5, 100))
        columns: list[Any] = [
            self._random.choice((1, 1, 1, 1, 1, 1, 1, 2, 0, -1)),
            subjects,
            self._numbers([0] * count),
            self._numbers([len(block)] * count) if block else b"",
            block * count,
            self._numbers([len(data)] * count),
            data * count,
        ]
        if self._random.random() < 0.05:
            columns[self._random.randrange(7)] = self._random.choice((None, b"", [], 2**63, b"\xff" * 400))
        return msgspec.msgpack.encode(columns)

    def _numbers(self, numbers: list[int]) -> bytes:
        if numbers and self._random.random() < 0.05:
            numbers[0] = self._random.choice((1, 2**31, 2**32 - 1))
        if numbers and self._random.random() < 0.03:
            numbers = numbers[1:]
        return b"".join(number.to_bytes(4, "little") for number in numbers)

    def _commit(self, stream: str) -> tuple[str, bytes]:
        known = [(write, parts) for (where, write), parts in self._sent.items() if where == stream]
        write, sent = self._random.choice(known) if known else ("w0", {"p0": 1})
        parts: Sequence[str] = [self._name(part) for part in sent]
        if self._random.random() < 0.1:
            parts = self._random.choice(([*parts, *parts], ["foreign"], ["p"] * 20_000, []))
        body: dict[str, Any] = {
            "version": self._random.choice((1, 1, 1, 1, 1, 1, 0, 2)),
            "write": self._name(write),
            "query": self._name(f"q{self._random.randrange(2000)}"),
            "batch": self._number(self._random.randrange(3)),
            "parts": parts,
            "messages": self._number(sum(sent.values())),
            "once": self._random.random() < 0.5,
        }
        if self._random.random() < 0.05:
            body[self._random.choice(list(body))] = self._random.choice((None, -1, "x", [], {}, 1e300))
        return "COMMIT", self._changed(json.dumps(body).encode())

    def _other(self, stream: str) -> tuple[str, bytes]:
        """Return an abort, most often of a write that is in progress, or a question for the last batch."""
        if self._random.random() < 0.5:
            body: dict[str, object] = {
                "version": 1,
                "write": self._name(f"w{self._random.randrange(WRITES)}"),
            }
            return "ABORT", self._changed(json.dumps(body).encode())
        body = {"version": 1, "query": self._name(f"q{self._random.randrange(2000)}")}
        return "LAST", self._changed(json.dumps(body).encode())

    def _changed(self, body: bytes) -> bytes:
        return self._mutated(body) if self._random.random() < 0.15 else body
