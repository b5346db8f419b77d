"""What a stream forgot with its checkpoint is read from its messages, or named."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.control import declaration
from headwater.control.declaration import ConsumerDeclaration
from headwater.model.cursor import LOST, Cursor
from headwater.model.stream import Retention, StreamConfig
from headwater.model.upstream import StreamSource
from headwater.store.lost_state import consumer_lines, recovered, source_line
from store.stores import DISK

SOURCE = StreamSource(name="ORIGIN", opt_start_seq=4)
LIMITS, QUEUE = StreamConfig(name="T"), StreamConfig(name="T", retention=Retention.WORKQUEUE)


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
