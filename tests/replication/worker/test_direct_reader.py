"""Direct gets whose answers are not what they should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.errors import BusError
from headwater.model.times import format_time
from replication.origins import PREFIX, Answers, proxied

TIME = "2026-11-15T07:51:18.000000042Z"
END = (b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n\r\n", b"")


def answer(
    seq: int, previous: int, stream: str = "ORDERS", pending: str = "Nats-Num-Pending: 3\r\n"
) -> tuple[bytes, bytes]:
    """Return one message of a batch."""
    block = (
        f"NATS/1.0\r\nNats-Stream: {stream}\r\nNats-Subject: made.up\r\nNats-Sequence: {seq}\r\n"
        f"Nats-Time-Stamp: {TIME}\r\n{pending}Nats-Last-Sequence: {previous}\r\n\r\n"
    )
    return block.encode(), b"made up"


async def read(answers: Callable[[dict[str, Any]], Answers]) -> list[bytes]:
    """Return the subjects of ten messages, direct gets answered so."""
    async with proxied() as (site, proxy):
        proxy.direct_get = answers
        reading = await site.read(1, 10, api_prefix=PREFIX)
        assert reading.seqs == list(range(1, 11))
        assert reading.through == 10
        return [message.subject for message in reading.messages]


async def test_the_answers_of_a_mirror_are_not_taken() -> None:
    assert await read(lambda asked: [answer(1, 0, "MIRROR"), END]) == [b"orders.a"] * 10


async def test_a_server_that_knows_no_batches_is_read_in_the_other_way() -> None:
    assert await read(lambda asked: [answer(1, 0, pending="")]) == [b"orders.a"] * 10


async def test_a_refusal_leads_to_the_other_way() -> None:
    assert await read(lambda asked: [(b"NATS/1.0 408 Bad Request\r\n\r\n", b"")]) == [b"orders.a"] * 10


async def test_a_mirror_that_answers_the_second_batch_is_noticed_there() -> None:
    def answers(asked: dict[str, Any]) -> Answers:
        if asked["seq"] > 2:
            return [answer(asked["seq"], 0, "MIRROR"), END]
        return [answer(1, 0), answer(2, 1), (END[0].replace(b"Pending: 0", b"Pending: 8"), b"")]

    assert await read(answers) == [b"made.up"] * 2 + [b"orders.a"] * 8


async def test_a_message_that_was_lost_in_a_batch_is_noticed() -> None:
    with pytest.raises(BusError, match="was lost"):
        await read(lambda asked: [answer(1, 0), answer(3, 2), END])


async def test_a_batch_is_asked_for_from_where_the_last_one_ended() -> None:
    asked_for: list[dict[str, Any]] = []

    def answers(asked: dict[str, Any]) -> Answers:
        asked_for.append(asked)
        seq = asked["seq"]
        return [answer(seq, 0), (END[0].replace(b"Pending: 0", b"Pending: 9"), b"")]

    await read(answers)
    assert [asked["seq"] for asked in asked_for] == list(range(1, 11))
    assert [asked["batch"] for asked in asked_for] == list(range(10, 0, -1))


@pytest.mark.parametrize(("bounds", "wanted"), [({"max_messages": 3}, 3), ({"max_bytes": 1}, 1)])
async def test_nothing_is_asked_for_that_is_not_wanted(bounds: dict[str, int], wanted: int) -> None:
    asked_for: list[dict[str, Any]] = []

    def answers(asked: dict[str, Any]) -> Answers:
        asked_for.append(asked)
        seq = asked["seq"]
        end = f"NATS/1.0 204 EOB\r\nNats-Num-Pending: 5\r\nNats-Last-Sequence: {seq}\r\n\r\n"
        return [answer(seq, 0), (end.encode(), b"")]

    async with proxied() as (site, proxy):
        proxy.direct_get = answers
        reading = await site.read(1, 10, api_prefix=PREFIX, **bounds)
    assert reading.seqs == list(range(1, wanted + 1))
    assert [asked["seq"] for asked in asked_for] == reading.seqs
    if "max_messages" in bounds:
        assert [asked["batch"] for asked in asked_for] == [3, 2, 1]


async def test_the_last_message_of_a_batch_is_missed() -> None:
    def answers(asked: dict[str, Any]) -> Answers:
        seq = asked["seq"]
        end = f"NATS/1.0 204 EOB\r\nNats-Num-Pending: 5\r\nNats-Last-Sequence: {seq + 1}\r\n\r\n"
        return [answer(seq, 0), (end.encode(), b"")]

    with pytest.raises(BusError, match="was lost"):
        await read(answers)


async def test_times_are_read_to_the_nanosecond() -> None:
    async with proxied() as (site, proxy):
        proxy.direct_get = lambda asked: [answer(10, 0), END]
        reading = await site.read(10, 10, api_prefix=PREFIX)
    assert format_time(reading.messages[0].ts) == TIME
