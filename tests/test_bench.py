"""The load generator counts only acknowledged messages."""

from __future__ import annotations

import pytest

from bench.echo import Echo
from bench.generator import CHUNK, WINDOW, Connection, check_acks, frames, publish


def acks(*seqs: int, more: bytes = b"") -> bytes:
    """Return acknowledgements as a server sends them."""
    bodies = [b'{"stream":"BENCH","seq":%d%s}' % (seq, more) for seq in seqs]
    return b"".join(b"MSG _INBOX.bench.0001 1 %d\r\n%s\r\n" % (len(body), body) for body in bodies)


def test_rising_sequences_are_taken_with_gaps_between_them() -> None:
    assert check_acks(acks(1, 2, 5), last_seq=0) == 5


@pytest.mark.parametrize(
    "answers",
    [
        acks(4),
        acks(5, 5),
        acks(6, 5),
        acks(5, more=b',"duplicate":true'),
        acks(5) + b'MSG _INBOX.bench.0002 1 33\r\n{"error":{"code":503},"seq":0}\r\n',
        acks(5) + b'MSG _INBOX.bench.0002 1 14\r\n{"stream":"X"}\r\n',
    ],
)
def test_anything_but_new_acknowledgements_is_refused(answers: bytes) -> None:
    with pytest.raises(RuntimeError):
        check_acks(answers, last_seq=4)


def test_a_window_is_made_of_frames_of_one_length_with_inboxes_of_their_own() -> None:
    block, length = frames(128)
    cut = [bytes(block[i : i + length]) for i in range(0, len(block), length)]
    assert len(cut) == len({frame.split()[2] for frame in cut}) == WINDOW
    assert all(frame.startswith(b"PUB bench.") and frame.endswith(b"\r\n") for frame in cut)


def test_a_round_counts_what_was_acknowledged_and_stops_after_the_number_asked_for() -> None:
    echo = Echo(128)
    connection = Connection(echo.port)
    try:
        assert publish(connection, 128, messages=10 * CHUNK).messages == 10 * CHUNK
    finally:
        connection.close()
        echo.stop()
