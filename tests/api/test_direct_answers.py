"""Direct gets give the very messages, headers and statuses of nats-server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from doors import Asker, Body

S = {"name": "S", "subjects": ["s.>"], "allow_direct": True}
PAST, FUTURE = "2020-01-01T00:00:00Z", "2120-01-01T00:00:00Z"


async def fill(twins: Any) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    for number in range(3):
        await twins.publish(f"s.{number}", b"d%d" % number)
    await twins.publish("s.h", b"dh", b"NATS/1.0\r\nK: V\r\n\r\n")
    await twins.publish("s.1", b"d1b")
    await twins.publish("s.gone")
    await twins.publish("s.e")
    await twins.ask("STREAM.MSG.DELETE.S", {"seq": 6})


@pytest.mark.parametrize(
    "body",
    [
        None,
        "{}",
        "{x",
        {"seq": 1},
        {"seq": 4},
        {"seq": 4, "no_hdr": True},
        {"seq": 6},
        {"seq": 99},
        {"last_by_subj": "s.1"},
        {"last_by_subj": "s.*"},
        {"last_by_subj": "zz"},
        {"next_by_subj": "s.*"},
        {"next_by_subj": "s.1", "seq": 3},
        {"seq": 1, "last_by_subj": "s.1"},
        {"start_time": PAST},
        {"start_time": FUTURE},
        {"start_time": PAST, "next_by_subj": "s.h"},
        {"seq": 1, "max_bytes": 10},
    ],
)
async def test_one_message_is_read_as_from_nats_server(twins: Any, body: Body) -> None:
    await fill(twins)
    await twins.one("DIRECT.GET.S", body)


@pytest.mark.parametrize(
    "body",
    [
        {"seq": 1, "batch": 3},
        {"seq": 4, "batch": 30},
        {"seq": 9, "batch": 3},
        {"seq": 1, "batch": 1},
        {"seq": 6, "batch": 1},
        {"next_by_subj": "s.1", "batch": 5},
        {"next_by_subj": "s.1", "batch": 1, "seq": 3},
        {"next_by_subj": "zz", "batch": 1},
        {"seq": 1, "batch": 10, "max_bytes": 1},
        {"start_time": FUTURE, "batch": 2},
        {"start_time": PAST, "batch": 2},
        {"seq": 1, "batch": -1},
        {"multi_last": ["s.*"]},
        {"multi_last": ["s.1", "s.2"]},
        {"multi_last": ["zz"]},
        {"multi_last": ["s.*"], "batch": 2},
        {"multi_last": ["s.*"], "batch": 2, "seq": 3, "up_to_seq": 5},
        {"multi_last": ["s.*"], "up_to_seq": 3},
        {"multi_last": ["s.*"], "up_to_time": FUTURE},
        {"multi_last": ["s.*"], "up_to_time": PAST},
        {"multi_last": ["s.*"], "max_bytes": 1},
        {"multi_last": ["s.h"], "no_hdr": True},
        {"multi_last": ["s.*"], "seq": 99},
        {"multi_last": [">", "s.1"]},
        {"multi_last": ["s.*"], "start_time": PAST},
        {"seq": 1, "up_to_seq": 2, "batch": 5},
    ],
)
async def test_batches_are_read_as_from_nats_server(twins: Any, body: Body) -> None:
    await fill(twins)
    await twins.many("DIRECT.GET.S", body)


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("s.1", None),
        ("s.h", None),
        ("s.h", {"no_hdr": True}),
        ("s.zz", None),
        ("s.1", "{x"),
        ("s.1", {"seq": 1}),
        ("s.1", {"max_bytes": 1}),
    ],
)
async def test_the_last_message_of_a_subject_is_read_as_from_nats_server(
    twins: Any, subject: str, body: Body
) -> None:
    await fill(twins)
    await twins.one(f"DIRECT.GET.S.{subject}", body)


async def test_a_level_we_do_not_offer_is_refused_as_by_nats_server(twins: Any) -> None:
    await fill(twins)
    level = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
    await twins.one("DIRECT.GET.S", {"seq": 1}, level)
    await twins.one("DIRECT.GET.S.s.1", None, level)


async def test_an_empty_stream_answers_as_with_nats_server(twins: Any) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    for body in ({"seq": 1}, {"seq": 1, "batch": 1}, {"multi_last": ["s.*"]}, {"start_time": PAST}):
        await twins.one("DIRECT.GET.S", body)


async def test_too_many_subjects_are_refused_as_by_nats_server(twins: Any) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    for asker in (twins.ours, twins.theirs):
        await asyncio.gather(*(asker.publish(f"s.{number}") for number in range(1025)))
    await twins.one("DIRECT.GET.S", {"multi_last": ["s.*"]})


async def test_a_long_batch_comes_whole_and_in_order(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    await asyncio.gather(*(ask.publish("s.x", b"%d" % n * 500) for n in range(3000)))
    frames = await ask.many("DIRECT.GET.S", {"seq": 1, "batch": 10_000})
    assert len(frames) == 3001
    sequences = [int(f[2].split(b"Nats-Sequence: ")[1].split(b"\r")[0]) for f in frames[:-1]]
    assert sequences == list(range(1, 3001))
    assert frames[-1][2].startswith(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n")
