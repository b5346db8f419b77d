"""A message id is remembered for exactly the window, by the time its message was stored."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.clock import AHEAD_NS
from headwater.stream.publishing import dedupe
from headwater.stream.publishing.dedupe import DedupeWindow, IdBlock, row_blocks, with_blocks

WINDOW = 100


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([b"x", b"y", b"z"])), max_size=40))
def test_an_id_is_found_exactly_as_long_as_its_newest_use_is_in_the_window(
    uses: list[tuple[int, bytes]],
) -> None:
    window = DedupeWindow(WINDOW)
    stored: list[tuple[int, bytes, int]] = []
    now = 1000
    for seq, (step, message_id) in enumerate(uses, 1):
        now += step
        within = [entry for entry in stored if entry[0] > now - WINDOW]
        for name in (b"x", b"y", b"z"):
            known = [entry[2] for entry in within if entry[1] == name]
            assert window.find(name, now) == (known[-1] if known else None)
        if window.find(message_id, now) is None:
            window.add(message_id, seq, now)
            stored.append((now, message_id, seq))
        assert len(window) == len({name for ts, name, _ in stored if ts > now - WINDOW})


def test_an_id_leaves_at_the_end_of_the_window() -> None:
    window = DedupeWindow(WINDOW)
    window.add(b"x", 7, 1000)
    assert window.find(b"x", 1099) == 7
    assert window.find(b"x", 1100) is None
    assert len(window) == 0


def test_an_id_stored_again_is_remembered_from_its_second_time() -> None:
    window = DedupeWindow(WINDOW)
    window.add(b"x", 1, 1000)
    window.add(b"x", 2, 1050)
    assert window.find(b"x", 1120) == 2
    assert window.find(b"x", 1150) is None


def test_a_stream_without_a_window_remembers_nothing() -> None:
    window = DedupeWindow(0)
    window.add(b"x", 1, 1000)
    assert (window.find(b"x", 1000), len(window), window.dump()) == (None, 0, [])


def test_a_shorter_window_forgets_at_the_next_look() -> None:
    window = DedupeWindow(WINDOW)
    window.add(b"x", 1, 1000)
    window.add(b"y", 2, 1040)
    window.window_ns = 20
    assert window.find(b"x", 1050) is None
    assert window.find(b"y", 1050) == 2


def test_remembered_ids_survive_a_checkpoint() -> None:
    window = DedupeWindow(WINDOW)
    window.add(b"x", 1, 1000)
    window.add(b"\xff\x00", 2, 1010)
    restored = DedupeWindow(WINDOW)
    restored.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(window.dump())))
    assert (restored.find(b"x", 1050), restored.find(b"\xff\x00", 1050)) == (1, 2)
    assert (restored.find(b"x", 1100), restored.find(b"\xff\x00", 1109)) == (None, 2)


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.lists(st.sampled_from([b"x", b"y", b"z", b""]), max_size=4)),
        max_size=30,
    ),
    st.integers(0, 3),
)
def test_ids_in_blocks_are_found_as_long_as_single_ones(
    uses: list[tuple[int, list[bytes]]], most_blocks: int
) -> None:
    window, now, seq = DedupeWindow(WINDOW), 1000, 1
    stored: list[tuple[int, bytes, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedupe, "MOST_BLOCKS", most_blocks)
        patch.setattr(dedupe, "BLOCK_IDS", 2)
        for step, ids in uses:
            now += step
            within = {each: at for ts, each, at in stored if ts > now - WINDOW}
            known = window.known(now)
            for name in (b"x", b"y", b"z"):
                assert known(name) >= (name in within)
                assert window.find(name, now) == within.get(name)
            fresh = [
                each if each not in within and each not in ids[:row] else b"" for row, each in enumerate(ids)
            ]
            before = window.added
            if len(fresh) == 1 and fresh[0]:
                window.add(fresh[0], seq, now)
                assert window.added_since(before) == fresh
            else:
                for rows in row_blocks(fresh):
                    window.add_block(IdBlock(now, seq, rows))
            stored += [(now, each, seq + row) for row, each in enumerate(fresh) if each]
            seq += len(ids)
        copy = DedupeWindow(WINDOW)
        copy.restore(with_blocks(window.dump(), window.dump_blocks()))
        for name in (b"x", b"y", b"z"):
            assert copy.find(name, now) == window.find(name, now)


def test_blocks_of_a_wrong_clock_leave_with_the_window() -> None:
    window = DedupeWindow(WINDOW)
    window.add_block(IdBlock(1000 + 2 * AHEAD_NS, 1, {b"x": 0}))
    assert window.find(b"x", 1000) == 1
    assert window.find(b"x", 1000 + WINDOW) is None
    window.expire(1000 + WINDOW)
    assert len(window) == 0


def test_a_stream_without_a_window_remembers_no_block() -> None:
    window = DedupeWindow(0)
    window.add_block(IdBlock(1000, 1, {b"x": 0}))
    assert len(window) == 0
