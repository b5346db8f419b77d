"""A transfer brings exactly what plain Python says of the same files, tail and rules."""

from __future__ import annotations

import gc
import os
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.replication.work import FileRange, Receipt, Work
from headwater.replication.worker import result
from headwater.replication.worker.transfer import ready, transfer, transfer_all
from headwater.table import parquet
from headwater.table.checked_bytes import ChecksumSink
from headwater.table.stored_group import StoredFile
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


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no data compressed because this machine's disk is busy."""
    monkeypatch.setattr("headwater.replication.worker.result.SLOW_BYTES_PER_S", 0.0)


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


@given(st.data(), st.booleans(), st.booleans())
def test_any_work_brings_what_plain_python_says(data: st.DataObject, stage: bool, splice: bool) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        patch.object(result, "INLINE_BYTES", 200 if stage else 10**6),
        patch.object(result, "LEAST_SPLICED_ROWS", 1 if splice else 10**6),
    ):
        work, messages = data.draw(works(Path(name)))
        receipt = transfer(work)
        wanted = expected_of(work, messages)
        assert brought(receipt, Path(name) / "staging") == wanted
        assert (receipt.rows, receipt.through) == (len(wanted), work.stop_seq)
        assert bool(receipt.path) <= (stage or splice)


def test_a_range_over_many_row_groups_is_copied_whole(tmp_path: Path) -> None:
    messages = [message(seq) for seq in range(1, 60_001)]
    files = (file_of(tmp_path, messages[:40_000]), file_of(tmp_path, messages[40_000:], 40_001))
    removed = {*range(1, 16_385), *range(20_000, 20_100), 59_000}
    work = work_of(
        start_seq=10, stop_seq=59_999, files=files, removed=removed_of(removed), staging=str(tmp_path)
    )
    receipt = transfer(work)
    assert brought(receipt, tmp_path) == [m for m in messages[9:59_999] if m.seq not in removed]


def test_a_task_has_garbage_looked_for_only_in_what_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.unfreeze()
    monkeypatch.setattr("headwater.replication.worker.transfer._is_prepared", False)
    ready(0)
    frozen = gc.get_freeze_count()
    assert frozen > 1000
    later = [[number] for number in range(100)]
    ready(1)
    assert gc.get_freeze_count() <= frozen
    assert gc.is_tracked(later)


def test_work_and_receipts_travel_as_bytes() -> None:
    works = [work_of(id=str(seq), stop_seq=3, tail=tail_of([message(seq)])) for seq in (1, 2)]
    answered = transfer_all([msgspec.msgpack.encode(work) for work in works])
    receipts = [msgspec.msgpack.decode(receipt, type=Receipt) for receipt in answered]
    assert receipts == [transfer(work) for work in works]
    assert [brought(receipt) for receipt in receipts] == [[message(1)], [message(2)]]


def test_a_file_that_is_gone_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    receipt = transfer(work_of(stop_seq=3, files=(FileRange(str(tmp_path / "gone.parquet"), 0, 1, 3),)))
    assert "gone.parquet was replaced" in receipt.error
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
def test_a_file_that_is_copied_in_part_is_rewritten(tmp_path: Path, filters: tuple[str]) -> None:
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
    with patch("headwater.replication.worker.transfer.StoredFile", side_effect=AssertionError("read")):
        receipt = transfer(mirror_work(tmp_path, file, filters=("other",)))
    assert (receipt.error, receipt.rows, receipt.through) == ("", 0, 99)


def test_sums_over_very_many_subjects_travel_in_a_file(tmp_path: Path) -> None:
    messages = [Message(seq, TS + seq, b"subject.number.%d" % seq, b"", b"x") for seq in range(1, 20_001)]
    receipt = transfer(mirror_work(tmp_path, file_of(tmp_path, messages)))
    assert receipt.adopted == ()
    assert adopted_by(receipt, tmp_path / "staging") == messages
    assert len(msgspec.msgpack.encode(receipt)) < 1000


def source_work(tmp_path: Path, *files: FileRange, removed: Iterable[int] = (), **fields: Any) -> Work:
    """Return a source's work on files, whose result its target can adopt."""
    usual: dict[str, Any] = {"stop_seq": files[-1].last_seq, "source_header": ("O", ">", ">", "I")}
    return work_of(
        **usual
        | {
            "files": files,
            "removed": removed_of(removed) if removed else b"",
            "adoptive": True,
            "staging": str(tmp_path / "staging"),
        }
        | fields
    )


