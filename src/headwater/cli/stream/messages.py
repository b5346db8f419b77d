"""`stream get|view|rmm|purge|gaps`: single messages of a stream, and gaps between them."""

from __future__ import annotations

import asyncio
import base64
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

import click

from headwater.cli import ask
from headwater.cli.client import Caller, client_command
from headwater.cli.phrases import DURATION, number, since
from headwater.cli.progress import Meter
from headwater.cli.render import Column, Sheet, show, show_json
from headwater.cli.reports import upstreams
from headwater.cli.session import Json, RequestRefusedError, Session, UnreachableError
from headwater.cli.stream.info import state_rows
from headwater.cli.stream.streams import chosen
from headwater.cli.stream.upstream_progress import extension, upstream_gaps_sheet
from headwater.errors import Error, SettingsError
from headwater.model.counted import counted
from headwater.model.times import format_time

NO_MESSAGE = 10037
PAGE = 25
PURGE_SECONDS = 600.0
QUIET_SECONDS = 1.0
POLL_SECONDS = 0.5
_SEQUENCE = click.IntRange(min=1)
_TRANSLATE = click.option(
    "--translate", metavar="COMMAND", help="Pass the data through this command before showing it."
)


@click.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.argument("sequence", metavar="[SEQUENCE]", type=_SEQUENCE, required=False)
@click.option("-S", "--last-for", metavar="SUBJECT", help="Show the last message of this subject.")
@_TRANSLATE
@client_command
def get(
    caller: Caller, name: str | None, sequence: int | None, last_for: str | None, translate: str | None
) -> None:
    """Show one message of a stream."""
    which = chosen(caller, name)
    if sequence is None and not last_for:
        sequence = _asked_sequence("Message Sequence to retrieve")
    asked: Json = {"last_by_subj": last_for} if last_for else {"seq": sequence}
    message = caller.run(lambda s: s.request(f"STREAM.MSG.GET.{which}", asked))["message"]
    if caller.as_json:
        show_json(message)
    else:
        _show_message(which, message, translate)


@click.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.argument("page", metavar="[SIZE]", type=click.IntRange(1, PAGE), default=10)
@click.option("--id", "sequence", type=_SEQUENCE, help="Start at this sequence.")
@click.option("--since", "age", type=DURATION, help="Start at messages of this age, such as 1d3h.")
@click.option("--raw", is_flag=True, help="Show only the stored data.")
@_TRANSLATE
@click.option("--subject", default=">", help="Only messages that match this subject.")
@client_command
def view(
    caller: Caller,
    name: str | None,
    page: int,
    sequence: int | None,
    age: int | None,
    raw: bool,
    translate: str | None,
    subject: str,
) -> None:
    """Show the messages of a stream page by page. Without a terminal, one page is shown."""
    which = chosen(caller, name)
    first: Json = {"next_by_subj": subject, "seq": sequence or 1}
    if age:
        first = {"next_by_subj": subject, "start_time": format_time(time.time_ns() - age)}
    while True:
        messages = caller.run(lambda session, start=first: _page(session, which, start, page))  # type: ignore[misc]
        if caller.as_json:
            show_json(messages)
        for message in () if caller.as_json else messages:
            if raw:
                _write_raw(_data(message, translate))
            else:
                _show_message(which, message, translate)
        if len(messages) < page:
            click.echo("Reached apparent end of data", err=True)
            return
        if caller.as_json or not ask.possible() or not ask.yes("Next Page?", True):
            return
        first = {"next_by_subj": subject, "seq": messages[-1]["seq"] + 1}


@click.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.argument("sequence", metavar="[SEQUENCE]", type=_SEQUENCE, required=False)
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@client_command
def rmm(caller: Caller, name: str | None, sequence: int | None, force: bool) -> None:
    """Delete one message of a stream."""
    which = chosen(caller, name)
    number_of = sequence or _asked_sequence("Message Sequence to remove")
    if ask.allowed(f"Really remove message {number_of} from Stream {which}", force=force):
        answer = caller.run(lambda s: s.request(f"STREAM.MSG.DELETE.{which}", {"seq": number_of}))
        if caller.as_json:
            show_json(answer)


@click.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@click.option("--subject", help="Only messages that match this subject.")
@click.option("--seq", type=_SEQUENCE, help="Only messages before this sequence.")
@click.option("--keep", type=click.IntRange(min=0), help="Keep this many of the newest messages.")
@client_command
def purge(
    caller: Caller, name: str | None, force: bool, subject: str | None, seq: int | None, keep: int | None
) -> None:
    """Remove all messages of a stream, or those that match."""
    which = chosen(caller, name)
    if seq and keep:
        raise SettingsError("--seq and --keep exclude each other: pass one of them")
    asked = {key: value for key, value in (("filter", subject), ("seq", seq), ("keep", keep)) if value}
    if not ask.allowed(f"Really purge Stream {which}", force=force):
        return
    answer, info = caller.run(lambda session: _purge(session, which, asked))
    if caller.as_json:
        show_json(answer)
    else:
        click.echo(f"Purged {counted(answer['purged'], 'message')} from {which}\n")
        show(state_rows(info))


