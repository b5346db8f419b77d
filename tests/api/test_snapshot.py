"""A snapshot sends the whole archive, no faster than it is acknowledged, and says how it ended."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest

from doors import Asker, Door, Replies, Wanted, opened_door
from headwater.api.snapshot import flow
from headwater.api.transfers import TransferTimeouts
from headwater.table.archive import ArchiveReader
from headwater.wire.frames import Frame

S = {"name": "S", "subjects": ["s.>"]}
KIB, MIB = 1 << 10, 1 << 20


async def chunks_of(ask: Asker, replies: Replies) -> tuple[list[Frame], Frame]:
    """Return the chunks, each acknowledged, and the frame that ends them."""
    chunks = []
    while (frame := await replies.next())[3]:
        chunks.append(frame)
        ask.connection.publish(frame[1], b"")
    return chunks, frame


async def fill(ask: Asker, count: int) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    await asyncio.gather(*(ask.publish(f"s.{n % 7}", b"%d" % n * 50) for n in range(count)))


@pytest.mark.parametrize(
    ("chunk", "window", "flowing"),
    [
        (0, 0, (128 * KIB, 64)),
        (1, 1, (KIB, 1)),
        (10 * MIB, 1, (MIB, 1)),
        (KIB, 1 << 40, (KIB, 32 * KIB)),
        (64 * KIB, 256 * KIB, (64 * KIB, 4)),
        (-1, -1, (KIB, 1)),
    ],
)
def test_chunks_and_windows_stay_between_their_bounds(
    chunk: int, window: int, flowing: tuple[int, int]
) -> None:
    assert flow(chunk, window) == flowing


async def test_the_archive_holds_every_message_and_ends_well(ask: Asker) -> None:
    await fill(ask, 500)
    await ask.ask("STREAM.MSG.DELETE.S", {"seq": 200})
    replies = ask.listen("deliver.here")
    answer = await ask.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "deliver.here", "chunk_size": 2048})
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_snapshot_response"
    assert answer["config"]["name"] == "S"
    assert answer["config"]["metadata"] == {"_nats.req.level": "0"}
    assert (answer["state"]["messages"], answer["state"]["num_deleted"]) == (499, 1)
    chunks, end = await chunks_of(ask, replies)
    assert end[2] == b"NATS/1.0 204\r\n\r\n"
    assert all(len(chunk[3]) == 2048 for chunk in chunks[:-1])
    for index, chunk in enumerate(chunks, start=1):
        assert chunk[1].decode().split(".")[:4] == ["$JS", "SNAPSHOT", "ACK", "S"]
        assert chunk[1].endswith(b".%d.%d" % (len(chunk[3]), index))
    reader = ArchiveReader(io.BytesIO(b"".join(chunk[3] for chunk in chunks)))
    seqs = [seq for part in reader.parts() for seq in part.seqs.tolist()]
    assert seqs == [*range(1, 200), *range(201, 501)]


async def test_no_more_chunks_are_sent_than_the_window_allows(ask: Asker) -> None:
    await fill(ask, 300)
    replies = ask.listen("deliver.here")
    request = {"deliver_subject": "deliver.here", "chunk_size": 1024, "window_size": 3072}
    await ask.ask("STREAM.SNAPSHOT.S", request)
    held = [await replies.next() for _ in range(3)]
    # Whatever else the engine had sent would have come before the answer to a later request.
    await ask.ask("STREAM.INFO.S")
    assert replies.queue.empty()
    for frame in held:
        ask.connection.publish(frame[1], b"")
    _, end = await chunks_of(ask, replies)
    assert end[2] == b"NATS/1.0 204\r\n\r\n"


async def test_a_client_that_does_not_acknowledge_gets_an_error(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(timeouts=TransferTimeouts(ack_s=0.05))) as door:
        await fill(door.asker, 300)
        replies = door.asker.listen("deliver.here")
        request = {"deliver_subject": "deliver.here", "chunk_size": 1024, "window_size": 1024}
        await door.asker.ask("STREAM.SNAPSHOT.S", request)
        while (frame := await replies.next())[3]:
            pass
        assert frame[2] == b"NATS/1.0 408 No Flow Response\r\n\r\n"


async def test_a_client_may_subscribe_when_it_has_the_answer(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True, timeouts=TransferTimeouts(interest_s=60))) as door:
        ask = door.asker
        await fill(ask, 10)
        # As clients do it, whose answers all come to one subscription.
        answers = ask.listen("deliver.*")
        await ask.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "deliver.here"})
        await ask.ask("STREAM.INFO.S")
        assert answers.queue.empty()
        chunks, end = await chunks_of(ask, ask.listen("deliver.here"))
        archive = ArchiveReader(io.BytesIO(b"".join(frame[3] for frame in chunks)))
        assert [seq for part in archive.parts() for seq in part.seqs.tolist()] == list(range(1, 11))
        assert end[2] == b"NATS/1.0 204\r\n\r\n"


@pytest.mark.parametrize("leaf", [True, False], ids=["seen through the leaf", "reported by the server"])
async def test_a_snapshot_without_a_subscriber_ends_without_interest(tmp_path: Path, leaf: bool) -> None:
    async with opened_door(tmp_path, Wanted(leaf=leaf, timeouts=TransferTimeouts(interest_s=0.05))) as door:
        ask = door.asker
        await fill(ask, 300)
        events = ask.listen("$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
        request = {"deliver_subject": "nobody.there", "chunk_size": 1024, "window_size": 1024}
        await ask.ask("STREAM.SNAPSHOT.S", request)
        event = json.loads((await events.next())[3])
        assert event["type"] == "io.nats.jetstream.advisory.v1.snapshot_complete"
        assert event["error"] == "no interest"


@pytest.mark.parametrize(
    ("body", "err_code"),
    [
        (None, 10003),
        ("{}", 10003),
        ("{x", 10025),
        ({"deliver_subject": ""}, 10015),
        ({"deliver_subject": "a.*"}, 10015),
        ({"deliver_subject": "a b"}, 10015),
        ({"deliver_subject": "$HEADWATER.x.REPLICATION.COMMIT"}, 10015),
        ({"deliver_subject": "x" * 4000}, 10015),
        ({"zz": ""}, 10025),
    ],
)
async def test_bad_requests_are_refused_as_by_nats_server(door: Door, body: object, err_code: int) -> None:
    await door.asker.ask("STREAM.CREATE.S", S)
    answer = await door.asker.ask("STREAM.SNAPSHOT.S", body)  # type: ignore[arg-type]
    assert answer["error"]["err_code"] == err_code
    answer = await door.asker.ask("STREAM.SNAPSHOT.X", {"deliver_subject": "a"})
    assert answer["error"]["err_code"] == 10059


async def test_the_beginning_and_the_end_are_announced(ask: Asker) -> None:
    await fill(ask, 3)
    events = ask.listen("$JS.EVENT.ADVISORY.STREAM.>")
    replies = ask.listen("deliver.here")
    await ask.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "deliver.here"})
    await chunks_of(ask, replies)
    begun, ended = [json.loads((await events.next())[3]) for _ in range(2)]
    assert begun["type"].endswith("snapshot_create")
    assert begun["state"]["messages"] == 3
    assert ended["type"].endswith("snapshot_complete")
    assert ended["start"] <= ended["end"]
    assert "error" not in ended
