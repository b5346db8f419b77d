"""What sources and mirrors leave in their targets, recorded so that two servers can be compared."""

import asyncio
import base64
import re
from typing import Any

from conformance.probe import POLL_EVERY_S, Probe, opened

# Spark may have to start first.
COPIED_WITHIN_S = 150.0
SOURCE = re.compile(r"Nats-Stream-Source: ([^ ]+) (\d+) ([^ ]+) ([^ ]+) ([^ ]+)( \w{8})?\r\n")

Config = dict[str, Any]


def upstream(name: str, **fields: Any) -> Config:
    """Return a source or a mirror as a config holds it."""
    return {"name": name} | fields


def transform(src: str, dest: str) -> Config:
    """Return one of an upstream's transforms."""
    return {"src": src, "dest": dest}


async def copied(probe: Probe, stream: str, **wanted: int) -> None:
    """Wait until the stream's state shows these values, with no upstream behind, then record it."""
    try:
        async with asyncio.timeout(COPIED_WITHIN_S):
            while not _is_copied(await probe.quietly(f"STREAM.INFO.{stream}"), wanted):
                await asyncio.sleep(POLL_EVERY_S)
    except TimeoutError:
        probe.stumbles.append(f"{stream} did not come to {wanted}")
    await probe.state(stream, deleted_details=True)


async def arrived(probe: Probe, stream: str, subject: str) -> None:
    """Wait until the stream holds a message on a subject; a timeout is recorded as a stumble."""
    try:
        async with asyncio.timeout(COPIED_WITHIN_S):
            while "message" not in await probe.quietly(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject}):
                await asyncio.sleep(POLL_EVERY_S)
    except TimeoutError:
        probe.stumbles.append(f"{subject} did not come to {stream}")


def _is_copied(info: Config, wanted: dict[str, int]) -> bool:
    if "state" not in info:
        return False
    behind = any(one["lag"] for one in _upstreams(info))
    return not behind and all(info["state"].get(key, 0) == value for key, value in wanted.items())


def _upstreams(info: Config) -> list[Config]:
    mirror = [info["mirror"]] if "mirror" in info else []
    return mirror + list(info.get("sources") or [])


async def upstreams(probe: Probe, stream: str) -> None:
    """Record how the stream's upstreams fare, whatever is counted in time left out."""
    info = await probe.quietly(f"STREAM.INFO.{stream}")
    shown = {key: info[key] for key in ("mirror", "sources") if key in info}
    probe.record(f"upstreams of {stream}", f"$JS.API.STREAM.INFO.{stream}", shown)


async def held(probe: Probe, stream: str) -> list[Config]:
    """Return every message of a stream in order, unrecorded."""
    found: list[Config] = []
    seq = 1
    while True:
        answer = await probe.quietly(f"STREAM.MSG.GET.{stream}", {"seq": seq, "next_by_subj": ">"})
        if "message" not in answer:
            return found
        found.append(answer["message"])
        seq = answer["message"]["seq"] + 1


def headers(message: Config) -> str:
    """Return the headers of a stored message without the origin's identity."""
    given = base64.b64decode(message.get("hdrs", "")).decode()
    return SOURCE.sub(_nameless, given)


def _nameless(found: re.Match[str]) -> str:
    identity = " <identity>" if found[6] else ""
    return f"Nats-Stream-Source: {found[1]} {found[2]} {found[3]} {found[4]} {found[5]}{identity}\r\n"


async def mirrored(probe: Probe, origin: str, mirror: str) -> None:
    """Record every message of a mirror, and whether it was stored at the time of its origin."""
    times = {message["seq"]: message["time"] for message in await held(probe, origin)}
    shown = []
    for message in await held(probe, mirror):
        known = message["seq"] in times
        time = {"as at the origin": message["time"] == times[message["seq"]]} if known else {}
        shown.append(opened(message) | {"time": time, "hdrs": headers(message)})
    probe.record(f"messages of {mirror}", f"$JS.API.STREAM.MSG.GET.{mirror} (every message)", shown)


async def sourced(probe: Probe, stream: str) -> None:
    """Record every message of a stream by its origin; the order between origins is not compared."""
    by_origin: dict[str, list[Config]] = {}
    for message in await held(probe, stream):
        found = SOURCE.search(base64.b64decode(message.get("hdrs", "")).decode())
        name = f"{found[1]} {found[3]} {found[4]}" if found else "published here"
        shown = opened(message)
        by_origin.setdefault(name, []).append(
            {"subject": shown["subject"], "data": shown.get("data", ""), "hdrs": headers(message)}
        )
    probe.record(f"messages of {stream}", f"$JS.API.STREAM.MSG.GET.{stream} (every message)", by_origin)


async def fill(probe: Probe, stream: str, subjects: list[str], **config: Any) -> None:
    """Make a stream and publish its subjects in order, numbered."""
    wanted = {"name": stream, "subjects": [f"{stream.lower()}.>"]} | config
    created = await probe.quietly(f"STREAM.CREATE.{stream}", wanted)
    assert "error" not in created, created
    await add(probe, subjects)


async def add(probe: Probe, subjects: list[str], start: int = 1) -> None:
    """Publish to subjects in order, numbered from `start`."""
    for number, subject in enumerate(subjects, start):
        answer = await probe.ask(subject, b"%d" % number)
        assert "seq" in answer, answer
