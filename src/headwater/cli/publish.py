"""`headwater pub` and `headwater req`: publish messages and send requests."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click
import nats.errors
from nats.aio.msg import Msg

from headwater.cli.batch import stored_together
from headwater.cli.client import Caller, client_command
from headwater.cli.phrases import DURATION, number
from headwater.cli.progress import Meter
from headwater.cli.received import Received, translated, write_data, write_headers, write_json_line
from headwater.cli.session import Json, Session, UnreachableError, answer_of, plain
from headwater.cli.templates import HELP, Moment, Template
from headwater.errors import ApiError, Error, SettingsError
from headwater.model.counted import counted
from headwater.model.times import SECOND, format_duration

METER_FROM = 21
"""From this many messages on, show a progress bar instead of a line per message."""
WINDOW = 256
"""How many messages may be unacknowledged at a time."""

_PUB_EPILOG = (
    HELP
    + """
\b
Examples:
  headwater pub orders.new 'order {{Count}}' --count 100 --jetstream
  headwater pub orders.new -H 'Nats-Msg-Id: {{ID}}' 'hello'
  headwater pub sensors.{{Count}} 'at {{TimeStamp}}' --count 10 --sleep 1s
  tail -f app.log | headwater pub logs --send-on newline
  headwater pub orders.new 'order {{Count}}' --count 100 --atomic
      all of them or none; the stream must allow batches (stream add … --allow-batch)
"""
)
_REQ_EPILOG = (
    HELP
    + """
\b
Examples:
  headwater req service.echo hello
  headwater req service.echo hello --raw
  headwater req discover.all ping --replies 0 --timeout 2s
      all answers that arrive within two seconds
"""
)


@dataclass(frozen=True)
class RenderedMessage:
    """One message to send."""

    subject: str
    data: bytes
    headers: dict[str, str] | None


class MessageTemplates:
    """The messages that a command sends: a subject, a body and headers as templates."""

    def __init__(self, subject: str, headers: Sequence[str], *, templates: bool) -> None:
        self._subject = Template(subject, parts=templates)
        self._headers = [header(text) for text in headers]
        self._templates = templates
        self._numbers = itertools.count(1)

    def each(self, body: str, count: int) -> Iterator[RenderedMessage]:
        """Yield the messages of one body; numbering continues from the previous body."""
        template = Template(body, parts=self._templates)
        for _ in range(count):
            moment = Moment(next(self._numbers), datetime.now().astimezone())
            headers = {name: value.fill(moment) for name, value in self._headers}
            data = template.fill(moment).encode("utf-8", "surrogateescape")
            yield RenderedMessage(self._subject.fill(moment), data, headers or None)


def body_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags for bodies and headers."""
    for option in (
        click.option("--templates/--no-templates", default=True, help="Fill in templates such as {{Count}}."),
        click.option(
            "--send-on", type=click.Choice(["eof", "newline"]), default="eof", show_default=True,
            help="Send standard input as one message, or each line as one.",
        ),
        click.option("--force-stdin", is_flag=True, help="Read standard input even if BODY is given."),
        click.option("--count", type=click.IntRange(min=1), default=1, help="Number of messages."),
        click.option("-H", "--header", "headers", multiple=True, metavar="K:V", help="Header; repeatable."),
        click.argument("body", required=False),
        click.argument("subject"),
    ):  # fmt: skip
        command = option(command)
    return command


