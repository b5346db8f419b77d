"""`headwater reply`: answer requests with their own data, a text, or the output of a command."""

from __future__ import annotations

import asyncio
import os
import random
import shlex
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime

import click

from headwater.cli.client import Caller, client_command
from headwater.cli.phrases import DURATION
from headwater.cli.publish import header, say
from headwater.cli.received import Received, write_data, write_headers, write_json_line
from headwater.cli.session import Session, flushed
from headwater.cli.subscribe import End, listened
from headwater.cli.templates import HELP, Moment, Template
from headwater.errors import SettingsError
from headwater.model.times import SECOND

QUEUE = "NATS-RPLY-22"

_EPILOG = (
    HELP
    + """\
  {{Request}}       the data of the request

\b
A --command may contain them too, and {{0}}, {{1}} … for the tokens of the subject. It gets the request in
NATS_REQUEST_SUBJECT and NATS_REQUEST_BODY, and runs without a shell.

\b
Examples:
  headwater reply service.echo --echo
  headwater reply service.time 'it is {{TimeStamp}}'
  headwater reply 'weather.>' --command 'cat forecast/{{1}}.txt'

\b
Ctrl-C or --count ends it, with exit code 0.
"""
)


class Answers:
    """The answers to requests."""

    def __init__(self, body: str | None, command: str, headers: Sequence[str], *, echo: bool) -> None:
        if command and (body is not None or echo):
            raise SettingsError("choose one answer: BODY, --echo or --command")
        self._body = None if body is None or echo else Template(body, request=True)
        self._command = command
        self._headers = [header(text) for text in headers]

    async def to(self, request: Received, place: int) -> tuple[bytes, dict[str, str]]:
        """Return the data and the headers of an answer."""
        moment = Moment(place, datetime.now().astimezone(), request.data.decode("utf-8", "surrogateescape"))
        headers = {name: value.fill(moment) for name, value in self._headers}
        if self._command:
            return await _output(self._command, request, moment), headers
        if self._body is not None:
            return self._body.fill(moment).encode("utf-8", "surrogateescape"), headers
        return request.data, {**request.headers, **headers, "NATS-Reply-Counter": str(place)}


@click.command(epilog=_EPILOG)
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--echo", is_flag=True, help="Answer with the request's data (the default without BODY).")
@click.option("--command", default="", help="Answer with the output of this command.")
@click.option("-q", "--queue", default=QUEUE, show_default=True, help="Queue group to share requests with.")
@click.option(
    "--sleep",
    type=DURATION,
    default=0,
    metavar="MAX",
    help="Wait a random time up to this before each answer.",
)
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="K:V", help="Header of the answers; repeatable."
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many requests.")
@client_command
def reply(
    caller: Caller, subject: str, body: str | None, echo: bool, command: str, queue: str, sleep: int,
    headers: Sequence[str], count: int | None,
) -> None:  # fmt: skip
    """Answer requests until Ctrl-C."""
    answers = Answers(body, command, headers, echo=echo)

    async def work(session: Session) -> None:
        words = f'Listening on "{subject}" in group "{queue}"'
        place = 0
        async with aclosing(listened(session, [subject], queue, End(count or 0), words)) as requests:
            async for message in requests:
                request = Received.of(message)
                _show(caller, request, place)
                if sleep:
                    await asyncio.sleep(random.uniform(0, sleep / SECOND))
                if message.reply:
                    data, said = await answers.to(request, place)
                    await session.nats.publish(message.reply, data, headers=said or None)
                place += 1
        await flushed(session.nats)

    async def until_interrupted(session: Session) -> None:
        try:
            await work(session)
        except asyncio.CancelledError:
            pass

    caller.run(until_interrupted)


def _show(caller: Caller, request: Received, place: int) -> None:
    if caller.as_json:
        write_json_line(request.as_json())
        return
    click.echo(f'[#{place}] Received on subject "{request.subject}":')
    write_headers(request.headers)
    click.echo()
    write_data(request.data)


async def _output(command: str, request: Received, moment: Moment) -> bytes:
    """Return the output of a command. A failure is reported, and the output is used anyway."""
    words = []
    for word in shlex.split(command):
        for place, token in enumerate(request.subject.split(".")):
            word = word.replace(f"{{{{{place}}}}}", token)
        words.append(Template(word, request=True).fill(moment))
    about = {"NATS_REQUEST_SUBJECT": request.subject, "NATS_REQUEST_BODY": moment.request or ""}
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, env={**os.environ, **about},
        )  # fmt: skip
    except OSError as error:
        say(f"Command {command!r} failed to run: {error.strerror}")
        return b""
    output, _ = await process.communicate()
    if process.returncode:
        say(f"Command {command!r} failed with exit code {process.returncode}")
    return output
