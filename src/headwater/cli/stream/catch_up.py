"""`stream catch-up`: wait until a stream has all messages that its origins had when the command started."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import click

from headwater.cli.client import Caller, client_command
from headwater.cli.phrases import DURATION, number
from headwater.cli.progress import Meter
from headwater.cli.render import show_json
from headwater.cli.session import Json
from headwater.cli.stream.streams import chosen
from headwater.cli.stream.upstream_progress import is_known
from headwater.client.catch_up import CatchUp, CatchUpError, ask_waits
from headwater.client.stream_info import upstream_infos
from headwater.errors import Error
from headwater.model.times import SECOND


def upstreams_of(info: Json) -> list[Json]:
    """Return the state of a stream's mirror, or of its sources."""
    return [info["mirror"]] if info.get("mirror") else list(info.get("sources") or ())


def behind(info: Json) -> int:
    """Return the known lag of a stream's upstreams in messages."""
    return sum(int(upstream.get("lag", 0)) for upstream in upstreams_of(info))


class RequestClient(Protocol):
    """A client of a JetStream API."""

    async def request(self, endpoint: str) -> Json:
        """Return the answer of an endpoint, or raise its error."""


@click.command(name="catch-up")
@click.argument("stream", required=False)
@click.option("--within", type=DURATION, default=0, metavar="DURATION", help="Fail after this time.")
@click.option("--progress/--no-progress", default=True, help="Show progress.")
@client_command
def catch_up(caller: Caller, stream: str | None, within: int, progress: bool) -> None:
    """Wait until a stream has all messages that its origins had when the command started.

    Every origin must have been seen since then, and no upstream may report an error. The reasons for waiting
    are written to standard error. The command fails after --within, or if an origin does not exist.

    \b
    Examples:
      headwater stream catch-up REPORT
      headwater stream catch-up REPORT --within 10m && headwater stream rm OLD --force
    """
    name = chosen(caller, stream)
    shown = progress and not caller.as_json
    info = caller.run(lambda session: caught_up(session, name, within / SECOND, shown))
    if caller.as_json:
        show_json({"stream": name, "lag": behind(info), "last_seq": info["state"]["last_seq"]})
    else:
        click.echo(f"Stream {name} has caught up, at sequence {number(info['state']['last_seq'])}")


async def caught_up(session: RequestClient, name: str, seconds: float, shown: bool) -> Json:
    """Return the stream's info once it has caught up."""
    began = asked = time.monotonic()
    wait, most, said, waits = CatchUp(began), 0, "", ask_waits()
    with Meter(f"Catching up {name}", shown=shown) as meter:
        while True:
            info, now = await session.request(f"STREAM.INFO.{name}"), time.monotonic()
            if not upstreams_of(info):
                raise Error(f"stream {name} has neither sources nor a mirror")
            lag = behind(info)
            most = meter.total = max(most, lag)
            if all(map(is_known, upstreams_of(info))):
                meter.reach(most - lag)
            upstreams = upstream_infos(info)
            reasons = wait.reasons(upstreams, asked, now)
            if not reasons:
                meter.finish()
                return info
            if _kind(reasons) != said:
                said = _kind(reasons)
                meter.say(f"waiting for {'; '.join(reasons)}")
            if wait.is_hopeless(upstreams, now) or (seconds and now - began > seconds):
                raise CatchUpError(name, reasons, now - began)
            await asyncio.sleep(waits.next_s())
            asked = time.monotonic()


def _kind(reasons: list[str]) -> str:
    """Return reasons without their numbers, which change all the time."""
    return "".join(letter for letter in "; ".join(reasons) if letter not in "0123456789,")