@click.command(epilog=_PUB_EPILOG)
@body_flags
@click.option("--reply", default="", help="Reply subject.")
@click.option("--sleep", type=DURATION, default=0, metavar="DURATION", help="Pause between messages.")
@click.option("-J", "--jetstream", is_flag=True, help="Wait for a stream's acknowledgement of each message.")
@click.option("--atomic", is_flag=True, help="Store all messages or none, as one batch of at most 1,000.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@client_command
def pub(
    caller: Caller, subject: str, body: str | None, headers: Sequence[str], count: int, force_stdin: bool,
    send_on: str, templates: bool, reply: str, sleep: int, jetstream: bool, atomic: bool, quiet: bool,
) -> None:  # fmt: skip
    """Publish messages. Without BODY, standard input is read."""
    outgoing = MessageTemplates(subject, headers, templates=templates)
    if atomic:
        _publish_together(caller, outgoing, body, count, force_stdin, send_on, reply, sleep, quiet)
        return
    if jetstream and reply:
        raise SettingsError("--jetstream uses the reply subject for acknowledgements: leave out --reply")
    quiet = quiet or caller.as_json
    by_line = send_on == "newline" and (body is None or force_stdin)
    shown = count >= METER_FROM and not quiet

    async def work(session: Session) -> None:
        sender = _Sender(session, reply, jetstream, quiet=quiet or shown, as_json=caller.as_json)
        with Meter("Publishing", 0 if by_line else count, shown=shown) as meter:
            async for text in _bodies(body, force_stdin, send_on, quiet):
                group: list[RenderedMessage] = []
                for message in outgoing.each(text, count):
                    group.append(message)
                    if sleep or len(group) == WINDOW:
                        await sender.send(group, meter)
                        group = []
                    if sleep:
                        await asyncio.sleep(sleep / SECOND)
                await sender.send(group, meter)

    caller.run(work)


def _publish_together(
    caller: Caller, outgoing: MessageTemplates, body: str | None, count: int, force_stdin: bool, send_on: str,
    reply: str, sleep: int, quiet: bool,
) -> None:  # fmt: skip
    """Publish all messages as one batch."""
    if reply or sleep:
        raise SettingsError("--atomic sends all messages as one batch: leave out --reply and --sleep")

    async def work(session: Session) -> None:
        every: list[RenderedMessage] = []
        async for text in _bodies(body, force_stdin, send_on, quiet or caller.as_json):
            every += outgoing.each(text, count)
        if not every:
            return
        ack = await stored_together(session, every)
        if caller.as_json:
            write_json_line({"messages": len(every), **ack})
        elif not quiet:
            say(f"Published {counted(len(every), 'message')} as one batch")
            say(_stored_words(ack))

    caller.run(work)


class _Sender:
    """Sends messages and reports each."""

    def __init__(self, session: Session, reply: str, jetstream: bool, *, quiet: bool, as_json: bool) -> None:
        self._session = session
        self._reply = reply
        self._jetstream = jetstream
        self._quiet = quiet
        self._as_json = as_json
        self._sent = 0

    async def send(self, messages: Sequence[RenderedMessage], meter: Meter) -> None:
        """Return once the server has the messages, or with --jetstream once they are stored."""
        try:
            acks = await (self._stored if self._jetstream else self._published)(messages)
        except nats.errors.Error as error:
            raise Error(f"message {self._sent + 1} was not sent: {plain(error)}") from None
        for message, ack in zip(messages, acks, strict=True):
            self._sent += 1
            if self._as_json:
                write_json_line({"subject": message.subject, "bytes": len(message.data), **(ack or {})})
            elif not self._quiet:
                say(f'Published {len(message.data)} bytes to "{message.subject}"')
                if ack is not None:
                    say(_stored_words(ack))
        meter.advance(len(messages))

    async def _published(self, messages: Sequence[RenderedMessage]) -> Sequence[Json | None]:
        client = self._session.nats
        before = client.last_error
        for message in messages:
            await client.publish(message.subject, message.data, reply=self._reply, headers=message.headers)
        if messages:
            await client.flush(int(self._session.timeout) or 1)
        if client.last_error is not None and client.last_error is not before:
            raise Error(f"the server refused the message: {plain(client.last_error)}")
        return [None] * len(messages)

    async def _stored(self, messages: Sequence[RenderedMessage]) -> Sequence[Json | None]:
        """Return the acknowledgements; the first refused message raises."""
        answers = await asyncio.gather(
            *(self._session.ask(each.subject, each.data, headers=each.headers) for each in messages),
            return_exceptions=True,
        )
        acks: list[Json | None] = []
        for message, answer in zip(messages, answers, strict=True):
            try:
                if isinstance(answer, BaseException):
                    raise answer
                acks.append(answer_of(answer.data, message.subject))
            except UnreachableError as error:
                why = (
                    str(error)
                    if "no answer" in str(error)
                    else f'no stream has the subject "{message.subject}"'
                )
                raise Error(f"message {self._sent + len(acks) + 1} was not stored: {why}") from None
            except ApiError as error:
                raise Error(f"message {self._sent + len(acks) + 1} was not stored: {error}") from None
        return acks


def _stored_words(ack: Json) -> str:
    said = f"Stored in Stream: {ack.get('stream')} Sequence: {number(ack.get('seq', 0))}"
    said += f' Domain: "{ack["domain"]}"' if ack.get("domain") else ""
    said += " Duplicate: true" if ack.get("duplicate") else ""
    return said + (f" Counter Value: {ack['val']}" if ack.get("val") else "")


@click.command(epilog=_REQ_EPILOG)
@body_flags
@click.option("-r", "--raw", is_flag=True, help="Show only the answers' data.")
@click.option("--replies", type=click.IntRange(min=0), default=1, show_default=True,
              help="Number of answers to wait for; 0 for all that arrive within --timeout.")  # fmt: skip
@click.option("--reply-timeout", type=DURATION, default="300ms", show_default=True,
              help="How long to wait between answers.")  # fmt: skip
@click.option("--translate", metavar="COMMAND", help="Pass the data through this command before showing it.")
@client_command
def req(
    caller: Caller, subject: str, body: str | None, headers: Sequence[str], count: int, force_stdin: bool,
    send_on: str, templates: bool, raw: bool, replies: int, reply_timeout: int, translate: str | None,
) -> None:  # fmt: skip
    """Send requests and show the answers. Without BODY, standard input is read."""
    outgoing = MessageTemplates(subject, headers, templates=templates)
    quiet = raw or caller.as_json

    def show(answer: Received, seconds: float) -> None:
        data = translated(answer.data, translate, answer.subject)
        if caller.as_json:
            write_json_line({**answer.as_json(), "rtt_ns": int(seconds * SECOND)})
            return
        if not raw:
            say(f"Received with rtt {format_duration(int(seconds * SECOND))}")
            if answer.headers:
                write_headers(answer.headers)
                click.echo()
        write_data(data)

    async def work(session: Session) -> None:
        async for text in _bodies(body, force_stdin, send_on, quiet):
            for message in outgoing.each(text, count):
                if not quiet:
                    say(f'Sending request on "{message.subject}"')
                await _ask(session, message, replies, reply_timeout / SECOND, show)

    caller.run(work)


async def _ask(
    session: Session,
    asked: RenderedMessage,
    replies: int,
    between: float,
    show: Callable[[Received, float], None],
) -> None:
    """Send one request and show its answers as they arrive."""
    inbox = session.nats.new_inbox()
    answers = await session.nats.subscribe(inbox)
    began = time.monotonic()
    await session.nats.publish(asked.subject, asked.data, reply=inbox, headers=asked.headers)
    wait, heard = session.timeout, 0
    try:
        while replies == 0 or heard < replies:
            left = wait if replies or not heard else session.timeout - (time.monotonic() - began)
            try:
                message: Msg = await answers.next_msg(max(left, 0.001))
            except nats.errors.TimeoutError:
                break
            answer = Received.of(message)
            if answer.status == "503":
                raise Error(f'no responders on "{asked.subject}": start the service, then try again')
            heard += 1
            took = time.monotonic() - began
            show(answer, took)
            wait = took + between
    finally:
        await answers.unsubscribe()
    if not heard:
        waited = format_duration(int(session.timeout * SECOND))
        raise Error(f'no answer on "{asked.subject}" within {waited}: pass a longer --timeout')


def say(words: str) -> None:
    """Write a progress line to standard error, apart from the data."""
    click.echo(f"{datetime.now():%H:%M:%S} {words}", err=True)


async def _bodies(body: str | None, force_stdin: bool, send_on: str, quiet: bool) -> Any:
    """Yield the given body, or the contents of standard input."""
    if body is not None and not force_stdin:
        yield body
        return
    stdin = sys.stdin.buffer
    if sys.stdin.isatty() and not quiet:
        say("Reading payload from STDIN")
    if send_on == "eof":
        yield (await asyncio.to_thread(stdin.read)).decode("utf-8", "surrogateescape")
        return
    while line := await asyncio.to_thread(stdin.readline):
        yield line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")


def header(text: str) -> tuple[str, Template]:
    """Return a header's name and the template of its value."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise SettingsError(f"-H {text!r} is not a header: write it as 'Name: value'")
    return name.strip(), Template(value.strip())
