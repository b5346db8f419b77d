"""A transfer brings exactly what plain Python says of the same files, tail and rules."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.replication import result
from headwater.replication.transfer import transfer, transfer_all
from headwater.replication.work import FileRange, Receipt, Work
from replication.works import TS, brought, expected_of, file_of, removed_of, tail_of, work_of
from table.samples import message

SUBJECTS = ["a.1", "a.2", "a.b.c", "b.1", "b.long-token.x", "c", "ü.1"]
FILTERS = ["a.*", "a.>", "b.>", "c", "*.1", ">", "none"]
TRANSFORMS = [("a.*", "x.$1"), ("a.>", "y.>"), ("b.>", ""), ("", ""), ("*.*", "$2.$1"), (">", "in.>")]
HEADERS = [
    (b"Color", b"red"),
    (b"Nats-Expected-Last-Sequence", b"5"),
    (b"Nats-Batch-Id", b"b"),
    (b"Nats-Stream-Source", b"OLD 3 > > c"),
    (b"Nats-Msg-Id", b"id 1"),
]


@st.composite
def works(draw: st.DrawFn, directory: Path) -> tuple[Work, list[Message]]:
    """Draw a piece of work on files that are written, and the messages that lie in its files and tail."""
    blocks = st.lists(st.sampled_from(HEADERS), max_size=3).map(header_block.build)
    gaps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 50]), min_size=1, max_size=40))
    messages, seq = [], 0
    for gap in gaps:
        seq += gap
        subject = draw(st.sampled_from(SUBJECTS)).encode()
        messages.append(Message(seq, TS + seq, subject, draw(blocks), draw(st.binary(max_size=12))))
    cuts = sorted(draw(st.lists(st.integers(0, len(messages)), max_size=3)))
    pieces = [messages[a:b] for a, b in zip([0, *cuts], [*cuts, len(messages)], strict=True)]
    in_files, tail = pieces[:-1], pieces[-1]
    base = draw(st.sampled_from([0, 1]))
    files = tuple(file_of(directory, piece, base) for piece in in_files if piece)
    folded = [m.seq for piece in in_files for m in piece]
    removed = draw(st.sets(st.sampled_from(folded))) if folded else set()
    start, stop = sorted((draw(st.integers(1, seq + 5)), draw(st.integers(1, seq + 5))))
    mirrored = draw(st.booleans())
    return (
        work_of(
            start_seq=start,
            stop_seq=stop,
            files=files,
            removed=removed_of(removed) if removed else b"",
            tail=tail_of(tail) if tail else b"",
            mirrored=mirrored,
            filters=tuple(draw(st.lists(st.sampled_from(FILTERS), max_size=2))),
            transforms=tuple(draw(st.lists(st.sampled_from(TRANSFORMS), max_size=3))),
            stream_transform=draw(st.none() | st.sampled_from(TRANSFORMS)),
            source_header=None if mirrored else ("O", "a.*\fb", "x", draw(st.sampled_from(["", "I"]))),
            staging=str(directory / "staging"),
        ),
        [m for m in messages if m.seq not in removed],
    )


@given(st.data(), st.booleans())
def test_any_work_brings_what_plain_python_says(data: st.DataObject, stage: bool) -> None:
    with tempfile.TemporaryDirectory() as name, patch.object(result, "INLINE_BYTES", 200 if stage else 10**6):
        work, messages = data.draw(works(Path(name)))
        receipt = transfer(work)
        wanted = expected_of(work, messages)
        assert brought(receipt) == wanted
        assert (receipt.rows, receipt.through) == (len(wanted), work.stop_seq)
        assert bool(receipt.path) <= stage


def test_a_range_over_many_row_groups_is_copied_whole(tmp_path: Path) -> None:
    messages = [message(seq) for seq in range(1, 60_001)]
    files = (file_of(tmp_path, messages[:40_000]), file_of(tmp_path, messages[40_000:], 40_001))
    removed = {*range(1, 16_385), *range(20_000, 20_100), 59_000}
    work = work_of(
        start_seq=10, stop_seq=59_999, files=files, removed=removed_of(removed), staging=str(tmp_path)
    )
    receipt = transfer(work)
    assert brought(receipt) == [m for m in messages[9:59_999] if m.seq not in removed]


def test_work_and_receipts_travel_as_bytes() -> None:
    works = [work_of(id=str(seq), stop_seq=3, tail=tail_of([message(seq)])) for seq in (1, 2)]
    answered = transfer_all([msgspec.msgpack.encode(work) for work in works])
    receipts = [msgspec.msgpack.decode(receipt, type=Receipt) for receipt in answered]
    assert receipts == [transfer(work) for work in works]
    assert [brought(receipt) for receipt in receipts] == [[message(1)], [message(2)]]


def test_a_file_that_is_gone_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    receipt = transfer(work_of(stop_seq=3, files=(FileRange(str(tmp_path / "gone.parquet"), 0, 1, 3),)))
    assert "gone.parquet is gone" in receipt.error
    assert (receipt.through, receipt.rows, receipt.data, receipt.path) == (0, 0, b"", "")
    assert (receipt.work, receipt.expected) == ("w1", b"cursor")


def test_a_damaged_file_brings_an_error_and_no_message(tmp_path: Path) -> None:
    file = file_of(tmp_path, [message(seq) for seq in range(1, 100)])
    path = Path(file.path)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    receipt = transfer(work_of(stop_seq=99, files=(file,)))
    assert "is damaged" in receipt.error
    assert receipt.data == b""


def test_no_kind_of_failure_leaves_the_task_as_an_exception() -> None:
    receipt = transfer(work_of(stop_seq=3, tail=b"\xff not columns"))
    assert receipt.error.startswith(("DecodeError: ", "ValidationError: "))
    assert "\n" not in receipt.error
