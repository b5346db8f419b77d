"""A transfer brings exactly what plain Python says of the same files, tail and rules."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.replication import result
from headwater.replication.transfer import transfer, transfer_all
from headwater.replication.work import FileRange, Receipt, Work
from replication.works import TS, adopted_by, brought, expected_of, file_of, removed_of, tail_of, work_of
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


def mirror_work(tmp_path: Path, *files: FileRange, removed: Iterable[int] = (), **fields: Any) -> Work:
    """Return a mirror's work on whole files, which its target can adopt."""
    return work_of(
        stop_seq=files[-1].last_seq,
        files=files,
        removed=removed_of(removed) if removed else b"",
        mirrored=True,
        adoptive=True,
        linkable=True,
        staging=str(tmp_path / "staging"),
        **fields,
    )


def test_a_mirror_has_whole_files_as_they_are(tmp_path: Path) -> None:
    one = [message(seq) for seq in (1, 2, 5, 6)]
    two = [message(seq) for seq in range(7, 40_000)]
    files = (file_of(tmp_path, one), file_of(tmp_path, two, 7))
    receipt = transfer(mirror_work(tmp_path, *files, removed=[3, 4]))
    assert adopted_by(receipt, tmp_path / "staging") == one + two
    inodes = [(tmp_path / "staging" / file.name).stat().st_ino for file in receipt.adopted]
    assert inodes == [Path(file.path).stat().st_ino for file in files]
    assert [(file.base_seq, file.first_seq, file.last_seq) for file in receipt.adopted] == [
        (0, 1, 6),
        (7, 7, 39_999),
    ]
    assert (receipt.rows, receipt.through) == (len(one + two), 39_999)


@pytest.mark.parametrize("filters", [(), ("orders.1",)])
def test_a_file_of_which_something_is_left_out_is_written_anew(tmp_path: Path, filters: tuple[str]) -> None:
    one, two, three = ([message(seq) for seq in range(at, at + 20_000)] for at in (1, 20_001, 40_001))
    demanding = three[5]._replace(headers=b"NATS/1.0\r\nNats-Expected-Stream: O\r\n\r\n")
    three[5] = demanding._replace(headers=b"")
    files = (
        file_of(tmp_path, one),
        file_of(tmp_path, two),
        file_of(tmp_path, [*three[:5], demanding, *three[6:]]),
    )
    work = mirror_work(tmp_path, *files, removed=[20_005], filters=filters)
    receipt = transfer(work)
    wanted = [m for m in one + two + three if m.seq != 20_005 and (not filters or m.subject == b"orders.1")]
    assert adopted_by(receipt, tmp_path / "staging") == wanted
    sources = {Path(file.path).stat().st_ino for file in files}
    kept = [(tmp_path / "staging" / f.name).stat().st_ino in sources for f in receipt.adopted]
    assert kept == ([True, False] if not filters else [False])


def test_files_without_a_wanted_subject_are_passed_over(tmp_path: Path) -> None:
    file = file_of(tmp_path, [message(seq) for seq in range(1, 100)])
    Path(file.path).chmod(0o600)
    with patch("headwater.table.parquet.read_rows", side_effect=AssertionError("read")):
        receipt = transfer(mirror_work(tmp_path, file, filters=("other",)))
    assert (receipt.error, receipt.rows, receipt.through) == ("", 0, 99)


def test_sums_over_very_many_subjects_travel_in_a_file(tmp_path: Path) -> None:
    messages = [Message(seq, TS + seq, b"subject.number.%d" % seq, b"", b"x") for seq in range(1, 20_001)]
    receipt = transfer(mirror_work(tmp_path, file_of(tmp_path, messages)))
    assert receipt.adopted == ()
    assert adopted_by(receipt, tmp_path / "staging") == messages
    assert len(msgspec.msgpack.encode(receipt)) < 1000


@pytest.mark.parametrize("packs", [True, False])
def test_a_source_s_file_is_numbered_anew_and_small_where_that_pays(tmp_path: Path, packs: bool) -> None:
    noise = Random(1)
    data = [bytes(200) if packs else noise.randbytes(200) for _ in range(30_000)]
    messages = [Message(seq, TS, b"a", b"", each) for seq, each in enumerate(data, start=1)]
    work = work_of(
        stop_seq=30_000,
        files=(file_of(tmp_path, messages),),
        source_header=("O", ">", ">", "I"),
        adoptive=True,
        staging=str(tmp_path / "staging"),
    )
    receipt = transfer(work)
    found = adopted_by(receipt, tmp_path / "staging")
    assert [m.seq for m in found] == list(range(30_000))
    assert [m.data for m in found] == data
    assert found[7].headers == b"NATS/1.0\r\nNats-Stream-Source: O 8 > > a I\r\n\r\n"
    (file,) = receipt.adopted
    assert (file.size_bytes < 30_000 * 50) is packs
