"""The messages of a source say how far it was copied."""

from __future__ import annotations

from headwater.model.copied import SourceLine
from headwater.model.cursor import LOST, Cursor
from headwater.model.message import Message
from headwater.model.upstream import StreamSource
from headwater.stream.copied_cursors import advanced, copied_in, last_copied, said_by
from table.samples import columns_of

SOURCE = StreamSource(name="ORIGIN", opt_start_seq=4)


def block(seq: int, name: str = "ORIGIN", identity: str = "id", before: bytes = b"") -> bytes:
    line = SourceLine.of(name, ">", ">", identity)
    return b"NATS/1.0\r\n" + before + line.before + b"%d" % seq + line.between + b"foo" + line.after


def test_a_header_says_source_identity_and_sequence() -> None:
    assert said_by(block(7)) == (SOURCE.index_name, Cursor("id", 7))
    assert said_by(block(7, identity="")) == (SOURCE.index_name, Cursor("", 7))
    for nothing in (b"", b"NATS/1.0\r\nOther: x\r\n\r\n", b"NATS/1.0\r\nNats-Stream-Source: a b\r\n\r\n"):
        assert said_by(nothing) is None


def test_a_header_that_a_client_made_up_says_nothing() -> None:
    """Clients may also publish to a stream with sources. Such a message must not prevent its opening."""
    for number in ("\N{SUPERSCRIPT TWO}", "9" * 5000, "-1", "1.0", ""):
        assert said_by(f"NATS/1.0\r\nNats-Stream-Source: ORIGIN {number} > > foo\r\n\r\n".encode()) is None


def test_of_a_chain_only_the_last_header_counts() -> None:
    further_up = b"Nats-Stream-Source: FIRST 900 > > foo id0\r\n"
    assert said_by(block(7, before=further_up)) == (SOURCE.index_name, Cursor("id", 7))


def test_the_last_message_of_each_source_counts() -> None:
    copied = last_copied([block(5), block(1, "OTHER"), b"", block(9), block(2, "OTHER", "new")])
    assert copied == {"ORIGIN > >": Cursor("id", 9), "OTHER > >": Cursor("new", 2)}


def test_columns_say_the_same_as_their_headers() -> None:
    blocks = [block(5), b"", block(9), block(2, "OTHER")]
    messages = [Message(seq, seq, b"foo", headers, b"") for seq, headers in enumerate(blocks, 1)]
    assert copied_in(columns_of(messages)) == last_copied(blocks)
    assert copied_in(columns_of([])) == {}


def test_a_cursor_is_advanced_but_never_set_back() -> None:
    known = Cursor("id", 7, 99).encode()
    assert advanced(known, Cursor("id", 6)) == known
    assert advanced(known, Cursor("id", 7)) == known
    assert advanced(known, Cursor("id", 8)) == Cursor("id", 8).encode()
    assert advanced(known, Cursor("new", 1)) == Cursor("new", 1).encode()
    assert advanced(b"", Cursor("id", 3)) == Cursor("id", 3).encode()
    lost = Cursor(LOST, 4).encode()
    assert advanced(lost, Cursor("id", 9)) == lost
