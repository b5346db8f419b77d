"""A consumer begins where its policy says, and a reset does not go before that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from control.served_consumers import create, opened
from headwater.errors import ApiError
from headwater.model.consumer import DeliverPolicy


@pytest.mark.parametrize(
    ("policy", "more", "start_seq"),
    [
        (DeliverPolicy.ALL, {}, 1),
        (DeliverPolicy.LAST, {}, 4),
        (DeliverPolicy.LAST, {"filter_subject": "s.a"}, 3),
        (DeliverPolicy.LAST, {"filter_subjects": ("s.a", "s.b")}, 3),
        (DeliverPolicy.NEW, {}, 5),
        (DeliverPolicy.BY_START_SEQUENCE, {"opt_start_seq": 3}, 3),
        (DeliverPolicy.BY_START_SEQUENCE, {"opt_start_seq": 30}, 30),
        (DeliverPolicy.BY_START_TIME, {"opt_start_time": 1}, 1),
        (DeliverPolicy.LAST_PER_SUBJECT, {"filter_subject": "s.>"}, 2),
    ],
)
async def test_each_policy_begins_in_its_place(
    tmp_path: Path, policy: DeliverPolicy, more: dict[str, Any], start_seq: int
) -> None:
    async with opened(tmp_path, "s.a", "s.b", "s.a", "s.c") as (door, stream):
        consumer = await create(door, stream, deliver_policy=policy, **more)
        assert consumer.state.next_seq == start_seq


@pytest.mark.parametrize(
    ("policy", "seq", "complaint"),
    [
        (DeliverPolicy.ALL, 2, None),
        (DeliverPolicy.BY_START_SEQUENCE, 3, None),
        (DeliverPolicy.BY_START_SEQUENCE, 2, "below start seq"),
        (DeliverPolicy.BY_START_TIME, 2, None),
        (DeliverPolicy.NEW, 2, "not allowed"),
        (DeliverPolicy.NEW, 0, None),
    ],
)
async def test_a_reset_consumer_does_not_begin_before_its_start(
    tmp_path: Path, policy: DeliverPolicy, seq: int, complaint: str | None
) -> None:
    more: dict[str, Any] = {}
    if policy is DeliverPolicy.BY_START_SEQUENCE:
        more = {"opt_start_seq": 3}
    elif policy is DeliverPolicy.BY_START_TIME:
        more = {"opt_start_time": 1}
    async with opened(tmp_path, *["s.a"] * 5) as (door, stream):
        consumer = await create(door, stream, deliver_policy=policy, **more)
        if complaint is not None:
            with pytest.raises(ApiError, match=complaint):
                await door.consumers.reset(consumer, seq)
        else:
            assert await door.consumers.reset(consumer, seq) == (seq or 6)
