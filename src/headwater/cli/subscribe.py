"""`headwater sub`: show messages as they are published, or read a stream."""

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
from headwater.cli.stream.subject_report import SubjectCounts, counted_until_cancelled
from headwater.errors import Error, SettingsError
from headwater.model.subject import matches
from headwater.model.times import SECOND, format_duration, format_time

PENDING = 65_536
"""How many messages the client buffers. It drops further messages."""

_EPILOG = """\b
Examples:
  headwater sub 'orders.>'
  headwater sub 'orders.>' --queue workers --count 10
  headwater sub 'orders.>' --all --terminate-at-end --raw
      all stored messages of these subjects, then stop
  headwater sub --stream ORDERS --since 1h --json
  headwater sub --stream ORDERS --durable WORK --ack

\b
Ctrl-C, --count and --wait end it with exit code 0.
"""


@dataclass(frozen=True)
class MessageView:
    """How messages are shown, and which are skipped."""

    raw: bool = False
    as_json: bool = False
    headers_only: bool = False
    subjects_only: bool = False
    timestamp: bool = False
    translate: str | None = None
    ignored: Sequence[str] = ()
    since: float | None = None
    """The time when the command started, if --delta-time is given."""
    dump: Path | None = None
    """The directory with one file per message; - for standard output with a null byte after each."""

    def skips(self, received: Received) -> bool:
        """Return whether a message is skipped."""
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
@click.option("--queue", default="", help="Queue group to share messages with.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many messages.")
@click.option(
    "--wait", type=DURATION, default=0, metavar="DURATION", help="Stop after this long without a message."
)
@click.option("-r", "--raw", is_flag=True, help="Show only the data.")
@click.option("--headers-only", is_flag=True, help="Show only headers.")
@click.option("--subjects-only", is_flag=True, help="Show only the subjects.")
@click.option("-t", "--timestamp", is_flag=True, help="Show the arrival time of each message.")
@click.option("-d", "--delta-time", is_flag=True, help="Show the time since the start for each message.")
@click.option(
    "--dump",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Write each message to a file in this directory; - for standard output, with null bytes between.",
)
@click.option("--report-subjects", is_flag=True, help="Count messages by subject instead of showing them.")
@click.option(
    "--report-top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Number of subjects that --report-subjects shows.",
)
@click.option("--translate", metavar="COMMAND", help="Pass the data through this command before showing it.")
@click.option(
    "-I",
    "--ignore-subject",
    "ignored",
    multiple=True,
    metavar="SUBJECT",
    help="Skip messages of these subjects; repeatable.",
)
@click.option("-i", "--inbox", is_flag=True, help="Subscribe to a new inbox.")
@click.option("--stream", default="", help="Stream to read.")
@click.option("--durable", default="", help="Durable consumer of the stream to use.")
@click.option("--all", "from_all", is_flag=True, help="Start at the stream's first message.")
@click.option("--new", "from_new", is_flag=True, help="Start at the next new message.")
@click.option("--last", "from_last", is_flag=True, help="Start at the stream's last message.")
@click.option("--last-per-subject", is_flag=True, help="Start with the last message of each subject.")
@click.option("--since", type=DURATION, metavar="DURATION", help="Start at messages of this age.")
@click.option("--start-sequence", type=click.IntRange(min=1), help="Start at this sequence.")
@click.option("-T", "--terminate-at-end", "to_end", is_flag=True, help="Stop at the end of the stream.")
@click.option("--ack/--no-ack", default=False, help="Acknowledge messages of a stream.")
@client_command
def sub(
    caller: Caller, subjects: Sequence[str], queue: str, count: int | None, wait: int, raw: bool,
    headers_only: bool, subjects_only: bool, timestamp: bool, translate: str | None, ignored: Sequence[str],
    inbox: bool, to_end: bool, stream: str, durable: str, ack: bool, delta_time: bool, dump: Path | None,
    report_subjects: bool, report_top: int, **start: Any,
) -> None:  # fmt: skip
    """Show messages as they are published, or read a stream.

    A stream is read with --stream or with one of the start flags: --all, --new, --last, --last-per-subject,
    --since, --start-sequence.
    """
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
            await shown_until_cancelled(source, look)
        else:
            await counted_until_cancelled(source, tally, report_top, live=not caller.as_json)

    caller.run(work)
    if tally is not None and caller.as_json:
        show_json(tally.as_json(report_top))


