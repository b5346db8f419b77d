"""Only streams that allow direct gets answer them, and whatever fails is a status, not a silence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from doors import Asker, Door, Wanted, opened_door
from headwater.bus.connection import NoRespondersError

S = {"name": "S", "subjects": ["s.>"]}


async def test_a_stream_without_direct_gets_does_not_answer_them(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    for subject in ("$JS.API.DIRECT.GET.S", "$JS.API.DIRECT.GET.S.s.1", "$JS.API.DIRECT.GET.X"):
        with pytest.raises(NoRespondersError):
            await ask.raw(subject, {"seq": 1})


async def test_an_update_opens_and_closes_the_door(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    await ask.publish("s.1", b"one")
    for _ in range(2):
        await ask.ask("STREAM.UPDATE.S", {**S, "allow_direct": True})
        assert (await ask.raw("$JS.API.DIRECT.GET.S.s.1"))[3] == b"one"
        await ask.ask("STREAM.UPDATE.S", S)
        with pytest.raises(NoRespondersError):
            await ask.raw("$JS.API.DIRECT.GET.S.s.1")


async def test_a_removed_stream_answers_no_more(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", {**S, "allow_direct": True})
    await ask.ask("STREAM.DELETE.S")
    with pytest.raises(NoRespondersError):
        await ask.raw("$JS.API.DIRECT.GET.S", {"seq": 1})


async def test_a_stream_opened_again_answers_again(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        await door.asker.ask("STREAM.CREATE.S", {**S, "allow_direct": True})
        await door.asker.publish("s.1", b"one")
    async with opened_door(tmp_path) as door:
        assert (await door.asker.raw("$JS.API.DIRECT.GET.S.s.1"))[3] == b"one"


async def test_both_prefixes_are_answered(tmp_path: Path) -> None:
    wanted = Wanted(domain_name="lake", prefixes=("$JS.API", "$JS.lake.API"))
    async with opened_door(tmp_path, wanted) as door:
        ask = door.asker
        await ask.ask("STREAM.CREATE.S", {**S, "allow_direct": True})
        await ask.publish("s.1", b"one")
        for prefix in wanted.prefixes:
            assert (await ask.raw(f"{prefix}.DIRECT.GET.S.s.1"))[3] == b"one"
            assert (await ask.raw(f"{prefix}.DIRECT.GET.S", {"seq": 1}))[3] == b"one"


async def test_a_message_that_the_added_headers_make_too_large_is_refused(door: Door, ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", {**S, "allow_direct": True})
    await ask.publish("s.1", b"x" * door.connection.max_payload)
    (answer,) = await ask.many("DIRECT.GET.S", {"seq": 1})
    assert answer[2].startswith(b"NATS/1.0 500 Message Larger Than Max Payload")
    assert (await ask.raw("$JS.API.DIRECT.GET.S", {"seq": 1, "no_hdr": True}))[3] == b"x" * 1048576
    assert door.connection.connected


async def test_many_gets_at_once_are_all_answered(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", {**S, "allow_direct": True})
    for number in range(50):
        await ask.publish(f"s.{number}", b"%d" % number)
    answers = await asyncio.gather(
        *(ask.raw(f"$JS.API.DIRECT.GET.S.s.{number % 50}") for number in range(1000))
    )
    assert [int(a[3]) for a in answers] == [number % 50 for number in range(1000)]


async def test_an_unexpected_failure_is_a_status_and_the_door_stays_open(
    door: Door, ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask.ask("STREAM.CREATE.S", {**S, "allow_direct": True})
    await ask.publish("s.1", b"one")

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(type(door.domain.stream("S").reading), "message", broken)
        (answer,) = await ask.many("DIRECT.GET.S", {"seq": 1})
    assert answer[2] == b"NATS/1.0 500 internal error\r\n\r\n"
    assert (await ask.raw("$JS.API.DIRECT.GET.S", {"seq": 1}))[3] == b"one"
