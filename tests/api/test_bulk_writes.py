"""Clients write to streams in bulk through the API: once for each batch, and only what they may."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bulk import BulkAsker, rows_of
from doors import Door, Wanted, connected, opened_door
from headwater.api import bulk_writes as module
from headwater.api import staged_load
from headwater.api.bulk_writes import IDLE_NS
from headwater.bus.connection import NoRespondersError
from headwater.control.account import AccountLimits
from headwater.wire.bulk_requests import OFFERED_TO, VERSION, PartChunk
from waits import until

ROWS = [("w.a", b"1"), ("w.b", b"2"), ("w.a", b"3")]
HEADERS = f"NATS/1.0\r\n{OFFERED_TO}: 1\r\n\r\n".encode()


async def stream_of(door: Door, name: str, **config: object) -> BulkAsker:
    """Return a client of a new stream."""
    declared = {"name": name, "subjects": ["w.>"], **config}
    answer = await door.asker.ask(f"STREAM.CREATE.{name}", declared)
    assert "error" not in answer
    return BulkAsker(door.asker, name)


async def count(door: Door, name: str) -> int:
    return int((await door.asker.ask(f"STREAM.INFO.{name}"))["state"]["messages"])


def staged_files(door: Door, name: str) -> list[Path]:
    stream = door.domain.find(name)
    assert stream is not None
    folder = stream.directory / "staging"
    return list(folder.iterdir()) if folder.exists() else []


async def test_a_write_is_stored_once(door: Door) -> None:
    client = await stream_of(door, "ONCE")
    assert await client.put("w1", 0, ROWS) == {"type": module.TYPE, "stored": 3, "duplicate": False}
    assert await client.put("w2", 0, ROWS) == {"type": module.TYPE, "stored": 0, "duplicate": True}
    assert (await client.commit("w1", 0, ["p"], 3))["duplicate"]
    assert await count(door, "ONCE") == 3
    assert not staged_files(door, "ONCE")


async def test_commits_at_the_same_time_store_once(door: Door) -> None:
    client = await stream_of(door, "SAME")
    await client.chunk("w", ROWS)
    answers = await asyncio.gather(*(client.commit("w", 0, ["p"], 3) for _ in range(4)))
    assert sorted(answer["duplicate"] for answer in answers) == [False, True, True, True]
    assert await count(door, "SAME") == 3


async def test_chunks_of_several_parts_arrive_in_order_and_twice(door: Door) -> None:
    client = await stream_of(door, "PARTS")
    await client.chunk("w", ROWS, "a", last=False)
    await client.chunk("w", ROWS, "b")
    await client.chunk("w", ROWS, "a", last=False)
    assert "is not the next one" in (await client.chunk("w", ROWS, "a", 2))["error"]["description"]
    await client.chunk("w", ROWS, "a", 1)
    await client.chunk("w", ROWS, "a", 1)
    await client.chunk("w", ROWS, "given-up")
    assert (await client.commit("w", 0, ["a", "b"], 9))["stored"] == 9
    assert await count(door, "PARTS") == 9
    assert not staged_files(door, "PARTS")


async def test_a_commit_must_name_what_was_written(door: Door) -> None:
    client = await stream_of(door, "NAMED")
    await client.chunk("w", ROWS, last=False)
    for parts, messages in ((["p"], 3), (["other"], 3), (["../../etc/passwd"], 3)):
        answer = await client.commit("w", 0, parts, messages)
        assert "the engine does not have part" in answer["error"]["description"]
    await client.chunk("w", ROWS, index=1)
    assert "another number" in (await client.commit("w", 0, ["p"], 5))["error"]["description"]
    assert await count(door, "NAMED") == 0
    assert (await client.commit("w", 0, ["p"], 6))["stored"] == 6


async def test_a_write_belongs_to_its_stream(door: Door) -> None:
    client = await stream_of(door, "MINE")
    answer = await door.asker.ask("STREAM.CREATE.OTHER", {"name": "OTHER", "subjects": ["x.>"]})
    assert "error" not in answer
    await client.chunk("w", ROWS)
    other = BulkAsker(door.asker, "OTHER")
    assert "does not have part" in (await other.commit("w", 0, ["p"], 3))["error"]["description"]
    missing = BulkAsker(door.asker, "MISSING")
    assert (await missing.chunk("w", ROWS))["error"]["err_code"] == 10059
    assert (await missing.commit("w", 0, [], 0))["error"]["err_code"] == 10059


async def test_an_aborted_write_leaves_nothing(door: Door) -> None:
    client = await stream_of(door, "ABORT")
    await client.chunk("w", ROWS)
    await client.chunk("w", ROWS, "q", last=False)
    assert staged_files(door, "ABORT")
    body = json.dumps({"version": VERSION, "write": "w"}).encode()
    assert (await client.ask("ABORT", body))["success"]
    assert (await client.ask("ABORT", body))["success"]
    assert not staged_files(door, "ABORT")


async def test_an_idle_write_is_given_up(door: Door) -> None:
    client = await stream_of(door, "IDLE")
    await client.chunk("w", ROWS)
    writes = door.api._writes
    now_ns = writes._clock.steady_ns()
    assert await writes.give_up_idle(now_ns) == 0
    assert await writes.give_up_idle(now_ns + IDLE_NS) == 1
    assert not staged_files(door, "IDLE")
    assert "does not have part" in (await client.commit("w", 0, ["p"], 3))["error"]["description"]


async def test_the_write_of_a_re_created_stream_is_another_one(door: Door) -> None:
    client = await stream_of(door, "AGAIN")
    await client.chunk("w", ROWS)
    await door.asker.ask("STREAM.DELETE.AGAIN")
    await stream_of(door, "AGAIN")
    assert "does not have part" in (await client.commit("w", 0, ["p"], 3))["error"]["description"]
    assert await count(door, "AGAIN") == 0


async def test_hostile_requests_are_answered_with_an_error(door: Door) -> None:
    client = await stream_of(door, "HOSTILE")
    for verb in ("PART", "COMMIT", "ABORT"):
        for body in (b"", b"\x00" * 100, b'{"version": 1}'):
            assert "cannot decode" in (await client.ask(verb, body))["error"]["description"]
    good = await client.put("good", 0, ROWS)
    assert good["stored"] == 3


async def test_a_refused_part_takes_nothing_more(door: Door) -> None:
    client = await stream_of(door, "REFUSED")
    lying = rows_of(ROWS).encode()[:-1]
    for rows in (lying, rows_of([("other", b"")]).encode(), rows_of([("$JS.API.x", b"")]).encode()):
        answer = await client.raw_chunk(PartChunk(VERSION, "w", "p", 0, True, rows))
        assert "error" in answer
    assert not staged_files(door, "REFUSED")
    assert "does not have part" in (await client.commit("w", 0, ["p"], 3))["error"]["description"]


async def test_too_much_at_once_is_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await stream_of(door, "MUCH")
    monkeypatch.setattr(module, "MOST_WRITES", 1)
    await client.chunk("w", ROWS)
    assert (await client.chunk("v", ROWS))["error"]["description"] == "insufficient resources"
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 10)
    assert (await client.chunk("w", ROWS, "q"))["error"]["description"] == "insufficient resources"
    assert (await client.put("w", 0, ROWS))["error"]


async def test_how_to_write_is_said_on_request(door: Door) -> None:
    await stream_of(door, "PLAIN")
    assert "headwater" not in await door.asker.ask("STREAM.INFO.PLAIN")
    info = await door.asker.ask("STREAM.INFO.PLAIN", None, HEADERS)
    assert info["headwater"] == {"write": {"version": 1}}
    await stream_of(door, "RULED", subjects=["r"], max_msgs_per_subject=1)
    info = await door.asker.ask("STREAM.INFO.RULED", None, HEADERS)
    assert info["headwater"]["write"]["most_messages"] == 50_000


async def test_the_account_has_room_for_what_is_staged(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(limits=AccountLimits(max_storage=2_000))) as door:
        client = await stream_of(door, "ROOM")
        big = [("w.a", b"x" * 900)]
        assert "error" not in await client.chunk("w", big)
        assert "error" not in await client.chunk("w", big, "q")
        assert (await client.chunk("w", big, "r"))["error"]["err_code"] == 10002
        assert (await client.commit("w", 0, ["p"], 1))["stored"] == 1


async def test_another_account_cannot_write(tmp_path: Path) -> None:
    config = """
    accounts {
      A { users: [{user: a, password: a}] }
      B { users: [{user: b, password: b, permissions: {publish: {deny: ["$JS.API.STREAM.WRITE.>"]}}}] }
    }
    no_auth_user: a
    """
    async with opened_door(tmp_path, Wanted(), config) as door:
        client = await stream_of(door, "A")
        assert "error" not in await client.chunk("w", ROWS)
        stranger = await connected(door.client_url.replace("nats://", "nats://b:b@"))
        try:
            with pytest.raises(NoRespondersError):
                await stranger.request(b"$JS.API.STREAM.INFO.A", b"", 5.0)
        finally:
            await stranger.close()
        assert await count(door, "A") == 0


async def test_parts_are_stored_for_one_batch_only(door: Door) -> None:
    client = await stream_of(door, "TWICE")
    await client.chunk("w", ROWS)
    answers = await asyncio.gather(*(client.commit("w", n, ["p"], 3, query=f"q{n}") for n in range(3)))
    assert sum("error" not in answer for answer in answers) == 1
    assert await count(door, "TWICE") == 3
    assert (await client.put("v", 0, ROWS, query="later"))["stored"] == 3
    assert await count(door, "TWICE") == 6


async def test_a_batch_for_a_stream_that_was_recreated_is_refused(door: Door) -> None:
    client = await stream_of(door, "AGAIN")
    before = (await door.asker.ask("STREAM.INFO.AGAIN"))["created"]
    await client.chunk("w", ROWS)
    assert (await client.commit("w", 0, ["p"], 3, created=before))["stored"] == 3
    await door.asker.ask("STREAM.DELETE.AGAIN")
    client = await stream_of(door, "AGAIN")
    await client.chunk("v", ROWS)
    refused = await client.commit("v", 1, ["p"], 3, created=before)
    assert "deleted and re-created" in refused["error"]["description"]
    assert await count(door, "AGAIN") == 0
    now = (await door.asker.ask("STREAM.INFO.AGAIN"))["created"]
    assert (await client.commit("v", 1, ["p"], 3, created=now))["stored"] == 3


async def test_an_abort_during_a_commit_stores_all_or_nothing(door: Door) -> None:
    client = await stream_of(door, "TORN")
    abort = json.dumps({"version": VERSION, "write": "w"}).encode()
    held = door.domain.stream("TORN").bulk._committing
    await client.chunk("w", ROWS)
    async with held:
        commit = asyncio.create_task(client.commit("w", 0, ["p"], 3))
        await until(lambda: bool(held._waiters))
        assert (await client.ask("ABORT", abort))["success"]
    assert "does not have" in (await commit)["error"]["description"]
    assert await count(door, "TORN") == 0
    assert (await client.put("v", 0, ROWS))["stored"] == 3


async def test_requests_for_unknown_writes_take_no_place(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await stream_of(door, "PLACES")
    monkeypatch.setattr(module, "MOST_WRITES", 2)
    for number in range(4):
        lost = await client.commit(f"c{number}", 0, ["p"], 3)
        assert "does not have part" in lost["error"]["description"]
        lost = await client.chunk(f"p{number}", ROWS, index=1)
        assert "does not have part" in lost["error"]["description"]
    assert (await client.commit("none", 0, [], 0))["stored"] == 0
    assert not len(door.api._writes)
    assert (await client.put("w", 1, ROWS))["stored"] == 3


async def test_no_more_is_staged_than_the_stream_can_keep(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_STAGED_BYTES", 1500)
    client = await stream_of(door, "SMALL", max_bytes=1000)
    big = [("w.a", b"x" * 900)]
    assert "error" not in await client.chunk("w", big)
    assert "max_bytes of 1000" in (await client.chunk("v", big))["error"]["description"]
    assert (await client.commit("w", 0, ["p"], 1))["stored"] == 1
    assert "error" not in await client.chunk("v", big)


async def test_thousands_of_unfinished_parts_of_one_client_are_refused(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_load, "MOST_UNFINISHED", 20)
    client = await stream_of(door, "OPEN")
    asked = [client.chunk(f"w{n % 8}", ROWS, f"p{n}", last=False) for n in range(200)]
    refused = [answer for answer in await asyncio.gather(*asked) if "error" in answer]
    assert len(refused) == 180
    assert {answer["error"]["description"] for answer in refused} == {"insufficient resources"}
    assert len(staged_files(door, "OPEN")) <= 20
    for number in range(8):
        await client.ask("ABORT", json.dumps({"version": VERSION, "write": f"w{number}"}).encode())
    assert door.api._writes._load.total == staged_load.NOTHING
    assert (await client.put("v", 0, ROWS))["stored"] == 3