def dump(target: Path, received: Received, data: bytes, place: int) -> None:
    """Write a message with its headers as JSON and its data, to a file or to standard output."""
    if str(target) == "-":
        sys.stdout.buffer.write(data + b"\0")
        sys.stdout.buffer.flush()
        return
    target.mkdir(parents=True, exist_ok=True)
    number = received.ack.stream_seq if received.ack is not None else place
    content = msgspec.json.format(msgspec.json.encode(received.as_json()), indent=2)
    (target / f"{number}.json").write_bytes(content)


async def shown_until_cancelled(source: AsyncGenerator[Msg, None], look: MessageView) -> None:
    """Show messages until they end, or until Ctrl-C, which is the normal end."""
    place = 0
    try:
        async with aclosing(source) as messages:
            async for message in messages:
                received = Received.of(message)
                if not look.skips(received):
                    place += 1
                    look.show(received, place)
    except asyncio.CancelledError:
        pass


@dataclass(frozen=True)
class End:
    """When to stop: after a number of messages, a time without messages, or the end of the stream."""

    count: int = 0
    wait: float = 0.0
    at_end: bool = False


def start_of(
    *, from_all: bool, from_new: bool, from_last: bool, last_per_subject: bool, since: int | None,
    start_sequence: int | None,
) -> Json:  # fmt: skip
    """Return the start in a stream as keys of a consumer's config; empty if no flag was given."""
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
        raise SettingsError(
            "pass one start: --all, --new, --last, --last-per-subject, --since or --start-sequence"
        )
    return given[0] if given else {}


def _check(
    subjects: Sequence[str], *, reads: bool, inbox: bool, queue: str, stream: str, durable: str, to_end: bool
) -> None:
    """Refuse flags that exclude each other."""
    if not subjects and not inbox and not stream:
        raise SettingsError("missing subject: run `headwater sub SUBJECT`, or pass --stream NAME")
    if reads and (queue or inbox):
        raise SettingsError("--queue and --inbox cannot be combined with reading a stream: leave them out")
    if durable and (subjects or not stream):
        raise SettingsError(
            "--durable needs --stream and no subjects: the consumer's config selects the messages"
        )
    if to_end and not reads:
        raise SettingsError("--terminate-at-end works only for streams: pass --stream, --all or --since")


async def listened(
    session: Session, subjects: Sequence[str], queue: str, end: End, words: str = ""
) -> AsyncGenerator[Msg, None]:
    """Yield messages published from now on. `words` is printed once the subscriptions are active."""
    arrived: asyncio.Queue[Msg] = asyncio.Queue(PENDING)
    held = [await session.nats.subscribe(each, queue=queue, cb=arrived.put) for each in subjects]
    await flushed(session.nats)
    if words:
        say(words)
    came = 0
    try:
        while not end.count or came < end.count:
            try:
                async with asyncio.timeout(end.wait or None):
                    message = await arrived.get()
            except TimeoutError:
                return
            yield message
            came += 1
    finally:
        for subscription in held:
            if not session.nats.is_closed:
                await subscription.unsubscribe()


async def _read(
    session: Session, stream: str, subjects: Sequence[str], durable: str, first: Json, ack: bool, end: End,
    *, quiet: bool,
) -> AsyncGenerator[Msg, None]:  # fmt: skip
    """Yield a stream's messages through a temporary or a durable consumer."""
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
    """Return once the server has confirmed an acknowledgement."""
    try:
        await session.nats.request(message.reply, body, timeout=session.timeout)
    except nats.errors.Error:
        raise Error("the acknowledgement was not confirmed: the message may be redelivered") from None


async def _stream_of(session: Session, subjects: Sequence[str]) -> str:
    """Return the stream that listens on a subject."""
    found = await session.stream_names(subjects[0])
    if not found:
        raise Error(f'no stream has the subject "{subjects[0]}": `headwater stream ls` lists the streams')
    if len(found) > 1:
        raise SettingsError(f"several streams have the subject ({', '.join(found)}): pass --stream NAME")
    return found[0]
