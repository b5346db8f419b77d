"""The ledger knows the live messages, and its sums match them after any changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.model.message import Message
from headwater.stream.ledger import Ledger, decode, encode, members
from headwater.stream.retention.removal import FILE_OVERHEAD, Removal
from headwater.stream.subjects import SubjectIndex
from headwater.stream.timing.time_to_live import NEVER
from stream.runs import Pieces, message, removal_of
from stream.streams import headers

SUBJECTS = [b"a", b"b.c", b"d"]

changes = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 9]), st.sampled_from(SUBJECTS)), max_size=8),
    ),
    st.tuples(st.just("remove"), st.sets(st.integers(1, 60), max_size=30)),
    st.tuples(st.just("remove_front"), st.integers(1, 5)),
    st.tuples(st.just("skip"), st.integers(0, 6)),
    st.tuples(st.just("remove_everything"), st.none()),
)


class Driven:
    """A ledger and the plain dict of messages that it should describe."""

    def __init__(self, *, history: bool) -> None:
        self.ledger = Ledger(FILE_OVERHEAD, history=history)
        self.messages: dict[int, Message] = {}
        self.last_seq = 0

    def apply(self, name: str, argument: Any) -> None:
        getattr(self, name)(argument)

    def append(self, rows: list[tuple[int, bytes]]) -> None:
        new = []
        for step, subject in rows:
            self.last_seq += step
            new.append(message(self.last_seq, subject, b"x" * (self.last_seq % 7)))
        self.messages.update((m.seq, m) for m in new)
        self.ledger.append(
            [m.seq for m in new],
            [m.ts for m in new],
            [m.subject for m in new],
            [FILE_OVERHEAD.of(m.subject, m.headers, m.data) for m in new],
        )

    def remove(self, seqs: set[int]) -> None:
        gone = [self.messages.pop(seq) for seq in sorted(seqs & self.messages.keys())]
        if gone:
            self.ledger.remove(removal_of(gone))

    def remove_front(self, count: int) -> None:
        self.remove(set(sorted(self.messages)[:count]))

    def skip(self, count: int) -> None:
        self.last_seq += count
        self.ledger.skip_to(self.last_seq)

    def remove_everything(self, _: None) -> None:
        self.messages.clear()
        self.ledger.remove_everything()

    def check(self, ledger: Ledger) -> None:
        live = sorted(self.messages)
        assert (ledger.messages, ledger.last_seq) == (len(live), self.last_seq)
        assert ledger.size == sum(FILE_OVERHEAD.of(m.subject, b"", m.data) for m in self.messages.values())
        assert ledger.subjects.count == Counter(m.subject for m in self.messages.values())
        if live:
            assert ledger.first_seq == live[0]
            gaps = set(range(live[0], self.last_seq + 1)) - set(live)
            assert set(ledger.deleted) == gaps
        else:
            assert len(ledger.deleted) == 0
        every = range(self.last_seq + 3)
        assert [seq for seq in every if ledger.is_live(seq)] == live
        for seq in every:
            later = [n for n in live if n >= seq]
            assert ledger.next_live(seq) == (later[0] if later else self.last_seq + 1)
            assert ledger.live_between(seq, self.last_seq) == len(later)
            assert ledger.live_between(seq, seq + 3) == len([n for n in later if n <= seq + 3])
        for seqs in (np.arange(0, self.last_seq + 3), np.arange(1, self.last_seq + 3, 3), np.arange(0)):
            wanted = [seq in self.messages and seq >= 4 for seq in seqs.tolist()]
            assert ledger.live_mask(seqs, 4).tolist() == wanted


@pytest.mark.parametrize("history", [False, True])
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(changes, max_size=12))
def test_a_ledger_describes_the_messages_that_are_there(history: bool, steps: list[tuple[str, Any]]) -> None:
    driven = Driven(history=history)
    for name, argument in steps:
        driven.apply(name, argument)
        driven.check(driven.ledger)
    restored = Ledger(FILE_OVERHEAD, history=history)
    restored.restore(decode(encode(driven.ledger.dump())))
    driven.check(restored)
    assert restored.dump() == driven.ledger.dump()


def test_the_next_live_sequence_is_found_across_a_gap_of_millions() -> None:
    ledger = Ledger(FILE_OVERHEAD)
    ledger.append([1, 5_000_000], [1, 2], [b"a", b"a"], 64)
    assert ledger.next_live(2) == 5_000_000
    assert len(ledger.deleted) == 4_999_998
    ledger.append([5_000_001], [3], [b"a"], 32)
    assert ledger.next_live(5_000_001) == 5_000_001


def test_moving_the_first_sequence_forgets_what_lies_below_it() -> None:
    pieces = Pieces([message(seq) for seq in range(1, 10)])
    pieces.ledger.expiry.never.update([2, 7])
    pieces.remove(3, 6)
    pieces.ledger.move_first(5)
    assert list(pieces.ledger.deleted) == [6]
    assert list(pieces.ledger.expiry.never) == [7]
    assert pieces.ledger.first_ts is None, "it must be looked up again"
    pieces.ledger.move_first(20)
    assert (pieces.ledger.first_seq, pieces.ledger.last_seq) == (20, 19)


def test_the_first_time_is_known_until_the_first_message_goes() -> None:
    pieces = Pieces([message(seq) for seq in range(1, 5)])
    assert pieces.ledger.first_ts == 10
    pieces.remove(3)
    assert pieces.ledger.first_ts == 10
    pieces.remove(1)
    assert pieces.ledger.first_ts is None


def test_what_was_removed_while_empty_does_not_come_back_as_a_gap() -> None:
    pieces = Pieces([message(1), message(2)])
    pieces.remove(1, 2)
    pieces.ledger.skip_to(8)
    assert (pieces.ledger.first_seq, pieces.ledger.last_seq) == (9, 8)
    pieces.ledger.append([12], [120], [b"a"], [31])
    assert (pieces.ledger.first_seq, list(pieces.ledger.deleted)) == (12, [])


def test_headers_leave_their_id_and_their_time_to_live() -> None:
    ledger = Ledger(FILE_OVERHEAD, dedupe_window_ns=100)
    ledger.append([1, 2, 3], [10, 20, 30], [b"a"] * 3, 96)
    ledger.note_headers(1, 10, headers(Nats_Msg_Id="one"), 50)
    ledger.note_headers(2, 20, headers(Nats_Msg_Id="two"), NEVER)
    assert ledger.dedupe.find(b"one", 30) == 1
    assert ledger.expiry.next_ns() == 60
    assert list(ledger.expiry.never) == [2]
    assert ledger.last_message_id == b"", "the last message carries none"
    ledger.note_headers(3, 30, headers(Nats_Msg_Id="three"))
    assert ledger.last_message_id == b"three"
    ledger.append([4], [40], [b"a"], 32)
    assert ledger.last_message_id == b""


def test_a_removed_message_is_no_longer_among_those_that_never_expire() -> None:
    pieces = Pieces([message(seq) for seq in range(1, 5)])
    for seq in (2, 3):
        pieces.ledger.note_headers(seq, 0, headers(K="v"), NEVER)
    pieces.remove(2)
    assert list(pieces.ledger.expiry.never) == [3]
    pieces.ledger.remove_everything()
    assert not pieces.ledger.expiry.never


def test_messages_below_a_sequence_go_where_the_log_is_damaged() -> None:
    pieces = Pieces([message(seq) for seq in range(1, 8)])
    pieces.remove(4)
    pieces.ledger.remove_below(4)
    assert (pieces.ledger.messages, pieces.ledger.first_seq) == (3, 5)
    pieces.ledger.remove_below(2)
    assert pieces.ledger.messages == 3
    pieces.ledger.remove_below(100)
    assert (pieces.ledger.messages, pieces.ledger.first_seq) == (0, 8)


def test_of_a_removal_only_what_is_there_is_taken_and_its_sums_are_not_believed() -> None:
    pieces = Pieces([message(seq) for seq in range(3, 8)])
    pieces.remove(5)
    claimed = Removal(BitMap64([1, 4, 5, 7, 9]), 999, Counter({b"x": 5}))
    kept = pieces.ledger.still_there(claimed)
    assert (list(kept.seqs), kept.size, dict(kept.subjects)) == ([4, 7], 0, {})


def test_restated_sums_replace_what_was_there() -> None:
    pieces = Pieces([message(seq) for seq in range(1, 6)])
    for seq in (1, 4):
        pieces.ledger.note_headers(seq, 0, headers(K="v"), NEVER)
    index = SubjectIndex()
    index.add_run([b"z", b"z"], [2, 4])
    pieces.ledger.restate(BitMap64([2, 4]), 77, index)
    ledger = pieces.ledger
    assert (ledger.messages, ledger.size, ledger.first_seq, ledger.last_seq) == (2, 77, 2, 5)
    assert (list(ledger.deleted), list(ledger.expiry.never)) == ([3, 5], [4])
    ledger.restate(BitMap64(), 0, SubjectIndex())
    assert (ledger.messages, ledger.size, ledger.first_seq) == (0, 0, 6)


def test_a_deleted_consumer_leaves_nothing_for_delivery() -> None:
    ledger = Ledger(FILE_OVERHEAD)
    ledger.note_consumer("C", b"made")
    ledger.note_consumer("C", b"acked 1")
    assert ledger.consumers == {"C": [b"made", b"acked 1"]}
    ledger.note_consumer("C", b"")
    ledger.note_consumer("C", b"")
    assert ledger.consumers == {}


def test_what_is_lost_and_what_consumers_reached_survives_a_checkpoint() -> None:
    ledger = Ledger(FILE_OVERHEAD)
    ledger.record_loss(4, 6)
    restored = Ledger(FILE_OVERHEAD)
    restored.restore(decode(encode(ledger.dump({"C": [b"state"]}))))
    assert (list(restored.lost), restored.consumers) == ([4, 5, 6], {"C": [b"state"]})


@given(st.sets(st.integers(0, 200)), st.integers(0, 200), st.integers(0, 200))
def test_members_are_the_sequences_of_a_bitmap_in_a_range(held: set[int], low: int, high: int) -> None:
    wanted = sorted(seq for seq in held if low <= seq <= high)
    assert members(BitMap64(held), low, high).tolist() == wanted
