"""The same script on a real nats-streaming-server and on ours: answers and messages compared one by one.

The real one is taken from PATH or from NATS_STREAMING_SERVER; without it there is nothing to compare with.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from doors import connected
from headwater.bus.free_port import free_port
from headwater.errors import BusError
from headwater.wire import stan_messages as wire
from headwater.wire.stan_messages import FIRST, LAST_RECEIVED, SEQUENCE, TIME_DELTA
from stan_door import CLUSTER, Heard, StanClient, streaming
from waits import until

REFERENCE = os.environ.get("NATS_STREAMING_SERVER") or shutil.which("nats-streaming-server")

Seen = list[tuple[str, Any]]
Clients = Callable[[str], Awaitable[StanClient]]
Script = Callable[[Clients], Awaitable[Seen]]

CONNECTS: dict[str, dict[str, Any]] = {
    "no inbox": {"heartbeatInbox": ""},
    "no id": {"clientID": ""},
    "bad id": {"clientID": "a.b"},
}
PUBLISHES: dict[str, dict[str, Any]] = {
    "no guid": {"guid": ""},
    "no channel": {"subject": ""},
    "wildcard": {"subject": "a.*"},
    "dots": {"subject": "a..b"},
    "slash": {"subject": "a/b"},
    "unknown connection": {"connID": b"x"},
    "unknown client": {"connID": b"", "clientID": "who"},
}
SUBSCRIBES: dict[str, dict[str, Any]] = {
    "no client": {"clientID": ""},
    "ack wait": {"ackWaitInSecs": 0},
    "in flight": {"maxInFlight": 0},
    "start": {"startPosition": 7},
    "channel": {"subject": "a.>"},
    "stranger": {"clientID": "who"},
    "colon": {"durableName": "a:b", "qGroup": "g"},
}
STARTS: dict[str, dict[str, Any]] = {
    "new": {},
    "last": {"startPosition": LAST_RECEIVED},
    "first": {"startPosition": FIRST},
    "zero": {"startPosition": SEQUENCE, "startSequence": 0},
    "three": {"startPosition": SEQUENCE, "startSequence": 3},
    "ninety": {"startPosition": SEQUENCE, "startSequence": 90},
    "hour": {"startPosition": TIME_DELTA, "startTimeDelta": 3_600_000_000_000},
    "now": {"startPosition": TIME_DELTA, "startTimeDelta": 0},
}

pytestmark = pytest.mark.skipif(REFERENCE is None, reason="no nats-streaming-server on PATH")


@asynccontextmanager
async def reference(directory: Path) -> AsyncIterator[str]:
    """Run a real server; yield its address."""
    assert REFERENCE is not None
    port = free_port()
    command = [REFERENCE, "-a", "127.0.0.1", "-p", str(port), "-cid", CLUSTER]
    with (directory / "reference.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-st", "FILE", "--dir", str(directory / "ref")], stdout=log, stderr=log
        )
    try:
        async with asyncio.timeout(60):
            while b"Streaming Server is ready" not in (directory / "reference.log").read_bytes():
                await asyncio.sleep(0.02)
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def message(one: Any) -> tuple[object, ...]:
    """Return all of a message that two servers should agree on."""
    return (one.sequence, one.subject, one.reply, one.data, one.redelivered, one.redeliveryCount)


def messages(heard: Heard) -> list[tuple[object, ...]]:
    """Return all messages of a subscription."""
    return [message(one) for one in heard.messages]


async def refusals(new: Clients) -> Seen:
    seen: Seen = []
    client = await new("refusals")
    for label, fields in CONNECTS.items():
        seen.append((label, (await client.connect(**fields)).error))
    answer = await client.connect()
    seen.append(("connect", str(answer)))
    for label, fields in PUBLISHES.items():
        seen.append((label, (await client.publish("refusals", **fields)).error))
    for label, fields in SUBSCRIBES.items():
        _, refused = await client.try_subscribe("refusals", **fields)
        seen.append((f"subscribe {label}", refused.error))
    await client.subscribe("refusals", durableName="d")
    _, refused = await client.try_subscribe("refusals", durableName="d")
    seen.append(("duplicate durable", refused.error))
    heard = await client.subscribe("refusals")
    seen.append(("other channel", (await client.unsubscribe(heard, subject="nowhere")).error))
    seen.append(("other client", (await client.unsubscribe(heard, clientID="who")).error))
    seen.append(("unsubscribe", (await client.unsubscribe(heard)).error))
    seen.append(("unsubscribe twice", (await client.unsubscribe(heard)).error))
    junk = b"\n\xff"
    for label, subject, kind in (
        ("junk connect", f"_STAN.discover.{CLUSTER}", wire.ConnectResponse),
        ("junk publish", f"{client.subjects.pubPrefix}.x", wire.PubAck),
        ("junk subscribe", client.subjects.subRequests, wire.SubscriptionResponse),
        ("junk unsubscribe", client.subjects.unsubRequests, wire.SubscriptionResponse),
        ("junk close", client.subjects.closeRequests, wire.CloseResponse),
    ):
        seen.append((label, (await client.ask(subject, junk, kind)).error))
    seen.append(("close", (await client.close()).error))
    seen.append(("close twice", (await client.close()).error))
    return seen


async def positions(new: Clients) -> Seen:
    client = await new("positions")
    await client.connect()
    seen: Seen = []
    for channel, count in (("pos.empty", 0), ("pos.some", 5)):
        for n in range(count):
            await client.publish(channel, b"%d" % n, reply="back" if n % 2 else "")
        heard = {}
        for label, fields in STARTS.items():
            heard[label] = await client.subscribe(channel, **fields)
        await client.publish(channel, b"one more")
        for label, one in heard.items():
            await until(lambda one=one, last=count + 1: last in one.seqs)  # type: ignore[misc]
            seen.append((f"{channel} {label}", messages(one)))
    return seen


async def again(new: Clients) -> Seen:
    client = await new("again")
    await client.connect()
    heard = await client.subscribe("again", acks=False, maxInFlight=2, ackWaitInSecs=1)
    for n in range(4):
        await client.publish("again", b"%d" % n)
    await heard.got(4)
    first = [sorted(messages(heard)[:2]), sorted(messages(heard)[2:4])]
    heard.ack(1)
    await until(lambda: 3 in heard.seqs)
    return [("twice", first), ("third", [m for m in messages(heard) if m[0] == 3][:1])]


async def durables(new: Clients) -> Seen:
    client = await new("durables")
    await client.connect()
    seen: Seen = []
    heard = await client.subscribe("dur", acks=False, durableName="d", startPosition=FIRST)
    for n in range(4):
        await client.publish("dur", b"%d" % n)
    await heard.got(4)
    heard.ack(2)
    heard.ack(4)
    seen.append(("close", (await client.close_subscription(heard)).error))
    seen.append(("close twice", (await client.close_subscription(heard)).error))
    await client.publish("dur", b"later")
    resumed = await client.subscribe("dur", durableName="d", startPosition=FIRST)
    await resumed.got(3)
    seen.append(("resumed", messages(resumed)))
    await client.close()
    await client.connect()
    await client.publish("dur", b"last")
    resumed = await client.subscribe("dur", durableName="d", startPosition=FIRST)
    await resumed.got(1)
    seen.append(("resumed again", messages(resumed)))
    await client.unsubscribe(resumed)
    resumed = await client.subscribe("dur", durableName="d", startPosition=SEQUENCE, startSequence=5)
    await resumed.got(2)
    seen.append(("begun again", messages(resumed)))
    return seen


async def groups(new: Clients) -> Seen:
    one, two = await new("one"), await new("two")
    await one.connect()
    await two.connect()
    seen: Seen = []
    first = await one.subscribe("grp", acks=False, qGroup="g", durableName="d", startPosition=FIRST)
    for n in range(3):
        await one.publish("grp", b"%d" % n)
    await first.got(3)
    seen.append(("first member", messages(first)))
    second = await two.subscribe("grp", qGroup="g", durableName="d", startPosition=FIRST)
    await one.close()
    await second.got(3)
    seen.append(("what was left", sorted(messages(second))))
    await two.close_subscription(second)
    await two.publish("grp", b"while nobody was there")
    third = await two.subscribe("grp", qGroup="g", durableName="d", startPosition=FIRST)
    await third.got(1)
    seen.append(("resumed", messages(third)))
    plain = await two.subscribe("grp", qGroup="g", startPosition=FIRST)
    await plain.got(4)
    seen.append(("not durable", messages(plain)))
    return seen


@pytest.mark.parametrize("script", [refusals, positions, again, durables, groups])
async def test_ours_answers_like_the_real_one(
    tmp_path: Path, script: Callable[[Clients], Awaitable[Seen]]
) -> None:
    async with reference(tmp_path) as url, streaming(tmp_path) as ours:

        async def theirs_new(client_id: str) -> StanClient:
            return StanClient(await _patiently(url), client_id)

        async def ours_new(client_id: str) -> StanClient:
            return await ours.stranger(client_id)

        expected, actual = await asyncio.gather(script(theirs_new), script(ours_new))
        assert actual == expected


async def _patiently(url: str) -> Any:
    for _ in range(100):
        try:
            return await connected(url)
        except BusError:
            await asyncio.sleep(0.05)
    return await connected(url)
