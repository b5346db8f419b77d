"""A restored stream is the one that was archived; anything else is refused and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bulk import BulkAsker
from control.copiers import copying, count_is, create, held, publish
from doors import Asker, Door, Wanted, normal, opened_door
from headwater.api.transfers import TransferTimeouts

S = {"name": "S", "subjects": ["s.>"]}
CHUNK = 4096


async def archived(ask: Asker, name: str = "S") -> bytes:
    """Return the archive of a stream."""
    replies = ask.listen(f"deliver.{name}")
    await ask.ask(f"STREAM.SNAPSHOT.{name}", {"deliver_subject": f"deliver.{name}"})
    content = b""
    while (frame := await replies.next())[3]:
        content += frame[3]
        ask.connection.publish(frame[1], b"")
    return content


async def restored(ask: Asker, config: dict[str, Any], content: bytes) -> Any:
    """Return the final answer to a restore of this content."""
    answer = await ask.ask(f"STREAM.RESTORE.{config['name']}", {"config": config, "state": {}})
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_restore_response"
    if "error" in answer:
        return answer
    for start in range(0, len(content), CHUNK):
        reply = await ask.raw(answer["deliver_subject"], content[start : start + CHUNK])
        if reply[3]:
            return json.loads(reply[3])
    return json.loads((await ask.raw(answer["deliver_subject"], b""))[3])


async def messages(ask: Asker, name: str = "S") -> list[Any]:
    """Return every message of a stream, with its sequence and time."""
    state = (await ask.ask(f"STREAM.INFO.{name}"))["state"]
    found = [
        await ask.ask(f"STREAM.MSG.GET.{name}", {"seq": seq})
        for seq in range(state["first_seq"], state["last_seq"] + 1)
    ]
    return [answer.get("message") for answer in found]


async def fill(ask: Asker) -> None:
    """Make a stream with headers, gaps, and a first sequence that is not 1."""
    await ask.ask("STREAM.CREATE.S", S)
    for number in range(40):
        await ask.publish(f"s.{number % 5}", b"%d" % number * 300, b"NATS/1.0\r\nN: %d\r\n\r\n" % number)
    await ask.publish("s.empty")
    for seq in (1, 2, 7, 8, 20):
        await ask.ask("STREAM.MSG.DELETE.S", {"seq": seq})


async def test_a_restored_stream_has_the_same_messages_sequences_times_and_gaps(ask: Asker) -> None:
    await fill(ask)
    info = await ask.ask("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    before = await messages(ask)
    content = await archived(ask)
    await ask.ask("STREAM.DELETE.S")
    answer = await restored(ask, info["config"], content)
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    assert answer["state"]["messages"] == 36
    again = await ask.ask("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    assert again["state"] == info["state"]
    assert normal(again["config"]) == normal(info["config"])
    assert await messages(ask) == before
    assert (await ask.publish("s.1"))["seq"] == 42


async def test_a_restored_stream_survives_a_restart(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        await fill(door.asker)
        content = await archived(door.asker)
        await restored(door.asker, {"name": "T", "subjects": ["t.>"]}, content)
        before = await messages(door.asker, "T")
        assert before == await messages(door.asker, "S")
    async with opened_door(tmp_path) as door:
        assert await messages(door.asker, "T") == before


async def test_an_emptied_stream_keeps_its_sequence(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    for _ in range(5):
        await ask.publish("s.1")
    await ask.ask("STREAM.PURGE.S")
    content = await archived(ask)
    await ask.ask("STREAM.DELETE.S")
    answer = await restored(ask, S, content)
    assert (answer["state"]["first_seq"], answer["state"]["last_seq"]) == (6, 5)


async def test_a_stream_that_was_never_used_can_be_restored(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    content = await archived(ask)
    await ask.ask("STREAM.DELETE.S")
    answer = await restored(ask, S, content)
    assert (answer["state"]["first_seq"], answer["state"]["last_seq"]) == (0, 0)
    assert (await ask.publish("s.1"))["seq"] == 1


@pytest.mark.parametrize(
    ("name", "body", "err_code"),
    [
        ("S", None, 10003),
        ("S", "{x", 10025),
        ("S", {"config": 5, "state": {}}, 10025),
        ("S", {"other": {}}, 10025),
        ("S", {"config": S, "state": {}}, 10130),
        ("T", {"config": S, "state": {}}, 10056),
        ("T", {"config": {"name": "T", "subjects": ["s.1"]}, "state": {}}, 10065),
        ("T", {"config": {"name": "T", "max_age": -1}, "state": {}}, 10052),
        ("a/b", {"config": {"name": "a/b"}, "state": {}}, 10128),
    ],
)
async def test_bad_requests_are_refused(ask: Asker, name: str, body: Any, err_code: int) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    answer = await ask.ask(f"STREAM.RESTORE.{name}", body)
    assert answer["error"]["err_code"] == err_code
    assert answer["deliver_subject"] == ""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\x06\x00\x00S2sTwO" + b"x" * 20_000, "archive of nats-server"),
        (b"no archive" * 5000, "not an archive of Headwater"),
        (b"", "not an archive of Headwater"),
    ],
)
async def test_what_is_no_archive_is_refused_and_leaves_nothing(
    door: Door, content: bytes, reason: str
) -> None:
    answer = await restored(door.asker, S, content)
    assert answer["error"]["err_code"] == 10062
    assert reason in answer["error"]["description"]
    assert (await door.asker.ask("STREAM.NAMES"))["streams"] is None
    assert "did_create" in await door.asker.ask("STREAM.CREATE.S", S)


@pytest.mark.parametrize("part", [0.2, 0.6, 0.95])
async def test_a_torn_archive_leaves_no_stream(ask: Asker, part: float) -> None:
    await fill(ask)
    content = await archived(ask)
    await ask.ask("STREAM.DELETE.S")
    answer = await restored(ask, S, content[: int(len(content.rstrip(b"\0")) * part)])
    assert answer["error"]["err_code"] == 10062
    assert (await ask.ask("STREAM.INFO.S"))["error"]["err_code"] == 10059


async def test_while_a_restore_runs_its_name_is_taken_and_the_stream_is_hidden(ask: Asker) -> None:
    first = await ask.ask("STREAM.RESTORE.S", {"config": S, "state": {}})
    assert "error" not in first
    second = await ask.ask("STREAM.RESTORE.S", {"config": S, "state": {}})
    assert second["error"]["err_code"] == 10130
    assert (await ask.ask("STREAM.INFO.S"))["error"]["err_code"] == 10059
    assert (await ask.ask("STREAM.NAMES"))["streams"] is None


async def test_a_client_that_goes_away_leaves_no_stream(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(timeouts=TransferTimeouts(chunk_s=0.05))) as door:
        ask = door.asker
        events = ask.listen("$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.S")
        await ask.ask("STREAM.RESTORE.S", {"config": S, "state": {}})
        event = json.loads((await events.next())[3])
        assert event["bytes"] == 0
        assert "did_create" in await ask.ask("STREAM.CREATE.S", S)


async def test_a_client_that_does_not_wait_for_answers_is_cut_off(ask: Asker) -> None:
    events = ask.listen("$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.S")
    answer = await ask.ask("STREAM.RESTORE.S", {"config": S, "state": {}})
    subject = answer["deliver_subject"].encode()
    for _ in range(1000):
        ask.connection.publish(subject, b"\0" * 100_000, b"nobody.waits")
        await ask.connection.writable()
    await events.next()
    assert (await ask.ask("STREAM.NAMES"))["streams"] is None


async def test_the_beginning_and_the_end_are_announced(ask: Asker) -> None:
    await fill(ask)
    content = await archived(ask)
    await ask.ask("STREAM.DELETE.S")
    events = ask.listen("$JS.EVENT.ADVISORY.STREAM.>")
    await restored(ask, S, content)
    kinds = [json.loads((await events.next())[3]) for _ in range(3)]
    assert [kind["type"].rpartition(".")[2] for kind in kinds] == [
        "restore_create",
        "stream_action",
        "restore_complete",
    ]
    assert kinds[2]["bytes"] == len(content)


async def test_a_stop_ends_a_restore_and_leaves_no_stream(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(timeouts=TransferTimeouts(chunk_s=3600))) as door:
        await door.asker.ask("STREAM.RESTORE.S", {"config": S, "state": {}})
        await door.api.stop()
        assert list(door.domain.configs()) == []
    async with opened_door(tmp_path) as door:
        assert door.domain.names() == []
    assert list((tmp_path / "$G").iterdir()) == []


async def test_several_streams_are_restored_at_once(ask: Asker) -> None:
    await fill(ask)
    content = await archived(ask)
    answers = await asyncio.gather(
        *(restored(ask, {"name": f"T{n}", "subjects": [f"t{n}.>"]}, content) for n in range(5))
    )
    assert [answer["state"]["messages"] for answer in answers] == [36] * 5


async def test_a_restored_stream_copies_on_behind_what_its_archive_holds_of_each_source(
    tmp_path: Path,
) -> None:
    async with copying(tmp_path) as (door, copier):
        for name in ("o", "p"):
            await create(door, name=name.upper(), subjects=[name])
            await publish(door, name, 20)
        sources = [{"name": "O"}, {"name": "P", "filter_subject": "p"}]
        await create(door, name="A", sources=sources)
        await copier.until(count_is(door, "A", 40))
        content, config = await archived(door.asker, "A"), (await door.asker.ask("STREAM.INFO.A"))["config"]
        await door.asker.ask("STREAM.DELETE.A")
        answer = await restored(door.asker, config, content)
        assert "error" not in answer
        for name in ("o", "p"):
            await publish(door, name, 5, start=20)
        await copier.until(lambda: _has_all(door))
        assert sorted(m.data for m in await held(door, "A")) == sorted(
            b"%b %d" % (name, number) for name in (b"o", b"p") for number in range(25)
        )


async def _has_all(door: Door) -> bool:
    return {b"o 24", b"p 24"} <= {m.data for m in await held(door, "A")}


async def test_a_restored_stream_knows_the_batches_that_were_written_in_bulk(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    client, rows = BulkAsker(ask, "S"), [("s.a", b"1"), ("s.b", b"2")]
    assert (await client.put("w", 4, rows))["stored"] == 2
    await client.chunk("x", rows)
    assert (await client.commit("x", 0, ["p"], 2, query="single", once=True))["stored"] == 2
    archive = await archived(ask)
    await ask.ask("STREAM.DELETE.S")
    assert (await restored(ask, S, archive))["state"]["messages"] == 4
    assert (await client.put("v", 4, rows))["duplicate"]
    assert (await client.commit("y", 0, [], 0, query="single", once=True))["duplicate"]
    assert (await client.put("v", 5, rows))["stored"] == 2