def numbered(messages: list[Message], size: int = 200) -> list[Message]:
    """Return messages with data that compresses well and is like no other."""
    return [m._replace(headers=b"", data=(b"%09d" % m.seq).ljust(size, b".")) for m in messages]


def disk_behind(*answers: bool) -> Any:
    """Have the disk be behind or not at each row group; the last answer holds from then on."""
    given: dict[int, bool] = {}

    def is_held_up(file: result._StagedFile) -> bool:
        # Asked for before a row group is read and again when it is written.
        rows = file._writer.rows
        given.setdefault(rows, answers[min(len(given), len(answers) - 1)])
        return given[rows]

    return patch.object(result._StagedFile, "is_held_up", property(is_held_up))


@pytest.mark.parametrize("behind", [False, True])
def test_a_source_s_file_is_renumbered_and_small_while_the_disk_is_slow(tmp_path: Path, behind: bool) -> None:
    messages = numbered([message(seq) for seq in range(1, 40_001)])
    work = source_work(tmp_path, file_of(tmp_path, messages))
    with disk_behind(behind):
        receipt = transfer(work)
    found = adopted_by(receipt, tmp_path / "staging")
    assert [m.seq for m in found] == list(range(40_000))
    assert [m.data for m in found] == [m.data for m in messages]
    assert found[7].headers == b"NATS/1.0\r\nNats-Stream-Source: O 8 > > orders.1 I\r\n\r\n"
    (file,) = receipt.adopted
    groups = layout(tmp_path / "staging" / file.name)
    # When the first row group is read there is no file yet that the disk could be behind with.
    assert [group.codec for group in groups] == ["UNCOMPRESSED", *["LZ4" if behind else "UNCOMPRESSED"] * 2]
    assert (file.size_bytes < 40_000 * 120) is behind


def test_data_is_compressed_only_for_as_long_as_the_disk_is_behind(tmp_path: Path) -> None:
    messages = numbered([message(seq) for seq in range(1, 100_001)], 50)
    with disk_behind(False, True, True, False):
        receipt = transfer(source_work(tmp_path, file_of(tmp_path, messages)))
    (file,) = receipt.adopted
    codecs = [group.codec for group in layout(tmp_path / "staging" / file.name)]
    assert codecs == ["UNCOMPRESSED"] + ["LZ4"] * 2 + ["UNCOMPRESSED"] * 4
    assert [m.data for m in adopted_by(receipt, tmp_path / "staging")] == [m.data for m in messages]


class Group(NamedTuple):
    """The data of a row group in a file."""

    codec: str
    rows: int
    pages: bytes


def layout(path: Path) -> list[Group]:
    """Return the data of each row group of a file that pyarrow can read completely."""
    content = path.read_bytes()
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        file.read()
        metadata = file.metadata
    columns = [metadata.row_group(index).column(5) for index in range(metadata.num_row_groups)]
    return [
        Group(
            column.compression,
            column.num_values,
            content[column.data_page_offset :][: column.total_compressed_size],
        )
        for column in columns
    ]


def copied(tmp_path: Path, work: Work) -> tuple[list[Message], list[Group]]:
    """Return the messages that a work writes to one file, and the file's layout."""
    receipt = transfer(work)
    assert receipt.error == ""
    (file,) = receipt.adopted
    return adopted_by(receipt, tmp_path / "staging"), layout(tmp_path / "staging" / file.name)


MESSAGES = [message(seq) for seq in range(1, 40_001)]
FULL = 16_384


def test_whole_row_groups_of_a_source_are_the_pages_of_its_origin(tmp_path: Path) -> None:
    file = file_of(tmp_path, MESSAGES)
    work = source_work(tmp_path, file)
    messages, groups = copied(tmp_path, work)
    assert groups == layout(Path(file.path))
    wanted = [m._replace(seq=m.seq - 1) for m in expected_of(work, MESSAGES)]
    assert [m._replace(ts=0) for m in messages] == [m._replace(ts=0) for m in wanted]
    times = [m.ts for m in messages]
    assert times == list(range(times[0], times[0] + len(times)))


