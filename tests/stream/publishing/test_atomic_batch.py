"""Atomic batches as they are held back: what ends one, what commits one, what is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ApiError
from headwater.model import headers as header_block
from headwater.stream.publishing import atomic_batch
from headwater.stream.publishing.atomic_batch import (
    IDLE_NS,
    MAX_MESSAGES,
    MAX_OPEN,
    Abandoned,
    AtomicBatches,
    Step,
)
from headwater.stream.retention.quota import Quota
from stream.streams import headers


def offer(
    batches: AtomicBatches,
    sequence: object,
    commit: str | None = None,
    *,
    batch_id: bytes = b"x",
    now: int = 0,
) -> Step:
    """Offer one message of a batch."""
    block = headers(Nats_Batch_Sequence=str(sequence))
    if commit is not None:
        block = header_block.add(block, b"Nats-Batch-Commit", commit.encode())
    return batches.offer(batch_id, b"s", block, b"data", now)


def error(step: Step) -> int:
    """Return the number of the error that a message got."""
    assert isinstance(step.error, ApiError)
    return step.error.err_code


@pytest.fixture
def batches() -> AtomicBatches:
    return AtomicBatches(Quota())


def test_messages_are_held_back_until_one_commits(batches: AtomicBatches) -> None:
    assert offer(batches, 1) == Step()
    assert offer(batches, 2) == Step()
    messages = offer(batches, 3, "1").messages
    assert messages is not None
    assert [header_block.get(block, b"Nats-Batch-Sequence") for _, block, _ in messages] == [b"1", b"2", b"3"]
    assert len(batches) == 0
    assert batches.nbytes == 0


def test_the_end_of_a_batch_is_not_stored_and_marks_the_last_message(batches: AtomicBatches) -> None:
    offer(batches, 1)
    messages = offer(batches, 2, "eob").messages
    assert messages is not None
    assert len(messages) == 1
    assert header_block.get(messages[0][1], b"Nats-Batch-Commit") == b"1"


def test_batches_do_not_meet(batches: AtomicBatches) -> None:
    offer(batches, 1, batch_id=b"a")
    offer(batches, 1, batch_id=b"b")
    offer(batches, 2, batch_id=b"b")
    messages = offer(batches, 2, "1", batch_id=b"a").messages
    assert messages is not None
    assert len(messages) == 2
    assert len(batches) == 1


@pytest.mark.parametrize(
    ("sequences", "last", "commit", "err_code", "reason"),
    [
        ((1,), 3, None, 10176, Abandoned.INCOMPLETE),
        ((1,), 1, None, 10176, Abandoned.INCOMPLETE),
        ((1, 2), 2, "1", 10176, Abandoned.INCOMPLETE),
        ((), 1, "eob", 10176, Abandoned.INCOMPLETE),
        ((), 0, None, 10176, None),
        ((), 2, None, 10176, None),
        ((), MAX_MESSAGES + 1, None, 10199, None),
        ((), MAX_MESSAGES + 1, "eob", 10176, None),
        ((), "x", None, 10175, None),
        ((), "", None, 10175, None),
        ((), 1 << 64, None, 10175, None),
        ((), "9" * 5000, None, 10175, None),
        ((1,), 2, "yes", 10200, None),
        ((), 1, "", 10200, None),
    ],
)
def test_what_does_not_belong_ends_a_batch(
    batches: AtomicBatches,
    sequences: tuple[int, ...],
    last: object,
    commit: str | None,
    err_code: int,
    reason: Abandoned | None,
) -> None:
    for sequence in sequences:
        assert offer(batches, sequence).error is None
    step = offer(batches, last, commit)
    assert error(step) == err_code
    assert step.abandoned is reason
    assert len(batches) == 0


def test_a_batch_holds_a_thousand_messages_and_its_end(batches: AtomicBatches) -> None:
    for sequence in range(1, MAX_MESSAGES + 1):
        assert offer(batches, sequence) == Step()
    messages = offer(batches, MAX_MESSAGES + 1, "eob").messages
    assert messages is not None
    assert len(messages) == MAX_MESSAGES


def test_a_batch_of_more_than_a_thousand_messages_is_given_up(batches: AtomicBatches) -> None:
    for sequence in range(1, MAX_MESSAGES + 1):
        offer(batches, sequence)
    step = offer(batches, MAX_MESSAGES + 1, "1")
    assert (error(step), step.abandoned) == (10199, Abandoned.LARGE)


def test_an_id_has_at_most_64_bytes(batches: AtomicBatches) -> None:
    assert offer(batches, 1, batch_id=b"x" * 64) == Step()
    assert error(offer(batches, 1, batch_id=b"x" * 65)) == 10179


def test_only_so_many_batches_of_a_stream_are_open(batches: AtomicBatches) -> None:
    for number in range(MAX_OPEN):
        offer(batches, 1, batch_id=b"%d" % number)
    assert error(offer(batches, 1, batch_id=b"more")) == 10210
    offer(batches, 2, "1", batch_id=b"7")
    assert offer(batches, 1, batch_id=b"more") == Step()


def test_only_so_many_batches_of_all_streams_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_batch, "MAX_OPEN_IN_ALL", 2)
    quota = Quota()
    one, other = AtomicBatches(quota), AtomicBatches(quota)
    offer(one, 1, batch_id=b"a")
    offer(one, 1, batch_id=b"b")
    assert error(offer(other, 1)) == 10210
    one.clear()
    assert offer(other, 1) == Step()


def test_what_is_held_back_is_bounded(batches: AtomicBatches, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(batches, 1, batch_id=b"a")
    held = batches.nbytes
    monkeypatch.setattr(atomic_batch, "MAX_BYTES", 3 * held)
    offer(batches, 1, batch_id=b"b")
    assert offer(batches, 2, batch_id=b"b") == Step()
    step = offer(batches, 3, batch_id=b"b")
    assert (error(step), step.abandoned) == (10023, Abandoned.LARGE)
    assert batches.nbytes == held
    assert offer(batches, 2, batch_id=b"a") == Step()


def test_a_batch_that_nothing_comes_for_is_given_up(batches: AtomicBatches) -> None:
    assert batches.next_ns() is None
    offer(batches, 1, batch_id=b"a", now=0)
    offer(batches, 1, batch_id=b"b", now=5)
    assert batches.next_ns() == IDLE_NS
    offer(batches, 2, batch_id=b"a", now=7)
    assert batches.next_ns() == IDLE_NS + 5
    assert batches.give_up_idle(IDLE_NS + 4) == []
    assert batches.give_up_idle(IDLE_NS + 5) == [b"b"]
    assert error(offer(batches, 2, batch_id=b"b")) == 10176
    assert offer(batches, 3, batch_id=b"a") == Step()


def test_a_message_that_needs_a_higher_level_ends_the_batch(batches: AtomicBatches) -> None:
    block = headers(Nats_Batch_Sequence="1", Nats_Required_Api_Level="99")
    step = batches.offer(b"x", b"s", block, b"", 0)
    assert (error(step), step.abandoned) == (10185, Abandoned.UNSUPPORTED)
    block = headers(Nats_Batch_Sequence="1", Nats_Required_Api_Level="1", Nats_Batch_Commit="1")
    messages = batches.offer(b"x", b"s", block, b"", 0).messages
    assert messages is not None
    assert header_block.get(messages[0][1], b"Nats-Required-Api-Level") is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"a", b"b", b"c"]), st.integers(1, 4), st.sampled_from([None, "1", "eob", "x"])
        ),
        max_size=40,
    )
)
def test_a_batch_commits_exactly_what_came_in_order(steps: list[tuple[bytes, int, str | None]]) -> None:
    quota = Quota()
    batches, held = AtomicBatches(quota), dict[bytes, int]()
    for batch_id, sequence, commit in steps:
        step = offer(batches, sequence, commit, batch_id=batch_id)
        expected = held.pop(batch_id, 0) + 1
        if commit == "x" or sequence != expected or (commit == "eob" and sequence == 1):
            assert step.error is not None
        elif commit is None:
            assert step == Step()
            held[batch_id] = sequence
        else:
            assert step.messages is not None
            assert len(step.messages) == sequence - (commit == "eob")
    assert len(batches) == quota.open == len(held)
    batches.clear()
    assert quota.open == 0
    assert batches.nbytes == 0
