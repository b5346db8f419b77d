"""`headwater sub`: show messages as they are published, or those that a stream holds."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
import nats.errors
from nats.aio.msg import Msg

from headwater.cli.client import Caller, client_command
from headwater.cli.phrases import DURATION
from headwater.cli.publish import say
from headwater.cli.pulls import own_consumer, pulled
from headwater.cli.received import Received, translated, write_data, write_json_line, write_numbered
from headwater.cli.render import show_json
from headwater.cli.session import Json, Session, flushed
from headwater.cli.stream.subject_report import SubjectCounts, tallied_until_told
from headwater.errors import Error, SettingsError
from headwater.model.subject import matches
from headwater.model.times import SECOND, format_duration, format_time

PENDING = 65_536
"""How many messages may wait to be shown; beyond, the client drops what the server sends."""

_EPILOG = """\b
Examples:
  headwater sub 'orders.>'
  headwater sub 'orders.>' --queue workers --count 10
  headwater sub 'orders.>' --all --terminate-at-end --raw
      what the stream holds on these subjects, then stop
  headwater sub --stream ORDERS --since 1h --json
  headwater sub --stream ORDERS --durable WORK --ack

\b
Ctrl-C ends it, as do --count and --wait; all of them with exit code 0.
"""


@dataclass(frozen=True)
class MessageView:
    """How messages are shown, and which are passed over."""

    raw: bool = False
    as_json: bool = False
    headers_only: bool = False
    subjects_only: bool = False
    timestamp: bool = False
    translate: str | None = None
    ignored: Sequence[str] = ()
    since: float | None = None
    """When the first message was waited for, if the time since then is shown."""
    dump: Path | None = None
    """Where each message goes as a file of its own; - for standard output, an end of text after each."""

    def passes_over(self, received: Received) -> bool:
        """Return whether a message is not shown."""
        return any(matches(received.subject, pattern) for pattern in self.ignored)

    def show(self, received: Received, place: int) -> None:
        """Write one message."""
        data = translated(received.data, self.translate, received.subject)
        if self.dump is not None:
            dump(self.dump, received, data, place)
        elif self.as_json:
            write_json_line(received.as_json())
        elif self.subjects_only:
            click.echo(received.subject)
        elif self.raw:
            write_data(data)
        else:
            stamp = f"{datetime.now():%Y-%m-%d %H:%M:%S.%f}" if self.timestamp else ""
            if self.since is not None:
                stamp = format_duration(int((time.monotonic() - self.since) * SECOND))
            shown = Received(received.subject, data, received.reply, received.headers, received.ack)
            write_numbered(shown, place, stamp=stamp, data=not self.headers_only)


@click.command(epilog=_EPILOG)
@click.argument("subjects", nargs=-1)
@click.option("--queue", default="", help="Share the messages with others of this group.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many messages.")
@click.option("--wait", type=DURATION, default=0, metavar="DURATION", help="Stop after so long a silence.")
@click.option("-r", "--raw", is_flag=True, help="Show only the data.")
@click.option("--headers-only", is_flag=True, help="Show no data.")
@click.option("--subjects-only", is_flag=True, help="Show only the subjects.")
@click.option("-t", "--timestamp", is_flag=True, help="Show when each message arrived.")
@click.option("-d", "--delta-time", is_flag=True, help="Show how long after the start each arrived.")
@click.option(
    "--dump",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Write each message to a file there; - writes all to standard output, a null byte after each.",
)
@click.option("--report-subjects", is_flag=True, help="Count messages by subject instead of showing them.")
@click.option(
    "--report-top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many subjects --report-subjects shows.",
)
@click.option("--translate", metavar="COMMAND", help="Show the data as this command turns it.")
@click.option("-I", "--ignore-subject", "ignored", multiple=True, metavar="SUBJECT", help="Pass over these.")
@click.option("-i", "--inbox", is_flag=True, help="Listen on an inbox made for the purpose.")
@click.option("--stream", default="", help="Read a stream.")
@click.option("--durable", default="", help="Read through this consumer of the stream.")
@click.option("--all", "from_all", is_flag=True, help="Read a stream from its first message.")
@click.option("--new", "from_new", is_flag=True, help="Read what a stream takes from now on.")
@click.option("--last", "from_last", is_flag=True, help="Read a stream from its last message.")
@click.option("--last-per-subject", is_flag=True, help="Read the last message of each subject first.")
@click.option("--since", type=DURATION, metavar="DURATION", help="Read messages of this age and younger.")
@click.option("--start-sequence", type=click.IntRange(min=1), help="Read a stream from this sequence.")
@click.option("-T", "--terminate-at-end", "to_end", is_flag=True, help="Stop when a stream is read.")
@click.option("--ack/--no-ack", default=False, help="Acknowledge what a stream delivers.")
@client_command
def sub(
    caller: Caller, subjects: Sequence[str], queue: str, count: int | None, wait: int, raw: bool,
    headers_only: bool, subjects_only: bool, timestamp: bool, translate: str | None, ignored: Sequence[str],
    inbox: bool, to_end: bool, stream: str, durable: str, ack: bool, delta_time: bool, dump: Path | None,
    report_subjects: bool, report_top: int, **start: Any,
) -> None:  # fmt: skip
    """Show messages as they are published, or read a stream (with --stream, --all, --since and the like)."""
    since = time.monotonic() if delta_time else None
    look = MessageView(
        raw, caller.as_json, headers_only, subjects_only, timestamp, translate, ignored, since, dump
    )  # fmt: skip
    tally = SubjectCounts() if report_subjects else None
    first = start_of(**start)
    reads = bool(first or stream or durable)
    _check(subjects, reads=reads, inbox=inbox, queue=queue, stream=stream, durable=durable, to_end=to_end)
    end = End(count or 0, wait / SECOND, to_end)
    quiet = raw or caller.as_json

    async def work(session: Session) -> None:
        if reads:
            begin = first or {"deliver_policy": "new"}
            source = _read(session, stream, subjects, durable, begin, ack, end, quiet=quiet)
        else:
            wanted = subjects or [session.nats.new_inbox()]
            words = "" if quiet else f"Subscribing on {', '.join(wanted)}"
            source = listened(session, wanted, queue, end, words)
        if tally is None:
            await shown_until_told(source, look)
        else:
            await tallied_until_told(source, tally, report_top, live=not caller.as_json)

    caller.run(work)
    if tally is not None and caller.as_json:
        show_json(tally.as_json(report_top))


def dump(target: Path, received: Received, data: bytes, place: int) -> None:
    """Write a message whole: its headers as JSON and its data, as a file or behind the one before it."""
    if str(target) == "-":
        sys.stdout.buffer.write(data + b"\0")
        sys.stdout.buffer.flush()
        return
    target.mkdir(parents=True, exist_ok=True)
    number = received.ack.stream_seq if received.ack is not None else place
    content = msgspec.json.format(msgspec.json.encode(received.as_json()), indent=2)
    (target / f"{number}.json").write_bytes(content)


async def shown_until_told(source: AsyncGenerator[Msg, None], look: MessageView) -> None:
    """Show messages until they end or the person has seen enough: Ctrl-C is how this is meant to end."""
    place = 0
    try:
        async with aclosing(source) as messages:
            async for message in messages:
                received = Received.of(message)
                if not look.passes_over(received):
                    place += 1
                    look.show(received, place)
    except asyncio.CancelledError:
        pass


@dataclass(frozen=True)
class End:
    """When there has been enough: so many messages, so long a silence, all that a stream held."""

    count: int = 0
    wait: float = 0.0
    at_end: bool = False


def start_of(
    *, from_all: bool, from_new: bool, from_last: bool, last_per_subject: bool, since: int | None,
    start_sequence: int | None,
) -> Json:  # fmt: skip
    """Return where in a stream to begin, as a consumer's config says it; nothing when nothing was said."""
    given: list[Json] = []
    for wanted, policy in (
        (from_all, "all"), (from_new, "new"), (from_last, "last"), (last_per_subject, "last_per_subject")
    ):  # fmt: skip
        given += [{"deliver_policy": policy}] if wanted else []
    if since:
        given.append(
            {"deliver_policy": "by_start_time", "opt_start_time": format_time(time.time_ns() - since)}
        )
    if start_sequence:
        given.append({"deliver_policy": "by_start_sequence", "opt_start_seq": start_sequence})
    if len(given) > 1:
        raise SettingsError("say once where to begin: one of --all, --new, --last, --since and the like")
    return given[0] if given else {}


