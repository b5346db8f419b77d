"""A message id is remembered for exactly the window, by the time its message was stored."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headwater.stream.publishing.dedupe import DedupeWindow

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
