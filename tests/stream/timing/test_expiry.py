"""Messages with their own time to live expire in order, and none is forgotten."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headwater.stream.timing.expiry import PRUNE_LEAST, ExpiryIndex


@given(
    st.lists(st.integers(0, 50), max_size=30),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 4)), max_size=20),
)
def test_what_is_due_comes_out_once_and_soonest_first(
    expiries: list[int], asks: list[tuple[int, int]]
) -> None:
    index = ExpiryIndex()
    for seq, expires_ns in enumerate(expiries, 1):
        index.add(seq, expires_ns)
    left = sorted((expires_ns, seq) for seq, expires_ns in enumerate(expiries, 1))
    for now_ns, limit in asks:
        assert index.next_ns() == (left[0][0] if left else None)
        due = [entry for entry in left if entry[0] <= now_ns][:limit]
        assert index.pop_due(now_ns, limit) == [seq for _, seq in due]
        left = left[len(due) :]
        assert len(index) == len(left)


def test_a_message_is_due_at_its_time_and_not_before() -> None:
    index = ExpiryIndex()
    index.add(1, 100)
    assert index.pop_due(99, 10) == []
    assert index.pop_due(100, 10) == [1]
    assert index.next_ns() is None


def test_messages_removed_otherwise_do_not_pile_up() -> None:
    index = ExpiryIndex()
    largest = 0
    for seq in range(20 * PRUNE_LEAST):
        index.add(seq, 1_000_000 - seq)
        newest = seq - 10
        index.prune(lambda n, newest=newest: n > newest)  # type: ignore[misc]
        largest = max(largest, len(index))
    assert largest <= PRUNE_LEAST
    assert index.pop_due(2_000_000, PRUNE_LEAST)[:10] == list(
        range(20 * PRUNE_LEAST - 1, 20 * PRUNE_LEAST - 11, -1)
    )


def test_pruning_keeps_every_message_that_still_lives_soonest_first() -> None:
    index = ExpiryIndex()
    expires = {seq: seq * 7919 % PRUNE_LEAST for seq in range(PRUNE_LEAST)}
    for seq, expires_ns in expires.items():
        index.add(seq, expires_ns)
    index.prune(lambda seq: seq % 3 == 0)
    soonest_first = sorted(range(0, PRUNE_LEAST, 3), key=lambda seq: expires[seq])
    assert index.pop_due(PRUNE_LEAST, PRUNE_LEAST) == soonest_first


def test_times_and_exemptions_survive_a_checkpoint() -> None:
    index = ExpiryIndex()
    for seq, expires_ns in ((1, 30), (2, 10), (3, 20)):
        index.add(seq, expires_ns)
    index.never.update([4, 9])
    restored = ExpiryIndex()
    restored.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(index.dump())))
    assert list(restored.never) == [4, 9]
    assert restored.pop_due(30, 10) == [2, 3, 1]


def test_a_cleared_index_has_nothing_due() -> None:
    index = ExpiryIndex()
    index.add(1, 10)
    index.never.add(2)
    index.clear()
    assert (index.next_ns(), index.pop_due(100, 10), len(index.never)) == (None, [], 0)


def test_a_round_in_progress_is_part_of_a_dump_and_what_it_leaves_is_due_again() -> None:
    index = ExpiryIndex()
    for seq in (1, 2, 3):
        index.add(seq, 10 * seq)
    assert index.pop_due(20, 10) == [1, 2]
    restored = ExpiryIndex()
    restored.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(index.dump())))
    assert restored.pop_due(30, 10) == [1, 2, 3]
    index.end_round([2])
    assert index.pop_due(30, 10) == [2, 3]
