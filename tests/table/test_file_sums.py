"""Sums over the parts of a file are those over its messages, and the file's footer contains them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.model.message import Message
from headwater.table import file_sums
from headwater.table.arrow_tables import rows_of
from headwater.table.parquet import FileWriter, read_footer, read_sums, write
from headwater.table.schema import subject_bytes
from table.samples import columns, columns_of, message


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 60), min_size=1), st.integers(1, 10))
def test_sums_of_parts_tell_what_the_messages_are(offsets: set[int], step: int) -> None:
    ordered = sorted(offsets)
    messages = [message(offset) for offset in ordered]
    with TemporaryDirectory() as directory:
        path = Path(directory) / "file.parquet"
        writer = FileWriter(path, 0)
        for start in range(0, len(ordered), step):
            writer.append_group(rows_of(columns(ordered[start : start + step])))
        stats = writer.finish()
        found = read_sums(read_footer(path, stats.footer_crc))
    assert found is not None
    assert found == stats.sums
    assert (found.rows, found.first_offset, found.last_offset) == (len(ordered), ordered[0], ordered[-1])
    assert (found.first_ts, found.last_ts) == (messages[0].ts, messages[-1].ts)
    assert found.payload_bytes == sum(len(m.subject) + len(m.headers) + len(m.data) for m in messages)
    assert found.with_headers == sum(bool(m.headers) for m in messages)
    counted = {subject_bytes(text): number for text, (number, _) in found.subjects.items()}
    assert counted == Counter(m.subject for m in messages)
    for text, (_, last) in found.subjects.items():
        assert last == max(m.seq for m in messages if m.subject == subject_bytes(text))
    assert (found.first_subject, found.last_subject) == (
        stats.content.first_subject,
        stats.content.last_subject,
    )
    gaps = BitMap64.deserialize(found.gaps) if found.gaps else BitMap64()
    assert set(gaps) == set(range(ordered[0], ordered[-1] + 1)) - offsets


@pytest.mark.parametrize(
    ("header", "demands"),
    [(b"Color", False), (b"Nats-Expected-Last-Sequence", True), (b"Nats-Batch-Id", True)],
)
def test_what_publishers_demanded_is_recorded(tmp_path: Path, header: bytes, demands: bool) -> None:
    block = b"NATS/1.0\r\n%b: 1\r\n\r\n" % header
    stats = write(tmp_path / "x", columns_of([message(1), Message(2, 3, b"a", block, b"")]), 0)
    assert stats.sums is not None
    assert stats.sums.demands is demands


@pytest.mark.parametrize(
    ("block", "tidy"),
    [
        (b"NATS/1.0\r\nColor: red\r\n\r\n", True),
        (b"NATS/1.0\r\nNats-Stream-Sources: O\r\n\r\n", True),
        (b"NATS/1.0\r\nNats-Stream-Source: O 1 > > a I\r\n\r\n", False),
        (b"NATS/1.0\r\nA: 1\r\nNats-Stream-Source:O\r\n\r\n", False),
        (b"NATS/1.0\r\nUnfinished: x\r\n", False),
        (b"anything", False),
    ],
)
@pytest.mark.parametrize("at", [1, 40_000])
def test_a_header_can_be_added_to_those_of_a_tidy_file(
    tmp_path: Path, block: bytes, tidy: bool, at: int
) -> None:
    messages = [message(seq) for seq in range(1, 40_001)]
    messages[at - 1] = Message(at, 3, b"a", block, b"")
    stats = write(tmp_path / "x", columns_of(messages), 0)
    assert stats.sums is not None
    assert stats.sums.tidy is tidy


def test_sums_of_before_files_were_linked_promise_nothing(tmp_path: Path) -> None:
    stats = write(tmp_path / "x", columns([1, 2, 3]), 0)
    assert stats.sums is not None
    fields = json.loads(file_sums.encode(stats.sums))
    assert fields.pop("tidy") is True
    assert file_sums.decode(json.dumps(fields)).tidy is False


@pytest.mark.parametrize(
    ("block", "found"),
    [
        (b"", False),
        (b"NATS/1.0\r\nColor: red\r\n\r\n", False),
        (b"NATS/1.0\r\nNats-Msg-Id: 7\r\n\r\n", True),
        (b"NATS/1.0 503\r\nA: 1\r\nNats-Msg-Id:7\r\n\r\n", True),
        (b"NATS/1.0\r\nNats-Stream-Source: O 1 > > a I\r\nNats-Msg-Id: 7\r\n\r\n", True),
        (b"NATS/1.0\r\nNats-Expected-Stream: O\r\nNats-Msg-Id: 7\r\n\r\n", True),
    ],
)
@pytest.mark.parametrize("at", [1, 40_000])
def test_whether_messages_have_ids_is_recorded(tmp_path: Path, block: bytes, found: bool, at: int) -> None:
    messages = [Message(seq, 3, b"a", b"", b"") for seq in range(1, 40_001)]
    # Nothing else is left to look for once the first of them was seen.
    messages[0] = Message(1, 3, b"a", b"NATS/1.0\r\nNats-Expected-Stream: O\r\nUnfinished", b"")
    messages[at - 1] = Message(at, 3, b"a", block, b"")
    stats = write(tmp_path / "x", columns_of(messages), 0)
    assert stats.sums is not None
    assert stats.sums.ids is found
    assert stats.sums.prove_no_ids is not found


def test_older_sums_without_ids_prove_nothing_except_without_headers(tmp_path: Path) -> None:
    for headers, proven in ((b"NATS/1.0\r\nColor: red\r\n\r\n", False), (b"", True)):
        stats = write(tmp_path / "x", columns_of([Message(1, 3, b"a", headers, b"")]), 0)
        assert stats.sums is not None
        assert stats.sums.prove_no_ids
        fields = json.loads(file_sums.encode(stats.sums))
        assert fields.pop("ids") is False
        assert file_sums.decode(json.dumps(fields)).prove_no_ids is proven


def test_a_file_of_too_many_subjects_has_no_sums(tmp_path: Path) -> None:
    messages = [Message(seq, 1, b"s.%d" % seq, b"", b"") for seq in range(file_sums.MOST_SUBJECTS + 1)]
    stats = write(tmp_path / "many", columns_of(messages), 0)
    assert stats.sums is None
    assert read_sums(read_footer(tmp_path / "many", stats.footer_crc)) is None
    counting = FileWriter(tmp_path / "asked", 0, most_subjects=None)
    counting.append(columns_of(messages))
    sums = counting.finish().sums
    assert sums is not None
    assert len(sums.subjects) == len(messages)


def test_a_file_whose_sequences_are_far_apart_has_no_sums(tmp_path: Path) -> None:
    stats = write(
        tmp_path / "x", columns_of([Message(1, 1, b"a", b"", b""), Message(1 << 40, 2, b"a", b"", b"")]), 0
    )
    assert stats.sums is None
