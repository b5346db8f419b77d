"""The live view of subscriber interest."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.bus.interest import Interest


@pytest.mark.parametrize(
    ("subscribed", "literal", "hears"),
    [
        (b"a.b", b"a.b", True),
        (b"a.*", b"a.b", True),
        (b"a.*", b"a.b.c", False),
        (b"a.>", b"a.b.c", True),
        (b"a.>", b"a", False),
        (b">", b"a", True),
        (b"*.b", b"a.b", True),
        (b"a.b", b"a", False),
        (b"a", b"a.b", False),
    ],
)
def test_a_subject_is_heard_by_its_subscribers(subscribed: bytes, literal: bytes, hears: bool) -> None:
    interest = Interest()
    interest.add(subscribed)
    assert interest.has(literal) is hears


def test_queue_groups_and_plain_subscribers_are_distinguished() -> None:
    interest = Interest()
    interest.add(b"a.*", b"q")
    interest.add(b"a.b", b"p")
    interest.add(b">")
    assert interest.queues(b"a.b") == {b"q", b"p", b""}
    interest.remove(b"a.*", b"q")
    assert interest.queues(b"a.b") == {b"p", b""}
    assert (b"a.b", b"p") in interest
    assert (b"a.*", b"q") not in interest


TOKEN = st.sampled_from([b"a", b"b", b"*"])
SUBJECT = st.lists(TOKEN, min_size=1, max_size=3).map(b".".join)
CHANGE = st.tuples(
    st.booleans(), st.one_of(SUBJECT, SUBJECT.map(lambda s: s + b".>")), st.sampled_from([b"", b"q"])
)


def matches(pattern: bytes, literal: bytes) -> bool:
    """Match token by token, the plain way."""
    wanted, have = pattern.split(b"."), literal.split(b".")
    if wanted[-1] == b">":
        wanted, have = wanted[:-1], have[: max(len(wanted) - 1, 0)] if len(have) >= len(wanted) else []
    return len(wanted) == len(have) and all(w in (b"*", h) for w, h in zip(wanted, have, strict=True))


@given(st.lists(CHANGE), st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=4).map(b".".join))
def test_after_any_changes_the_view_is_that_of_the_subscriptions_left(
    changes: list[tuple[bool, bytes, bytes]], literal: bytes
) -> None:
    interest, left = Interest(), set()
    for adds, subject, queue in changes:
        if adds:
            interest.add(subject, queue)
            left.add((subject, queue))
        else:
            interest.remove(subject, queue)
            left.discard((subject, queue))
        assert interest.queues(literal) == {q for pattern, q in left if matches(pattern, literal)}
    assert set(interest) == left
    interest.clear()
    assert len(interest) == 0
    assert not interest.has(literal)


async def test_a_change_wakes_waiting_callers() -> None:
    calls: list[int] = []
    interest = Interest()
    interest.change_callbacks.append(lambda: calls.append(1))
    waiting = [asyncio.create_task(interest.changed()) for _ in range(2)]
    await asyncio.sleep(0)
    interest.add(b"a")
    interest.announce()
    await asyncio.gather(*waiting)
    interest.announce()
    assert calls == [1, 1]
