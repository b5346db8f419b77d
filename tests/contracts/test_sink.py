"""What holds for every sink: a flush processes all of its frames, one, several or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from doors import Wanted, opened_door
from headwater.bus.connection import ReplyInbox
from headwater.bus.preflight import _DiscardSink
from headwater.ingest.ingest import GuardedSink
from headwater.wire.frames import Frame, FrameParser, Sink

FRAME: Frame = (b"orders.a", b"", b"", b"data")


class Taken:
    """A sink that records what it was given."""

    def __init__(self) -> None:
        self.items: list[Frame] = []
        self.seen: list[Frame] = []

    def flush(self) -> None:
        self.seen += self.items
        self.items.clear()


def check(sink: Sink, frame: Frame) -> None:
    """Fail unless a sink obeys the contract with a frame, twice, and with none."""
    for frames in ([frame], [frame, frame], []):
        sink.items.extend(frames)
        sink.flush()
        assert sink.items == [], f"{type(sink).__name__} left frames behind"


@pytest.mark.parametrize("sink", [ReplyInbox(), _DiscardSink(), GuardedSink(Taken())], ids=type)  # type: ignore[arg-type]
def test_a_sink_takes_all_frames(sink: Sink) -> None:
    check(sink, FRAME)


async def test_the_sinks_of_an_engine_do_so_too(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        await door.asker.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
        config = {"durable_name": "C", "ack_policy": "explicit"}
        await door.asker.ask("CONSUMER.DURABLE.CREATE.ORDERS.C", {"stream_name": "ORDERS", "config": config})
        sinks = {type(sink).__name__: sink for sink in door.connection._sinks.values()}
        assert {"Dispatcher", "StreamSink"} <= set(sinks)
        assert len(sinks) >= 4, sorted(sinks)
        for sink in sinks.values():
            check(sink, FRAME)


def test_a_sink_gets_the_frames_of_each_read_once() -> None:
    parser, sink = FrameParser(), Taken()
    for _ in range(2):
        parser.feed(b"MSG orders.a 1 4\r\ndata\r\n", {b"1": sink})
        for touched in parser.touched:
            touched.flush()
    assert sink.seen == [FRAME, FRAME]
