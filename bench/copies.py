"""Streams that are filled, copied, timed and audited in the same way on any JetStream server."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from bench.generator import Connection, publish

GROUPS = 5
DISTINCT = 65_536
"""How many messages differ before they repeat: more than the window of any compression."""
KEPT = sum(number % GROUPS == 1 for number in range(DISTINCT)) / DISTINCT
"""The part of the messages that a filter on one of the groups keeps: a fifth."""
POLL_S = 0.02
PATIENCE_S = 1200.0
SPOTS = 25
WORDS = ("order", "shipped", "received", "customer", "address", "warehouse", "priority", "express", "return")


@dataclass(frozen=True)
class Api:
    """A JetStream domain, reached through one server."""

    connection: Connection
    prefix: str

    def ask(self, endpoint: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer of an endpoint; an error ends the run."""
        answer = self.connection.request(f"{self.prefix}.{endpoint}", body or {})
        if "error" in answer:
            raise SystemExit(f"{self.prefix}.{endpoint}: {answer['error']}")
        return answer

    def create(self, name: str, **config: Any) -> None:
        """Create a stream with file storage."""
        self.ask(f"STREAM.CREATE.{name}", {"name": name, "storage": "file", **config})

    def delete(self, name: str) -> None:
        """Delete a stream."""
        self.ask(f"STREAM.DELETE.{name}")

    def state(self, name: str) -> dict[str, Any]:
        """Return a stream's state."""
        state: dict[str, Any] = self.ask(f"STREAM.INFO.{name}")["state"]
        return state

    def message(self, name: str, seq: int) -> dict[str, Any]:
        """Return a stored message."""
        message: dict[str, Any] = self.ask(f"STREAM.MSG.GET.{name}", {"seq": seq})["message"]
        return message

    def fill(self, name: str, subject: str, messages: int, size: int) -> int:
        """Create a stream with this many messages, rounded up to whole runs, and return how many it holds."""
        messages = -(-messages // DISTINCT) * DISTINCT

        def make(number: int) -> tuple[bytes, bytes]:
            return b"%s.%d.%02d" % (subject.encode(), number % GROUPS, number % 60), payload(number, size)

        self.create(name, subjects=[f"{subject}.>"], allow_direct=True)
        return publish(self.connection, size, messages=messages, make=make, distinct=DISTINCT).messages


@dataclass(frozen=True)
class Copied:
    """How many messages arrived at a target, and how long that took from its creation."""

    messages: int
    seconds: float

    @property
    def rate(self) -> float:
        """Return messages per second."""
        return self.messages / self.seconds


def copy(api: Api, name: str, expected: int, config: Mapping[str, Any], scanned: int = 0) -> Copied:
    """Create the target and return once its state shows everything, with the origin's messages counted."""
    # Unsynced data of other processes would otherwise be synced together with the first file.
    os.sync()
    began = time.perf_counter()
    api.create(name, **config)
    while (state := api.state(name))["messages"] < expected:
        if time.perf_counter() - began > PATIENCE_S:
            raise SystemExit(f"{api.prefix} {name}: {state['messages']} of {expected} after {PATIENCE_S:g} s")
        time.sleep(POLL_S)
    took = time.perf_counter() - began
    assert state["messages"] == expected, state
    return Copied(scanned or expected, took)


def audit_mirror(origin: Api, name: str, target: Api, copy_name: str) -> None:
    """Refuse a mirror whose ends or sampled messages are not the origin's."""
    state, copied = origin.state(name), target.state(copy_name)
    for field in ("messages", "first_seq", "last_seq"):
        assert state[field] == copied[field], (field, state, copied)
    for seq in spots(state["last_seq"]):
        one, two = origin.message(name, seq), target.message(copy_name, seq)
        assert one == two, (seq, one, two)


def audit_sourced(
    origins: Mapping[str, Api],
    target: Api,
    copy_name: str,
    expected: int,
    renamed: Callable[[str], str] = lambda subject: subject,
) -> None:
    """Refuse a target whose ends, or sampled messages, are not what their headers say of the origins."""
    state = target.state(copy_name)
    assert (state["messages"], state["last_seq"]) == (expected, expected), state
    before: dict[str, int] = {}
    for seq in spots(expected):
        found = target.message(copy_name, seq)
        header = base64.b64decode(found["hdrs"]).decode()
        name, number, *_ = header.split("Nats-Stream-Source: ", 1)[1].split("\r\n")[0].split(" ")
        name = name.split(":")[0]
        original = origins[name].message(name, int(number))
        wanted = renamed(original["subject"]), original.get("data")
        assert wanted == (found["subject"], found.get("data")), (wanted, found)
        assert int(number) > before.get(name, 0), f"{name} is out of order at {seq}"
        before[name] = int(number)


def payload(number: int, size: int) -> bytes:
    """Return data as applications send it: an object in JSON, half of it random numbers."""
    chance = Random(number)
    known = {
        "id": f"{chance.getrandbits(64):016x}",
        "at": 1_790_000_000_000 + chance.randrange(10**9),
        "customer": chance.randrange(10**6),
        "amount": chance.randrange(10**5) / 100,
    }
    text = json.dumps(known)[:-1] + ', "note": "'
    while len(text) < size:
        text += (
            chance.choice(WORDS) + " " + (f"{chance.getrandbits(32):08x} " if chance.random() < 0.4 else "")
        )
    return (text[: size - 2] + '"}').encode()


def spots(last_seq: int) -> list[int]:
    """Return sequences spread over a stream, both ends among them."""
    return sorted({1 + (last_seq - 1) * step // SPOTS for step in range(SPOTS + 1)})


def write(path: Any, figures: Mapping[str, Any]) -> None:
    """Save figures as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(figures, indent=2) + "\n")
