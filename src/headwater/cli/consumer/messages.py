"""`consumer next` and `consumer sub`: receive messages of a consumer and acknowledge them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

import click
from nats.aio.msg import Msg

from headwater.cli.client import Caller, client_command
from headwater.cli.consumer.consumers import both, info_of
from headwater.cli.phrases import DURATION, number
from headwater.cli.publish import say
from headwater.cli.pulls import pulled
from headwater.cli.received import Received, write_data, write_headers, write_json_line
from headwater.cli.session import Json, Session
from headwater.cli.subscribe import End, acknowledged, listened
from headwater.errors import Error, SettingsError
from headwater.model.times import SECOND, format_duration

_SETTLED = {
    b"+ACK": "Acknowledged message",
    b"-NAK": "Negative Acknowledged message",
    b"+TERM": "Terminated message",
}


@dataclass(frozen=True)
class MessageHandling:
    """How messages are shown and acknowledged; an empty body sends no acknowledgement."""

    raw: bool
    as_json: bool
    body: bytes = b""
    delay: float = 0.0

    async def take(self, session: Session, message: Msg) -> None:
        """Show one message, then acknowledge it."""
        received = Received.of(message)
        if self.as_json:
            write_json_line(received.as_json())
        elif self.raw:
            write_data(received.data)
        else:
            _show(received)
        if not self.body or received.ack is None:
            return
        if self.delay:
            await asyncio.sleep(random.uniform(0, self.delay))
        await acknowledged(session, message, self.body)
        if not self.raw and not self.as_json:
            click.echo(f"\n{_SETTLED[self.body]}\n")


@click.command("next")
@click.argument("stream")
@click.argument("name", metavar="CONSUMER")
@click.option("--ack/--no-ack", default=None, help="Acknowledge each message (default).")
@click.option("--nak", is_flag=True, help="Reject each message, so that it is redelivered.")
@click.option("--term", is_flag=True, help="Terminate each message, so that it is not redelivered.")
@click.option("-r", "--raw", is_flag=True, help="Show only the data.")
@click.option(
    "--wait",
    type=DURATION,
    default=0,
    metavar="MAX",
    help="Wait a random time up to this before acknowledging.",
)
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Number of messages.")
@click.option("--group", default="", help="Priority group to pull with.")
@client_command
def next_(
    caller: Caller, stream: str, name: str, ack: bool | None, nak: bool, term: bool, raw: bool, wait: int,
    count: int, group: str,
) -> None:  # fmt: skip
    """Pull messages from a consumer. Waits for each up to --timeout."""
    if [bool(ack), nak, term].count(True) > 1:
        raise SettingsError("choose one of --ack, --nak and --term")
    body = b"-NAK" if nak else b"+TERM" if term else b"" if ack is False else b"+ACK"

    async def work(session: Session) -> int:
        info = await info_of(session, stream, name)
        taker = MessageHandling(raw, caller.as_json, _settling(info, body), wait / SECOND)
        taken = 0
        async with aclosing(
            pulled(session, info, limit=count, wait=session.timeout, group=group)
        ) as messages:
            async for message in messages:
                await taker.take(session, message)
                taken += 1
        return taken

    taken = caller.run(work)
    if taken < count:
        waited = format_duration(int(caller.connection.timeout * SECOND))
        had = f"after {taken} of {count} no further" if taken else "no"
        raise Error(f"{had} message arrived within {waited}: pass a longer --timeout, or try again")


@click.command()
@click.argument("stream", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option("--ack/--no-ack", default=True, help="Acknowledge each message.")
@click.option("-r", "--raw", is_flag=True, help="Show only the data.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many messages.")
@click.option(
    "--wait", type=DURATION, default=0, metavar="DURATION", help="Stop after this long without a message."
)
@click.option("--deliver-group", default="", help="Queue group to subscribe with (the consumer's).")
@client_command
def sub(
    caller: Caller, stream: str | None, name: str | None, ack: bool, raw: bool, count: int | None, wait: int,
    deliver_group: str,
) -> None:  # fmt: skip
    """Receive messages of a pull or push consumer until Ctrl-C."""
    which = both(caller, stream, name)

    async def work(session: Session) -> None:
        info = await info_of(session, *which)
        taker = MessageHandling(raw, caller.as_json, _settling(info, b"+ACK" if ack else b""))
        end = End(count or 0, wait / SECOND)
        source = _taken(session, info, end, deliver_group, quiet=raw or caller.as_json)
        try:
            async with aclosing(source) as messages:
                async for message in messages:
                    await taker.take(session, message)
        except asyncio.CancelledError:
            pass

    caller.run(work)


async def _taken(
    session: Session, info: Json, end: End, group: str, *, quiet: bool
) -> AsyncGenerator[Msg, None]:
    """Yield a consumer's pulled or pushed messages."""
    config = info["config"]
    target = config.get("deliver_subject")
    words = f"Receiving messages of {info['stream_name']} > {info['name']}"
    if not target:
        if not quiet:
            say(words)
        source = pulled(session, info, limit=end.count, wait=end.wait)
    else:
        queue = group or config.get("deliver_group", "")
        source = listened(session, [target], queue, End(0, end.wait), "" if quiet else words)
    taken = 0
    async with aclosing(source) as messages:
        async for message in messages:
            if await _answered(session, message):
                continue
            yield message
            taken += 1
            if end.count and taken >= end.count:
                return


async def _answered(session: Session, message: Msg) -> bool:
    """Return whether a message was a heartbeat or a flow control request, which is answered."""
    if Received.of(message).status != "100":
        return False
    stalled = (message.headers or {}).get("Nats-Consumer-Stalled", "")
    if message.reply or stalled:
        await session.nats.publish(message.reply or stalled, b"")
    return True


def _settling(info: Json, body: bytes) -> bytes:
    """Return the body of the acknowledgement; empty for a consumer without acknowledgements."""
    return b"" if info["config"].get("ack_policy", "none") == "none" else body


def _show(received: Received) -> None:
    now = f"{datetime.now():%H:%M:%S}"
    ack = received.ack
    if ack is None:
        reply = f" reply: {received.reply}" if received.reply else ""
        click.echo(f"[{now}] subj: {received.subject}{reply}")
    else:
        counts = f"tries: {ack.delivered_count} / cons seq: {ack.consumer_seq} / str seq: {ack.stream_seq}"
        click.echo(f"[{now}] subj: {received.subject} / {counts} / pending: {number(ack.pending)}")
    click.echo()
    if received.headers:
        click.echo("Headers:\n")
        write_headers(received.headers, indent="  ")
        click.echo("\nData:\n")
    write_data(received.data)