def test_a_transform_that_keeps_all_messages_keeps_the_pages(tmp_path: Path) -> None:
    file = file_of(tmp_path, MESSAGES)
    work = source_work(tmp_path, file, transforms=(("orders.*", "in.$1"),), stream_transform=(">", "x.>"))
    messages, groups = copied(tmp_path, work)
    assert groups == layout(Path(file.path))
    assert {m.subject for m in messages} == {b"x.in.%d" % number for number in range(7)}
    assert [m.headers for m in messages] == [m.headers for m in expected_of(work, MESSAGES)]


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"start_seq": 10}, [False, True, True]),
        ({"start_seq": FULL + 1}, [True, True]),
        ({"start_seq": FULL}, [True, True]),
        ({"stop_seq": 2 * FULL - 1}, [True, False]),
        ({"removed": [FULL + 7]}, [True, False, True]),
        ({"removed": range(1, FULL + 1)}, [True, True]),
        ({"filters": ("orders.>",)}, [True, True, True]),
        ({"filters": ("orders.1", "orders.2")}, None),
        ({"transforms": (("orders.1", "one"),)}, None),
    ],
)
def test_a_group_that_is_copied_in_part_is_encoded_again(
    tmp_path: Path, fields: dict[str, Any], kept: list[bool] | None
) -> None:
    file = file_of(tmp_path, MESSAGES)
    work = source_work(tmp_path, file, **fields)
    messages, groups = copied(tmp_path, work)
    gone = set(fields.get("removed", ()))
    wanted = expected_of(work, [m for m in MESSAGES if m.seq not in gone])
    assert [m[2:] for m in messages] == [m[2:] for m in wanted]
    pages = {group.pages for group in layout(Path(file.path))}
    found = [group.pages in pages for group in groups]
    # A single message before a group is one of its own.
    found = found[1:] if fields == {"start_seq": FULL} else found
    assert found == kept if kept is not None else not any(found)


@pytest.mark.parametrize("size", [0, 100, 2000, None])
@pytest.mark.parametrize("origin", ["none", "s2"])
@pytest.mark.parametrize("target", ["none", "s2"])
@pytest.mark.parametrize("mirrored", [True, False])
def test_what_is_left_of_row_groups_fills_row_groups(
    tmp_path: Path, size: int | None, origin: str, target: str, mirrored: bool
) -> None:
    messages = numbered(MESSAGES[:30_000], size) if size is not None else MESSAGES[:30_000]
    messages = [m._replace(data=m.data[:size]) for m in messages]
    file = file_of(tmp_path, messages, compression=origin)
    gone = {5, *range(10_000, 10_100), *range(20_000, 29_000, 7)}
    make = mirror_work if mirrored else source_work
    work = make(
        tmp_path,
        file,
        removed=gone,
        start_seq=100,
        filters=("orders.1", "orders.5"),
        compression=target,
    )
    work = msgspec.structs.replace(work, stop_seq=29_900)
    wanted = expected_of(work, [m for m in messages if m.seq not in gone])
    with patch.object(result, "INLINE_BYTES", 1000):
        found, groups = copied(tmp_path, work)
    assert [m[2:] for m in found] == [m[2:] for m in wanted]
    if mirrored:
        assert found == wanted
    assert {group.codec for group in groups} == {"ZSTD" if target == "s2" else "UNCOMPRESSED"}
    bytes_each = len(found[0].data) + len(found[0].headers)
    assert len(groups) <= 1 + len(found) * (100 + bytes_each) // (3 << 20)


def test_what_is_kept_of_long_messages_is_compressed_while_the_disk_is_behind(tmp_path: Path) -> None:
    messages = numbered(MESSAGES[:9000], 2000)
    with disk_behind(True):
        found, groups = copied(
            tmp_path, source_work(tmp_path, file_of(tmp_path, messages), filters=("orders.1",))
        )
    assert [m.data for m in found] == [m.data for m in messages if m.subject == b"orders.1"]
    assert {group.codec for group in groups} == {"LZ4"}


def test_small_row_groups_are_joined(tmp_path: Path) -> None:
    parts = [MESSAGES[start : start + 1000] for start in range(0, 20_000, 1000)]
    files = [file_of(tmp_path, part, part[0].seq) for part in parts]
    messages, groups = copied(tmp_path, source_work(tmp_path, *files))
    assert [m.data for m in messages] == [m.data for m in MESSAGES[:20_000]]
    assert [group.rows for group in groups] == [16_000, 4_000]


