"""The limits take out the oldest messages and no more of them than they must."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.message import Message
from headwater.stream.retention.removal import FILE_OVERHEAD, Removal
from headwater.stream.retention.rules import over_limits, over_subject_limit, too_old
from stream.runs import Pieces, message, removal_of
from stream.streams import config_of, headers

SUBJECTS = [b"a", b"b", b"c"]


@st.composite
def streams(draw: st.DrawFn, *, history: bool = False) -> Pieces:
    """Draw messages with gaps, cut into runs, some removed already."""
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from([1, 1, 3]), st.sampled_from(SUBJECTS), st.integers(0, 30)), max_size=25
        )
    )
    messages: list[Message] = []
    seq = 0
    for step, subject, size in rows:
        seq += step
        messages.append(message(seq, subject, b"x" * size, headers(K="v") if size % 3 == 0 else b""))
    cuts = sorted(draw(st.sets(st.integers(0, len(messages)), max_size=4)))
    bounds = [0, *cuts, len(messages)]
    runs = [messages[start:end] for start, end in pairwise(bounds)]
    pieces = Pieces(*runs, history=history)
    removed = draw(st.sets(st.integers(1, max(1, seq)), max_size=8))
    if removed:
        pieces.remove(*removed)
    return pieces


def size_of(messages: list[Message]) -> int:
    return sum(FILE_OVERHEAD.of(m.subject, m.headers, m.data) for m in messages)


@settings(max_examples=150, deadline=None)
@given(streams(), st.integers(-1, 12), st.integers(-1, 600))
def test_the_oldest_go_until_both_limits_hold(pieces: Pieces, max_msgs: int, max_bytes: int) -> None:
    live = pieces.live()
    kept = list(live)
    while (0 < max_msgs < len(kept)) or (0 < max_bytes < size_of(kept)):
        kept.pop(0)
    config = config_of(max_msgs=max_msgs, max_bytes=max_bytes)
    removal = over_limits(config, pieces.ledger, pieces.read)
    assert removal == removal_of(live[: len(live) - len(kept)])


@pytest.mark.parametrize("history", [False, True])
@settings(max_examples=80, deadline=None)
@given(data=st.data(), limit=st.integers(0, 4), chosen=st.sets(st.sampled_from([*SUBJECTS, b"none"])))
def test_only_the_newest_of_each_chosen_subject_stay(
    history: bool, data: st.DataObject, limit: int, chosen: set[bytes]
) -> None:
    pieces = data.draw(streams(history=history))
    gone = []
    for subject in chosen:
        of_subject = [m for m in pieces.live() if m.subject == subject]
        gone += of_subject[: max(0, len(of_subject) - limit)]
    removal = over_subject_limit(limit, pieces.ledger, pieces.read, chosen)
    assert removal == removal_of(sorted(gone))
    if history:
        assert pieces.reads == [], "what is kept in memory is not read back"


def test_the_second_time_a_subject_is_cut_nothing_before_its_oldest_is_read_again() -> None:
    pieces = Pieces(*[[message(seq, b"a" if seq != 1 else b"z")] for seq in range(1, 9)])
    first = over_subject_limit(4, pieces.ledger, pieces.read, [b"a"])
    assert list(first.seqs) == [2, 3, 4]
    pieces.ledger.remove(first)
    pieces.reads.clear()
    second = over_subject_limit(3, pieces.ledger, pieces.read, [b"a"])
    assert list(second.seqs) == [5]
    assert pieces.reads == [5]


def test_a_hint_of_one_subject_does_not_hide_the_messages_of_another() -> None:
    pieces = Pieces([message(1, b"b"), *[message(seq, b"a") for seq in range(2, 7)], message(7, b"b")])
    pieces.ledger.remove(over_subject_limit(2, pieces.ledger, pieces.read, [b"a"]))
    removal = over_subject_limit(1, pieces.ledger, pieces.read, [b"a", b"b"])
    assert list(removal.seqs) == [1, 5]


@settings(max_examples=100, deadline=None)
@given(streams(), st.integers(0, 60).map(lambda n: n * 5), st.integers(0, 20), st.sets(st.integers(1, 40)))
def test_messages_stored_at_or_before_the_horizon_go_but_for_those_that_never_do(
    pieces: Pieces, horizon_ns: int, start_seq: int, never: set[int]
) -> None:
    pieces.ledger.expiry.never.update(never)
    live = {m.seq for m in pieces.live() if m.seq >= start_seq and m.seq not in never}
    for run in pieces.runs:
        here = [m for m in (run.message(row) for row in range(len(run))) if m.seq in live]
        removal, oldest_ns, _ = too_old(pieces.ledger, run, start_seq, horizon_ns)
        assert removal == removal_of([m for m in here if m.ts <= horizon_ns])
        stays = [m.ts for m in here if m.ts > horizon_ns]
        assert oldest_ns == (stays[0] if stays else None)


def test_a_stream_within_its_limits_is_not_even_read() -> None:
    pieces = Pieces([message(1), message(2)])
    assert over_limits(config_of(max_msgs=2, max_bytes=1000), pieces.ledger, pieces.read) == Removal()
    assert over_subject_limit(2, pieces.ledger, pieces.read, [b"a"]) == Removal()
    assert pieces.reads == []