def _check(
    subjects: Sequence[str], *, reads: bool, inbox: bool, queue: str, stream: str, durable: str, to_end: bool
) -> None:
    """Refuse what cannot be had together."""
    if not subjects and not inbox and not stream:
        raise SettingsError("which subjects? Say `headwater sub SUBJECT`, or name a --stream")
    if reads and (queue or inbox):
        raise SettingsError("--queue and --inbox listen, they do not read a stream: leave them out")
    if durable and (subjects or not stream):
        raise SettingsError("--durable reads what its consumer was made for: give --stream and no subjects")
    if to_end and not reads:
        raise SettingsError("--terminate-at-end needs an end: say --all, --since or --stream")


async def listened(
    session: Session, subjects: Sequence[str], queue: str, end: End, words: str = ""
) -> AsyncGenerator[Msg, None]:
    """Yield what is published on the subjects from now on; the words are said once nothing can be missed."""
    arrived: asyncio.Queue[Msg] = asyncio.Queue(PENDING)
    held = [await session.nats.subscribe(each, queue=queue, cb=arrived.put) for each in subjects]
    await flushed(session.nats)
    if words:
        say(words)
    came = 0
    try:
        while not end.count or came < end.count:
            try:
                yield await asyncio.wait_for(arrived.get(), end.wait or None)
            except TimeoutError:
                return
            came += 1
    finally:
        for subscription in held:
            if not session.nats.is_closed:
                await subscription.unsubscribe()