def test_small_row_groups_stand_in_order_between_whole_ones(tmp_path: Path) -> None:
    cuts = [0, 100, 20_000, 20_100, 20_200, 40_000]
    parts = [MESSAGES[start:stop] for start, stop in pairwise(cuts)]
    files = [file_of(tmp_path, part, part[0].seq) for part in parts]
    messages, groups = copied(tmp_path, source_work(tmp_path, *files))
    assert [m.data for m in messages] == [m.data for m in MESSAGES]
    # The last 3,516 rows of the second file are too few to stay alone.
    assert [group.rows for group in groups] == [100, FULL, 3_516 + 200, FULL, 3_416]


@pytest.mark.parametrize("size", [0, 2 << 20, 5 << 20])
def test_messages_of_any_length_are_spliced(tmp_path: Path, size: int) -> None:
    count = 5 if size else 5000
    messages = [Message(seq, TS, b"a", b"", bytes([seq % 256]) * size) for seq in range(1, count + 1)]
    file = file_of(tmp_path, messages)
    found, groups = copied(tmp_path, source_work(tmp_path, file))
    assert [m.data for m in found] == [m.data for m in messages]
    assert groups == layout(Path(file.path))


@pytest.mark.parametrize("target", ["none", "s2"])
@pytest.mark.parametrize("origin", ["none", "s2"])
def test_pages_are_compressed_for_a_target_that_wants_it(tmp_path: Path, origin: str, target: str) -> None:
    file = file_of(tmp_path, MESSAGES, compression=origin)
    messages, groups = copied(tmp_path, source_work(tmp_path, file, compression=target))
    assert [m.data for m in messages] == [m.data for m in MESSAGES]
    assert (groups == layout(Path(file.path))) is ((origin, target) != ("none", "s2"))
    assert {group.codec for group in groups} == {"ZSTD" if "s2" in (origin, target) else "UNCOMPRESSED"}


@pytest.mark.parametrize("target", ["none", "s2"])
def test_a_copy_of_a_copy_has_the_pages_that_were_made_while_the_disk_was_behind(
    tmp_path: Path, target: str
) -> None:
    messages = numbered(MESSAGES)
    with disk_behind(True):
        receipt = transfer(source_work(tmp_path, file_of(tmp_path, messages)))
    (made,) = receipt.adopted
    first = tmp_path / "staging" / made.name
    work = source_work(
        tmp_path, FileRange(str(first), 0, 0, len(messages) - 1), start_seq=0, compression=target
    )
    found, groups = copied(tmp_path, work)
    assert [m.data for m in found] == [m.data for m in messages]
    before = layout(first)
    assert [group.codec for group in before] == ["UNCOMPRESSED", "LZ4", "LZ4"]
    assert (groups == before) is (target == "none")
    assert target == "none" or {group.codec for group in groups} == {"ZSTD"}