@click.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("-f", "--force", is_flag=True, help="Accepted for scripts of the nats command; without effect.")
@click.option("--progress/--no-progress", default=True, hidden=True)
@click.option("--upstream", is_flag=True, help="Only sequences that origins removed before they were copied.")
@client_command
def gaps(caller: Caller, name: str | None, force: bool, progress: bool, upstream: bool) -> None:
    """Show the sequences between a stream's first and last message that have no message.

    For mirrors and sources, also show the sequences that origins removed before they were copied.
    """
    which = chosen(caller, name)
    info = caller.run(lambda session: session.stream_info(which, deleted_details=not upstream))
    found = ranges(info["state"].get("deleted") or ())
    copied = [each for _, each in upstreams(info)]
    if caller.as_json:
        show_json(
            [{"name": each["name"], **extension(each).get("gaps", {})} for each in copied]
            if upstream
            else found
        )
        return
    if found:
        show(gaps_sheet(which, found))
    elif not upstream:
        click.echo(f"No deleted messages in {which}")
    if (lost := upstream_gaps_sheet(copied)) is not None:
        show(lost)
    elif upstream:
        click.echo(f"No replication gaps in {which}")


def ranges(sequences: Iterable[int]) -> list[list[int]]:
    """Return consecutive sequences as ranges of [first, last]."""
    runs: list[list[int]] = []
    for sequence in sorted(sequences):
        if runs and runs[-1][1] + 1 == sequence:
            runs[-1][1] = sequence
        else:
            runs.append([sequence, sequence])
    return runs


def gaps_sheet(stream: str, found: list[list[int]]) -> Sheet:
    """Return the table of gaps."""
    rows = [[number(first), number(last)] for first, last in found]
    columns = [Column("First Message"), Column("Last Message")]
    return Sheet(f"{counted(len(found), 'gap')} found in Stream {stream}", columns, rows)


async def _purge(session: Session, stream: str, asked: Json) -> tuple[Json, Json]:
    """Purge, and show progress if it takes long."""
    before = (await session.stream_info(stream))["state"]["messages"]
    request = session.request(
        f"STREAM.PURGE.{stream}", asked or None, wait=max(session.timeout, PURGE_SECONDS)
    )
    work = asyncio.ensure_future(request)
    try:
        await asyncio.wait({work}, timeout=QUIET_SECONDS)
        if not work.done():
            with Meter(f"Purging {stream}", max(before - int(asked.get("keep") or 0), 0)) as meter:
                while not work.done():
                    await asyncio.wait({work}, timeout=POLL_SECONDS)
                    meter.reach(before - await _messages(session, stream, before))
        return await work, await session.stream_info(stream)
    finally:
        work.cancel()


async def _messages(session: Session, stream: str, otherwise: int) -> int:
    try:
        return int((await session.stream_info(stream))["state"]["messages"])
    except UnreachableError:
        return otherwise


async def _page(session: Session, stream: str, first: Json, size: int) -> list[Json]:
    """Return the next messages; fewer than requested at the end of the stream."""
    messages: list[Json] = []
    asked = first
    while len(messages) < size:
        try:
            answer = await session.request(f"STREAM.MSG.GET.{stream}", asked)
        except RequestRefusedError as refusal:
            if refusal.err_code == NO_MESSAGE:
                break
            raise
        messages.append(answer["message"])
        asked = {"next_by_subj": first["next_by_subj"], "seq": answer["message"]["seq"] + 1}
    return messages


def _show_message(stream: str, message: Json, translate: str | None) -> None:
    ago = since(message["time"], time.time_ns())
    received = f"received {message['time']} ({ago} ago) on Subject {message['subject']}"
    click.echo(f"Item: {stream}#{message['seq']} {received}\n")
    if headers := _headers(message):
        click.echo("Headers:")
        click.echo("".join(f"  {line}\n" for line in headers))
    click.echo(_data(message, translate).decode("utf-8", errors="replace") + "\n")


def _headers(message: Json) -> list[str]:
    block = base64.b64decode(message.get("hdrs") or "").decode("utf-8", errors="replace")
    return [line for line in block.split("\r\n")[1:] if line]


def _data(message: Json, translate: str | None) -> bytes:
    data = base64.b64decode(message.get("data") or "")
    if not translate:
        return data
    try:
        return subprocess.run(shlex.split(translate), input=data, check=True, stdout=subprocess.PIPE).stdout
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise Error(f"--translate failed on message {message['seq']}: {error}") from None


def _write_raw(data: bytes) -> None:
    buffer: Any = getattr(sys.stdout, "buffer", None)
    assert buffer is not None
    sys.stdout.flush()
    buffer.write(data + b"\n")
    buffer.flush()


def _asked_sequence(question: str) -> int:
    if not ask.possible():
        raise SettingsError("missing message sequence: pass SEQUENCE")

    def read(text: str) -> int:
        if not text.isdigit() or not int(text):
            raise ValueError("enter a sequence of at least 1")
        return int(text)

    return int(ask.text(question, read=read))
