"""The pages of messages: a stream page by page, one message, searches and downloads."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from headwater.console.application import console_of
from headwater.console.message_origin import origin_of
from headwater.console.message_reader import MessagePage, MessageReader
from headwater.console.message_search import NAMES, MessageSearch, SearchBounds, search_condition
from headwater.console.payload import payload_of, visible_text
from headwater.console.rendering import render, segment
from headwater.errors import Error
from headwater.model import headers as header_block
from headwater.model.condition import ConditionError
from headwater.model.message import Message
from headwater.model.times import format_time, parse_time

PER_PAGE = 25
PREVIEW_LETTERS = 160
DOWNLOAD_MESSAGES = 10_000
DOWNLOAD_BYTES = 256 << 20
DOWNLOAD_SECONDS = 120.0
DISCONNECT_POLL_S = 0.5
MOST_SEQ = (1 << 63) - 1
_INTERVALS = {"": 0, "5m": 300, "1h": 3600, "1d": 86_400, "7d": 604_800}


async def choose(request: Request) -> Response:
    """Show which streams there are; with a stream in the query, go to its messages."""
    sampler = console_of(request).sampler
    site, stream = request.query_params.get("site", ""), request.query_params.get("stream", "").strip()
    if site and stream:
        return RedirectResponse(f"/messages/{segment(site)}/{segment(stream)}", 303)
    streams = {name: sorted(each.snapshot.streams) for name, each in sampler.sites.items()}
    return render(request, "messages_choose.html", title="Messages", streams=streams)


async def browse(request: Request) -> Response:
    """Show a page of a stream's messages."""
    asked = dict(request.query_params)
    reader = await _reader(request)
    problem, page = "", MessagePage((), 0, 0)
    try:
        page = await _page(reader, asked)
    except Error as error:
        problem = str(error)
    return _render(
        request, asked, problem=problem, page=page, messages=[_row(each) for each in page.messages]
    )


async def _page(reader: MessageReader, asked: Mapping[str, str]) -> MessagePage:
    subject, count = asked.get("subject", "").strip(), _whole(asked, "count", PER_PAGE)
    if moment := asked.get("time", "").strip() or _since(asked.get("since", "")):
        if parse_time(moment) is None:
            raise Error(f"{moment!r} is not a time such as 2026-01-31T12:00:00Z")
        first = await reader.first_since(moment, subject)
        return MessagePage((), 0, 0) if first is None else await reader.page(first.seq, count, subject)
    if asked.get("before", "").strip():
        return await reader.page_before(_whole(asked, "before", 1), count, subject)
    if asked.get("seq", "").strip():
        return await reader.page(_whole(asked, "seq", 1), count, subject)
    newest = await reader.newest(subject)
    if newest is None:
        return MessagePage((), 0, 0)
    page = await reader.page_before(newest.seq + 1, count, subject)
    return replace(page, newer_seq=0)


async def show(request: Request) -> Response:
    """Show one message with its headers, its origin and its payload in every form that fits."""
    message = await _message(request)
    origin = origin_of(message.headers)
    site = request.path_params["site"]
    streams = console_of(request).sampler.site(site).snapshot.streams
    return render(
        request,
        "message.html",
        title=f"{request.path_params['stream']} #{message.seq}",
        site=site,
        stream=request.path_params["stream"],
        message=_row(message),
        headers=_header_pairs(message),
        payload=payload_of(message.data),
        origin=origin,
        origin_is_here=origin is not None and not origin.api and origin.stream in streams,
    )


async def search(request: Request) -> Response:
    """Show the messages of which a condition holds; a browser that leaves ends the search."""
    asked = dict(request.query_params)
    subject, text = asked.get("subject", "").strip(), asked.get("expression", "").strip()
    reader = await _reader(request)
    result, problem, messages = None, "", []
    try:
        running = MessageSearch(reader, search_condition(text), SearchBounds())
        result = await _until_gone(request, running, _whole(asked, "seq", 1), subject)
        messages = [_row(each) for each in result.found]
    except ConditionError as error:
        problem = f"the expression {error}"
    except Error as error:
        problem = str(error)
    page = MessagePage((), 0, 0)
    return _render(request, asked, problem=problem, page=page, messages=messages, result=result)


async def _until_gone(request: Request, running: MessageSearch, seq: int, subject: str) -> Any:
    """Return the result of a search; cancel it when the browser has left."""
    task = asyncio.create_task(running.run(seq, subject))
    try:
        while not task.done():
            await asyncio.wait([task], timeout=DISCONNECT_POLL_S)
            if not task.done() and await request.is_disconnected():
                task.cancel()
        return await task
    except asyncio.CancelledError:
        if (current := asyncio.current_task()) is not None and current.cancelling():
            raise
        raise Error("the search was cancelled") from None
    finally:
        task.cancel()


async def payload(request: Request) -> Response:
    """Answer the payload of one message as a file."""
    message = await _message(request)
    return _download(message.data, f"{request.path_params['stream']}-{message.seq}.bin")