async def _read(
    session: Session, stream: str, subjects: Sequence[str], durable: str, first: Json, ack: bool, end: End,
    *, quiet: bool,
) -> AsyncGenerator[Msg, None]:  # fmt: skip
    """Yield what a stream holds and takes, through a consumer of our own or a durable one."""
    name = stream or await _stream_of(session, subjects)
    if durable:
        info = await session.request(f"CONSUMER.INFO.{name}.{durable}")
        if not quiet:
            say(f"Reading Stream {name} through Consumer {durable}")
        async with aclosing(_consumed(session, info, ack, end)) as messages:
            async for message in messages:
                yield message
        return
    config = {**first, "ack_policy": "explicit" if ack else "none"}
    if subjects:
        config["filter_subject" if len(subjects) == 1 else "filter_subjects"] = (
            subjects[0] if len(subjects) == 1 else list(subjects)
        )
    elif first["deliver_policy"] == "last_per_subject":
        config["filter_subject"] = ">"
    async with own_consumer(session, name, **config) as info:
        if not quiet:
            say(f"Reading Stream {name}")
        async with aclosing(_consumed(session, info, ack, end)) as messages:
            async for message in messages:
                yield message


async def _consumed(session: Session, info: Json, ack: bool, end: End) -> AsyncGenerator[Msg, None]:
    if end.at_end and not info.get("num_pending"):
        return
    async with aclosing(pulled(session, info, limit=end.count, wait=end.wait)) as messages:
        async for message in messages:
            yield message
            received = Received.of(message)
            if ack:
                await acknowledged(session, message)
            if end.at_end and received.ack is not None and not received.ack.pending:
                return


async def acknowledged(session: Session, message: Msg, body: bytes = b"") -> None:
    """Return once the server has taken note of an acknowledgement."""
    try:
        await session.nats.request(message.reply, body, timeout=session.timeout)
    except nats.errors.Error:
        raise Error("the acknowledgement was not confirmed: the message may come again") from None


async def _stream_of(session: Session, subjects: Sequence[str]) -> str:
    """Return the stream that takes a subject."""
    found = await session.stream_names(subjects[0])
    if not found:
        raise Error(f'no stream takes "{subjects[0]}": `headwater stream ls` lists those there are')
    if len(found) > 1:
        raise SettingsError(f"which stream? {', '.join(found)} take it: name one with --stream")
    return found[0]
