"""Messages share a batch until it is large, unless they must share one."""

from __future__ import annotations

from headwater.model.message import Message
from headwater.stream.pending import BATCH_BYTES, Pending
from headwater.stream.removal import Removal


def test_messages_become_a_run_in_the_order_they_came() -> None:
    pending = Pending()
    assert not pending
    pending.add(5, 50, b"a", b"", b"x")
    pending.add(7, 51, b"b", b"NATS/1.0\r\n\r\n", b"")
    assert pending
    run = pending.run()
    assert [run.message(row) for row in range(2)] == [
        Message(5, 50, b"a", b"", b"x"),
        Message(7, 51, b"b", b"NATS/1.0\r\n\r\n", b""),
    ]


def test_a_batch_is_full_when_subjects_headers_and_data_fill_it() -> None:
    pending = Pending()
    third = b"x" * (BATCH_BYTES // 3)
    pending.add(1, 1, b"s", third, third)
    assert not pending.is_full
    pending.add(2, 2, third, b"", b"")
    assert pending.is_full


def test_a_change_that_must_be_whole_is_never_full() -> None:
    pending = Pending(whole=True)
    pending.add(1, 1, b"s", b"", b"x" * (2 * BATCH_BYTES))
    assert not pending.is_full


def test_beginning_anew_leaves_nothing_of_the_batch_before() -> None:
    pending = Pending()
    pending.add(1, 1, b"s", b"", b"x" * BATCH_BYTES)
    pending.removal.take_known(9, b"s", 33)
    pending.skipped = True
    run = pending.run()
    pending.clear()
    assert not pending
    assert (pending.is_full, pending.skipped, pending.removal) == (False, False, Removal())
    assert len(run) == 1, "what was handed over is not touched"
