"""Totals of a counter stream: added up, read back, bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ApiError
from headwater.model.columns import Columns
from headwater.model.headers import build, get
from headwater.stream.publishing import counter
from headwater.stream.publishing.counter import body_of, sum_of
from headwater.stream.stream import Stream
from stream.streams import Workshop, config_of, everything, headers, publish

CONFIG = config_of(allow_msg_counter=True)


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    workshop = Workshop(tmp_path)
    yield workshop
    workshop.close()


def add(value: int | str, subject: bytes = b"c") -> tuple[bytes, bytes, bytes]:
    """Return a message that adds to a counter."""
    return subject, b"", headers(Nats_Incr=str(value))


def totals(workshop: Workshop) -> list[str]:
    """Return the totals that publishers got."""
    return [answer["val"] for answer in workshop.answers.take().values()]


async def test_increments_add_up_in_one_read_and_over_many(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, add(1), add("+2"), add(-5), add(10, b"d"))
        assert totals(workshop) == ["1", "3", "-2", "10"]
        await publish(stream, add(10**30))
        assert totals(workshop) == [str(10**30 - 2)]
        assert [m.data for m in await everything(stream, 4)] == [b'{"val":"10"}', body_of(10**30 - 2)]


async def test_a_total_is_read_back_after_a_restart_and_from_the_table(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, add(41))
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, add(1))
        await stream.checkpoint()
    async with workshop.stream(CONFIG) as stream:
        workshop.answers.frames.clear()
        await publish(stream, add(-2))
        assert totals(workshop) == ["40"]


async def test_a_total_follows_what_is_left_on_the_subject(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, add(1), add(2), add(4))
        await stream.retention.remove(3)
        workshop.answers.take()
        await publish(stream, add(10))
        assert totals(workshop) == ["13"]
        await stream.retention.purge()
        await publish(stream, add(10))
        assert totals(workshop) == ["10"]


async def test_totals_that_are_not_remembered_are_read_back(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "_REMEMBERED", 2)
    async with workshop.stream(CONFIG) as stream:
        for _ in range(3):
            for name in (b"a", b"b", b"c", b"d"):
                await publish(stream, add(1, name))
        assert [m.data for m in await everything(stream, 9)] == [body_of(3)] * 4


async def test_a_total_that_is_too_large_for_the_stream_is_refused_and_forgotten(workshop: Workshop) -> None:
    async with workshop.stream(config_of(allow_msg_counter=True, max_msg_size=64)) as stream:
        await publish(stream, add(10**10))
        await publish(stream, add(10**20))
        await publish(stream, add(1))
        assert [message.data for message in await everything(stream)] == [
            body_of(10**10),
            body_of(10**10 + 1),
        ]


def test_a_total_that_cannot_be_read_back_is_refused() -> None:
    assert sum_of(10**4000 - 2, 1) == 10**4000 - 1
    with pytest.raises(ApiError) as caught:
        sum_of(10**4000 - 1, 1)
    assert caught.value.err_code == 10172


@given(st.integers(-(10**50), 10**50), st.integers(-(10**50), 10**50))
def test_numbers_of_any_size_are_exact(total: int, increment: int) -> None:
    assert body_of(sum_of(total, increment)) == f'{{"val":"{total + increment}"}}'.encode()


def sourced(origin: str, seq: int, total: int, subject: str = "c") -> tuple[bytes, bytes, bytes]:
    """Return a message as a source hands it in: subject, headers, data."""
    source = f"{origin} {seq} > > {subject} abcdefgh"
    block = build([(b"Nats-Incr", b"1"), (b"Nats-Stream-Source", source.encode())])
    return b"c", block, body_of(total)


async def copy(stream: Stream, *messages: tuple[bytes, bytes, bytes]) -> None:
    """Take in messages of a source."""
    cursor = stream.replica.cursor("up")
    through = int(cursor or b"0") + len(messages)
    seqs = np.arange(through - len(messages) + 1, through + 1, dtype=np.int64)
    columns = [np.array([len(message[part]) for message in messages], np.uint32) for part in range(3)]
    joined = [b"".join(message[part] for message in messages) for part in range(3)]
    taken = Columns(seqs, seqs, columns[0], joined[0], columns[1], joined[1], columns[2], joined[2])
    await stream.replica.take("up", cursor, taken, lambda seq: b"%d" % seq, through, mirrored=False)


async def test_totals_of_origins_are_summed_up_beside_our_own(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, add(100))
        await copy(stream, sourced("A", 1, 1), sourced("A", 2, 3), sourced("B", 1, 10))
        await publish(stream, add(1000))
        await copy(stream, sourced("A", 3, 7), sourced("B", 2, 9), sourced("A", 1, 50, "other"))
        found = await everything(stream)
    assert [message.data for message in found] == [
        body_of(total) for total in (100, 101, 103, 113, 1113, 1117, 1116, 1166)
    ]
    assert [get(message.headers, b"Nats-Incr") for message in found] == [
        b"100", b"1", b"2", b"10", b"1000", b"4", b"-1", b"50",
    ]  # fmt: skip
    noted = [get(message.headers, b"Nats-Counter-Sources") for message in found]
    assert noted[0] is None
    assert noted[4] == noted[3] == b'{"A":{"c":"3"},"B":{"c":"10"}}'
    assert noted[7] == b'{"A":{"c":"7","other":"50"},"B":{"c":"9"}}'


async def test_a_batch_keeps_what_origins_have_counted(workshop: Workshop) -> None:
    async with workshop.stream(config_of(allow_msg_counter=True, allow_atomic=True)) as stream:
        await copy(stream, sourced("A", 1, 5))
        batch = {"Nats_Batch_Id": "b", "Nats_Incr": "1"}
        await publish(
            stream,
            (b"c", b"", headers(**batch, Nats_Batch_Sequence="1")),
            (b"c", b"", headers(**batch, Nats_Batch_Sequence="2", Nats_Batch_Commit="1")),
        )
        await copy(stream, sourced("A", 2, 6))
        found = await everything(stream)
    assert [message.data for message in found] == [body_of(total) for total in (5, 6, 7, 8)]


async def test_what_is_no_total_is_taken_from_no_source(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        subject, block, _ = sourced("A", 1, 5)
        with pytest.raises(ApiError):
            await copy(stream, (subject, block, b"no total"))
        assert stream.replica.cursor("up") == b""


async def test_a_refused_increment_between_two_others_counts_nothing_and_stops_nothing(
    tmp_path: Path,
) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream(config_of(allow_msg_counter=True, max_msg_size=200)) as stream:
        large = (b"c", b"", headers(Nats_Incr="1", Note="x" * 200))
        await publish(stream, add(1), large, add(1))
        answers = workshop.answers.take()
        assert [answers[reply].get("val") for reply in (b"r0", b"r1", b"r2")] == ["1", None, "2"]
        assert answers[b"r1"]["error"]["description"] == "message size exceeds maximum allowed"
    workshop.close()


async def test_an_increment_follows_one_of_a_fast_batch_in_the_same_read(workshop: Workshop) -> None:
    async with workshop.stream(config_of(allow_msg_counter=True, allow_batched=True)) as stream:
        block = headers(Nats_Incr="1")
        fast = b"_INBOX.x.b1.10.fail.1.0.$FI"
        stream.publishing.offer([(b"c", fast, block, b""), (b"c", b"r1", block, b"")])
        await stream.publishing.settled()
        assert [m.data for m in await everything(stream)] == [body_of(1), body_of(2)]
