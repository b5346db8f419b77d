"""`stream catch-up`: wait until a stream has all that its sources or its mirror hold."""

from __future__ import annotations

import asyncio
import time

import click

from headwater.cli.client import Caller, client_command
from headwater.cli.phrases import DURATION, number
from headwater.cli.progress import Meter
from headwater.cli.render import show_json
from headwater.cli.session import Json, Session
from headwater.cli.streams import chosen
from headwater.errors import Error
from headwater.model.times import SECOND, format_duration

ASK_S = 0.5


def upstreams_of(info: Json) -> list[Json]:
    """Return the state of a stream's mirror, or of its sources."""
    return [info["mirror"]] if info.get("mirror") else list(info.get("sources") or ())


def behind(info: Json) -> int:
    """Return by how many messages a stream is behind what it copies; -1 when somebody was never seen."""
    upstreams = upstreams_of(info)
    if any(upstream.get("active", -1) < 0 for upstream in upstreams):
        return -1
    return sum(int(upstream.get("lag", 0)) for upstream in upstreams)


def trouble(info: Json) -> str:
    """Return what the first upstream that has an error says of it."""
    for upstream in upstreams_of(info):
        if error := upstream.get("error"):
            return f"{upstream['name']}: {error.get('description')}"
    return ""


@click.command(name="catch-up")
@click.argument("stream", required=False)
@click.option("--within", type=DURATION, default=0, metavar="DURATION", help="Give up after so long.")
@click.option("--progress/--no-progress", default=True, help="Show how far it has come.")
@client_command
def catch_up(caller: Caller, stream: str | None, within: int, progress: bool) -> None:
    """Wait until a stream has all that its sources or its mirror hold; tell how fast it goes.

    \b
    Examples:
      headwater stream catch-up REPORT
      headwater stream catch-up REPORT --within 10m && headwater stream rm OLD --force
    """
    name = chosen(caller, stream)
    shown = progress and not caller.as_json
    info = caller.run(lambda session: _wait(session, name, within / SECOND, shown))
    if caller.as_json:
        show_json({"stream": name, "lag": 0, "last_seq": info["state"]["last_seq"]})
    else:
        click.echo(f"Stream {name} has caught up, at sequence {number(info['state']['last_seq'])}")


async def _wait(session: Session, name: str, seconds: float, shown: bool) -> Json:
    """Return the stream's info once nothing is left to copy."""
    info = await session.request(f"STREAM.INFO.{name}")
    if not upstreams_of(info):
        raise Error(f"stream {name} copies from nobody: it has neither sources nor a mirror")
    began, most = time.monotonic(), max(behind(info), 0)
    with Meter(f"Catching up {name}", most, shown=shown and bool(most)) as meter:
        while lag := behind(info):
            if seconds and time.monotonic() - began > seconds:
                raise Error(_too_late(name, info, seconds))
            await asyncio.sleep(ASK_S)
            info = await session.request(f"STREAM.INFO.{name}")
            most = max(most, lag)
            meter.reach(max(most - max(behind(info), 0), meter.done))
        meter.finish()
    return info


def _too_late(name: str, info: Json, seconds: float) -> str:
    lag = behind(info)
    stands = f"{number(lag)} messages behind" if lag >= 0 else "waiting for an origin that was never seen"
    why = f" ({trouble(info)})" if trouble(info) else ""
    return f"stream {name} is {stands} after {format_duration(int(seconds * SECOND))}{why}"