async def ndjson(request: Request) -> Response:
    """Answer a range of messages as one JSON object a line, bounded in messages, bytes and time."""
    asked = dict(request.query_params)
    count = min(_whole(asked, "count", 1000), DOWNLOAD_MESSAGES)
    reader = await _reader(request)
    await reader.one(1)  # a stream that does not exist is an error of the request
    lines = _lines(reader, _whole(asked, "seq", 1), asked.get("subject", "").strip(), count)
    name = f"{request.path_params['stream']}.ndjson"
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=_disposition(name))


async def _lines(reader: MessageReader, seq: int, subject: str, count: int) -> AsyncIterator[bytes]:
    sent = number = 0
    ends_s = time.monotonic() + DOWNLOAD_SECONDS
    async for message in reader.each(seq, subject):
        line = json.dumps(json_of(message), ensure_ascii=False).encode() + b"\n"
        yield line
        sent, number = sent + len(line), number + 1
        if number >= count or sent >= DOWNLOAD_BYTES or time.monotonic() > ends_s:
            return


def json_of(message: Message) -> dict[str, Any]:
    """Return a message as one JSON object; a payload that is not UTF-8 is base64."""
    shown: dict[str, Any] = {
        "seq": message.seq,
        "time": format_time(message.ts),
        "subject": message.subject.decode(errors="replace"),
    }
    if pairs := header_block.parse(message.headers):
        shown["headers"] = [
            [name.decode(errors="replace"), value.decode(errors="replace")] for name, value in pairs
        ]
    try:
        shown["data"] = message.data.decode()
    except UnicodeDecodeError:
        shown["data_base64"] = b64encode(message.data).decode()
    return shown


ROUTES = (
    Route("/messages", choose),
    Route("/messages/{site}/{stream}", browse),
    Route("/messages/{site}/{stream}/search", search),
    Route("/messages/{site}/{stream}/download", ndjson),
    Route("/messages/{site}/{stream}/{seq:int}", show),
    Route("/messages/{site}/{stream}/{seq:int}/payload", payload),
)


def _render(request: Request, asked: Mapping[str, str], **values: Any) -> Response:
    site, stream = request.path_params["site"], request.path_params["stream"]
    return render(
        request,
        "messages.html",
        title=f"Messages of {stream}",
        site=site,
        stream=stream,
        asked={
            name: asked.get(name, "") for name in ("seq", "time", "since", "subject", "count", "expression")
        },
        intervals=[name for name in _INTERVALS if name],
        names=NAMES,
        **{"result": None, **values},
    )


async def _reader(request: Request) -> MessageReader:
    site = console_of(request).sampler.site(request.path_params["site"])
    stream = request.path_params["stream"]
    config = (site.snapshot.streams.get(stream) or {}).get("config") or {}
    return MessageReader(
        await site.connection.api(),
        stream,
        allows_direct=bool(config.get("allow_direct")),
        without_batches=site.connection.without_batches,
    )


async def _message(request: Request) -> Message:
    seq = request.path_params["seq"]
    found = await (await _reader(request)).one(seq) if 0 < seq <= MOST_SEQ else None
    if found is None:
        raise Error(
            f"stream {request.path_params['stream']} holds no message {seq}: it was removed, or never was"
        )
    return found


def _row(message: Message) -> dict[str, Any]:
    text = message.data[: PREVIEW_LETTERS * 4].decode(errors="replace")
    return {
        "seq": message.seq,
        "time": format_time(message.ts),
        "subject": visible_text(message.subject.decode(errors="replace")),
        "size": len(message.data),
        "has_headers": bool(message.headers),
        "preview": visible_text(text)[:PREVIEW_LETTERS].replace("\n", " "),
        "is_copied": origin_of(message.headers) is not None,
    }


def _header_pairs(message: Message) -> list[tuple[str, str]]:
    pairs = header_block.parse(message.headers)
    if pairs is None:
        return [("(malformed)", visible_text(message.headers.decode(errors="replace")))]
    return [
        (visible_text(name.decode(errors="replace")), visible_text(value.decode(errors="replace")))
        for name, value in pairs
    ]


def _since(interval: str) -> str:
    """Return the time so long ago; empty for an interval that is not offered."""
    seconds = _INTERVALS.get(interval, 0)
    return format_time(time.time_ns() - seconds * 10**9) if seconds else ""


def _whole(asked: Mapping[str, str], name: str, default: int) -> int:
    text = asked.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:20]) <= MOST_SEQ:
        raise Error(f"{name} must be a number of at least 1, not {text[:40]!r}")
    return int(text)


def _download(data: bytes, name: str) -> Response:
    return Response(data, media_type="application/octet-stream", headers=_disposition(name))


def _disposition(name: str) -> dict[str, str]:
    """Return the header that makes a browser save an answer and not show it."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{segment(name)}"}