def test_several_pages_of_a_row_group_are_taken(tmp_path: Path) -> None:
    messages = numbered([message(seq) for seq in range(1, 16_001)], 250)
    # What is filtered is encoded here, in pages of a megabyte.
    other = [m._replace(subject=b"other") for m in messages[5::50]]
    mixed = [m if m.seq % 50 != 6 else other[m.seq // 50] for m in messages]
    receipt = transfer(source_work(tmp_path, file_of(tmp_path, mixed), filters=("orders.*",)))
    (made,) = receipt.adopted
    first = tmp_path / "staging" / made.name
    found, groups = copied(
        tmp_path, source_work(tmp_path, FileRange(str(first), 0, 0, made.rows - 1), start_seq=0)
    )
    assert [m.data for m in found] == [m.data for m in mixed if m.subject != b"other"]
    assert groups == layout(first)
    assert max(len(group.pages) for group in groups) > 3 << 20


def test_spliced_groups_of_a_mirror_keep_their_sequences_and_times(tmp_path: Path) -> None:
    messages = [m for m in MESSAGES if m.seq % 1000]
    file = file_of(tmp_path, messages, 1)
    # Removed are those that were gone when the file was written, and one more.
    removed = {*range(1000, 40_001, 1000), 20_005}
    found, groups = copied(tmp_path, mirror_work(tmp_path, file, removed=removed))
    assert found == [m for m in messages if m.seq != 20_005]
    pages = [group.pages for group in layout(Path(file.path))]
    assert [group.pages in pages for group in groups] == [True, False, True]


def test_a_file_that_is_removed_while_it_is_copied_is_copied_whole(tmp_path: Path) -> None:
    file = file_of(tmp_path, MESSAGES)

    def and_removed(*arguments: Any) -> StoredFile:
        mapped = StoredFile(*arguments)
        Path(file.path).unlink()
        return mapped

    with patch("headwater.replication.worker.transfer.StoredFile", and_removed):
        messages, _ = copied(tmp_path, source_work(tmp_path, file))
    assert [m.data for m in messages] == [m.data for m in MESSAGES]


def one_removed(tmp_path: Path, file: FileRange) -> Work:
    """Return the work of a mirror: what it links is not read, but one that leaves out a message reads."""
    return mirror_work(tmp_path, file, removed=[11])


def filtered(tmp_path: Path, file: FileRange) -> Work:
    return source_work(tmp_path, file, filters=("orders.1", "orders.2"))


@pytest.mark.parametrize("work_on", [one_removed, source_work, filtered])
@pytest.mark.parametrize("size", [None, 7])
def test_no_flipped_bit_of_an_origin_s_row_group_is_copied(
    tmp_path: Path, work_on: Callable[[Path, FileRange], Work], size: int | None
) -> None:
    with patch.object(result, "LEAST_SPLICED_ROWS", 1):
        messages = [message(seq) for seq in range(1, 12)]
        file = file_of(tmp_path, messages if size is None else numbered(messages, size))
        work = work_on(tmp_path, file)
        path = Path(file.path)
        whole = path.read_bytes()
        ((start, stop),) = parquet.read_footer(path, None).places
        for at in range(start, stop):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
            receipt = transfer(work)
            assert "is damaged" in receipt.error
            assert (receipt.rows, receipt.data, receipt.path, receipt.adopted) == (0, b"", "", ())
        path.write_bytes(whole)
        assert transfer(work).error == ""
    assert len(list((tmp_path / "staging").iterdir() if (tmp_path / "staging").exists() else [])) <= 1


@pytest.mark.parametrize("lengths", [[8192], [8000, 9000], [500, 600]], ids=["one", "long", "short"])
def test_a_filtered_copy_holds_a_few_row_groups_at_a_time(tmp_path: Path, lengths: list[int]) -> None:
    count = (80 << 20) // lengths[0]
    datas = [bytes([length % 251]) * length for length in lengths]
    messages = [
        Message(seq, TS, b"a" if seq % 3 else b"b", b"", datas[seq % len(datas)]) for seq in range(1, count)
    ]
    work = source_work(tmp_path, file_of(tmp_path, messages), filters=("a",))
    del messages
    before = pa.default_memory_pool().max_memory()
    tracemalloc.start()
    try:
        receipt = transfer(work)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert receipt.error == ""
    assert receipt.adopted[0].size_bytes > 40 << 20
    assert peak < 24 << 20
    assert pa.default_memory_pool().max_memory() - before < 24 << 20


@pytest.mark.parametrize("room", [0, 5, 15, 16, 40, 41, 42])
def test_a_full_disk_is_reported_and_leaves_no_file(tmp_path: Path, room: int) -> None:
    file = file_of(tmp_path, MESSAGES)
    write, left = ChecksumSink.write, iter(range(room))

    def full(sink: ChecksumSink, data: bytes | memoryview) -> int:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        return write(sink, data)

    with patch.object(ChecksumSink, "write", full):
        receipt = transfer(source_work(tmp_path, file))
    assert receipt.error.endswith("the disk is full")
    assert list((tmp_path / "staging").iterdir()) == []


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_a_disk_that_refuses_a_block_in_the_background_is_reported_and_leaves_no_file(
    tmp_path: Path, blocks: int
) -> None:
    file = file_of(tmp_path, numbered(MESSAGES, 250))
    pwrite, left = os.pwrite, iter(range(blocks))

    def full(fd: int, data: memoryview, place: int) -> int:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        return pwrite(fd, data, place)

    with patch("os.pwrite", full):
        receipt = transfer(source_work(tmp_path, file))
    assert receipt.error.endswith("the disk is full")
    assert (receipt.rows, receipt.adopted) == (0, ())
    assert list((tmp_path / "staging").iterdir()) == []
