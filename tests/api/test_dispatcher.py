"""Requests are found, bounded, run and answered; every failure is an answer, and the engine continues."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from doors import Asker, Door, Wanted, opened_door
from headwater.api import dispatcher
from headwater.errors import CorruptionError, DiskError
from headwater.stream.reading import StreamReading

S = {"name": "S", "subjects": ["s.>"]}


@pytest.mark.parametrize("level", [b"99", b"x", b"", b"5", b"0", b"-1"])
async def test_the_required_api_level_is_compared_as_by_nats_server(twins: Any, level: bytes) -> None:
    header = b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\n\r\n" % level
    await twins.ask("STREAM.NAMES", None, header)
    await twins.ask("STREAM.INFO.S", None, header)


@pytest.mark.parametrize(
    "subject",
    [
        "STREAM.PEER.REMOVE.S",
        "STREAM.PEER.EVACUATE.S",
        "STREAM.LEADER.STEPDOWN.S",
        "STREAM.CANCEL_MOVE.S",
        "CONSUMER.LEADER.STEPDOWN.S.c",
    ],
)
async def test_what_needs_a_cluster_is_refused_as_by_nats_server(twins: Any, subject: str) -> None:
    await twins.ask(subject)
    assert (await twins.ask(subject, {"peer": "x"}))["error"]["err_code"] == 10010


async def test_unknown_endpoints_get_no_answer(ask: Asker) -> None:
    replies = ask.listen("unanswered")
    for subject in (
        "STREAM.FOO",
        "STREAM.INFO.a.b",
        "META.LEADER.STEPDOWN",
        "SERVER.REMOVE",
        "ACCOUNT.PURGE.X",
    ):
        ask.connection.publish(f"$JS.API.{subject}".encode(), b"", b"unanswered")
    await ask.ask("INFO")
    assert replies.queue.empty()


async def test_a_request_without_a_reply_is_done_all_the_same(door: Door, ask: Asker) -> None:
    ask.connection.publish(b"$JS.API.STREAM.CREATE.S", json.dumps(S).encode())
    while not (await ask.ask("STREAM.NAMES"))["streams"]:
        await asyncio.sleep(0)


async def test_both_prefixes_lead_to_the_same_streams_and_name_the_domain(tmp_path: Path) -> None:
    wanted = Wanted(domain_name="lake", prefixes=("$JS.API", "$JS.lake.API"))
    async with opened_door(tmp_path, wanted) as door:
        lake = Asker(door.asker.connection, "$JS.lake.API")
        assert "domain" not in await lake.ask("STREAM.CREATE.S", S)
        assert (await door.asker.ask("STREAM.INFO.S"))["domain"] == "lake"
        assert (await lake.ask("STREAM.UPDATE.S", S))["domain"] == "lake"
        assert (await lake.ask("STREAM.LIST"))["streams"][0]["domain"] == "lake"
        assert (await lake.ask("INFO"))["domain"] == "lake"
        assert (await door.asker.publish("s.1"))["domain"] == "lake"


@pytest.mark.parametrize(
    ("failure", "code", "err_code", "text"),
    [
        (ZeroDivisionError("secret"), 500, 10051, "internal error"),
        (DiskError(Path("file"), "write", errno.EIO), 500, 10051, "cannot write file"),
        (DiskError(Path("file"), "write", errno.ENOSPC), 500, 10047, "insufficient storage"),
        (CorruptionError(Path("file"), 7, "checksum"), 500, 10051, "damaged at byte 7"),
    ],
)
async def test_an_unexpected_failure_is_an_answer_and_the_engine_continues(
    ask: Asker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: Exception,
    code: int,
    err_code: int,
    text: str,
) -> None:
    await ask.ask("STREAM.CREATE.S", S)

    async def broken(*_: object) -> None:
        raise failure

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(StreamReading, "state", broken)
        answer = await ask.ask("STREAM.INFO.S")
    error = answer["error"]
    assert (error["code"], error["err_code"]) == (code, err_code)
    assert text in error["description"]
    assert "secret" not in error["description"]
    assert "STREAM.INFO.S" in caplog.text
    assert (await ask.ask("STREAM.INFO.S"))["state"]["messages"] == 0


async def test_requests_beyond_the_bound_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "_WIDTH", 1)
    monkeypatch.setattr(dispatcher, "_DEPTH", 2)
    async with opened_door(tmp_path) as door:
        await door.asker.ask("STREAM.CREATE.S", S)
        go = asyncio.Event()
        state = StreamReading.state

        async def slow(reading: StreamReading) -> object:
            await go.wait()
            return await state(reading)

        monkeypatch.setattr(StreamReading, "state", slow)
        asked = [asyncio.create_task(door.asker.ask("STREAM.INFO.S")) for _ in range(20)]
        while sum(task.done() for task in asked) < 17:
            await asyncio.sleep(0)
        refused = [task.result()["error"] for task in asked if task.done()]
        assert {(error["code"], error["err_code"]) for error in refused} == {(503, 10008)}
        assert len(await door.asker.ask("STREAM.NAMES")) > 0
        go.set()
        answers = await asyncio.gather(*asked)
        assert sum("error" not in answer for answer in answers) == 3


async def test_nested_and_huge_bodies_are_refused_and_the_engine_continues(ask: Asker) -> None:
    for body in (
        b"[" * 500_000,
        b'{"name":' * 100_000,
        b"x" * 1_000_000,
        b"\xff" * 1000,
        b'"' + b"\\u0000" * 9999,
    ):
        answer = await ask.ask("STREAM.CREATE.S", body)
        assert answer["error"]["code"] == 400, body[:20]
        assert "error" in await ask.ask("STREAM.DELETE.S", body)
        assert "error" in await ask.ask("STREAM.MSG.GET.S", body)
        await ask.ask("STREAM.NAMES", body)
    assert (await ask.ask("INFO"))["streams"] == 0


async def test_a_pull_request_without_a_consumer_gets_no_responders(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    (answer,) = await ask.many("CONSUMER.MSG.NEXT.S.c", {"batch": 1})
    assert answer[2] == b"NATS/1.0 503\r\nNats-Subject: $JS.API.CONSUMER.MSG.NEXT.S.c\r\n\r\n"


async def test_requests_taken_before_a_stop_are_answered(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        asked = [
            asyncio.create_task(door.asker.ask(f"STREAM.CREATE.S{n}", {"name": f"S{n}"})) for n in range(5)
        ]
        while not door.domain.configs():
            await asyncio.sleep(0)
        await door.api.stop()
        await door.connection.flush()
        await asyncio.sleep(0)
        created = len(door.domain.names())
        assert created >= 1
        answered = [task for task in asked if task.done() and not task.exception()]
        while len(answered) < created:
            await asyncio.sleep(0)
            answered = [task for task in asked if task.done() and not task.exception()]
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
