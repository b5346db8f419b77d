"""What a stream forgot with its checkpoint is read from its messages, or named."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.control import declaration
from headwater.control.declaration import ConsumerDeclaration
from headwater.model.copied import SourceLine
from headwater.model.cursor import LOST, Cursor
from headwater.model.stream import Retention, StreamConfig
from headwater.model.upstream import StreamSource
from headwater.store.lost_state import consumer_lines, last_copied, recovered, said_by, source_line
from store.stores import DISK

SOURCE = StreamSource(name="ORIGIN", opt_start_seq=4)
LIMITS, QUEUE = StreamConfig(name="T"), StreamConfig(name="T", retention=Retention.WORKQUEUE)


def block(seq: int, name: str = "ORIGIN", identity: str = "id", before: bytes = b"") -> bytes:
    line = SourceLine.of(name, ">", ">", identity)
    return b"NATS/1.0\r\n" + before + line.before + b"%d" % seq + line.between + b"foo" + line.after


def test_a_header_says_source_identity_and_sequence() -> None:
    assert said_by(block(7)) == (SOURCE.index_name, Cursor("id", 7))
    assert said_by(block(7, identity="")) == (SOURCE.index_name, Cursor("", 7))
    for nothing in (b"", b"NATS/1.0\r\nOther: x\r\n\r\n", b"NATS/1.0\r\nNats-Stream-Source: a b\r\n\r\n"):
        assert said_by(nothing) is None


def test_of_a_chain_only_the_last_header_counts() -> None:
    further_up = b"Nats-Stream-Source: FIRST 900 > > foo id0\r\n"
    assert said_by(block(7, before=further_up)) == (SOURCE.index_name, Cursor("id", 7))


def test_the_last_message_of_each_source_counts() -> None:
    copied = last_copied([block(5), block(1, "OTHER"), b"", block(9), block(2, "OTHER", "new")])
    assert copied == {"ORIGIN > >": Cursor("id", 9), "OTHER > >": Cursor("new", 2)}


@pytest.mark.parametrize(
    ("config", "copied", "is_empty", "cursor", "said"),
    [
        (LIMITS, {"ORIGIN > >": Cursor("id", 9)}, False, Cursor("id", 9), "copied from sequence 10 on"),
        (LIMITS, {}, True, Cursor(), "copied from its start"),
        (LIMITS, {}, False, Cursor(LOST, 4), "set opt_start_seq of this source"),
        (QUEUE, {"ORIGIN > >": Cursor("id", 9)}, False, Cursor(LOST, 4), "has sequence 9 there"),
    ],
)
def test_a_cursor_is_recovered_or_the_source_is_refused(
    config: StreamConfig, copied: dict[str, Cursor], is_empty: bool, cursor: Cursor, said: str
) -> None:
    assert recovered(SOURCE, config, copied, is_empty) == cursor
    assert said in source_line(SOURCE, cursor, copied)


@pytest.mark.parametrize(
    ("policy", "said"),
    [("all", "that it had acknowledged are delivered again"), ("new", "are NOT delivered")],
)
def test_each_consumer_is_named_with_what_it_gets(tmp_path: Path, policy: str, said: str) -> None:
    config = f'{{"durable_name":"reader","ack_policy":"explicit","deliver_policy":"{policy}"}}'
    declared = ConsumerDeclaration(identity="i", name="reader", config=config, created_ns=1, revision=1)
    declaration.write_consumer(DISK, tmp_path, declared, None)
    (line,) = consumer_lines(DISK, tmp_path)
    assert line.startswith("consumer 'reader': its position is lost")
    assert said in line
