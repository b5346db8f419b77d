"""Messages survive Parquet byte for byte, in bounded row groups, and damage is always noticed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptionError, NewerFormatError
from headwater.model.message import Message
from headwater.table import parquet
from headwater.table.parquet import FileStats
from table.samples import columns, columns_of, message, messages_of, runs_of_messages


def read(path: Path, stats: FileStats, base_seq: int) -> list[Message]:
    """Return every message of a file."""
    footer = parquet.read_footer(path, stats.footer_crc)
    groups = [parquet.read_group(path, footer, i, base_seq) for i in range(len(footer.bounds))]
    return [message for group in groups for message in messages_of(group)]


@settings(max_examples=60, deadline=None)
@given(runs_of_messages(), st.sampled_from(["none", "s2"]), st.booleans())
def test_messages_come_back_as_they_were(messages: list[Message], compression: str, from_zero: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.parquet"
        base_seq = 0 if from_zero else messages[0].seq
        stats = parquet.write(path, columns_of(messages), base_seq, compression)
        assert read(path, stats, base_seq) == messages
        assert (stats.content.rows, stats.content.first_offset, stats.content.last_offset) == (
            len(messages),
            messages[0].seq - base_seq,
            messages[-1].seq - base_seq,
        )
        assert (stats.content.first_ts, stats.content.last_ts) == (
            min(m.ts for m in messages),
            max(m.ts for m in messages),
        )
        assert stats.content.headerless_rows == sum(not m.headers for m in messages)


@pytest.mark.parametrize("spliced", [False, True])
def test_a_file_of_a_newer_release_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spliced: bool
) -> None:
    path = tmp_path / "x.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "FILE_VERSION", 2)
        writer = parquet.FileWriter(path, 1, spliced=spliced)
        writer.append(columns_of([Message(1, 1, b"a", b"", b"one")]))
        stats = writer.finish()
    with pytest.raises(
        NewerFormatError, match=r"^the data file .* has version 2, this Headwater knows up to 1"
    ):
        parquet.read_footer(path, stats.footer_crc)


def test_a_file_names_its_version_and_one_that_names_none_is_of_0_1_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [Message(1, 1, b"a", b"", b"one")]
    parquet.write(tmp_path / "new", columns_of(messages), 1)
    assert pq.read_metadata(tmp_path / "new").metadata[b"headwater.version"] == b"1"
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "_VERSION", "unknown")
        stats = parquet.write(tmp_path / "old", columns_of(messages), 1)
    assert b"headwater.version" not in pq.read_metadata(tmp_path / "old").metadata
    assert read(tmp_path / "old", stats, 1) == messages


def test_a_row_group_ends_at_its_most_rows(tmp_path: Path) -> None:
    messages = [Message(seq, 1, b"a", b"", b"") for seq in range(1, 40_001)]
    stats = parquet.write(tmp_path / "x", columns_of(messages), 1)
    assert parquet.read_footer(tmp_path / "x", stats.footer_crc).bounds == (
        (0, 16_383),
        (16_384, 32_767),
        (32_768, 39_999),
    )
    assert read(tmp_path / "x", stats, 1) == messages


def test_a_row_group_ends_at_its_most_bytes(tmp_path: Path) -> None:
    sizes = [1 << 20, 3 << 20, 1 << 20, 5 << 20, 10]
    messages = [Message(seq, 1, b"a", b"", bytes(size)) for seq, size in enumerate(sizes)]
    stats = parquet.write(tmp_path / "x", columns_of(messages), 0)
    bounds = parquet.read_footer(tmp_path / "x", stats.footer_crc).bounds
    assert bounds == ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4))
    assert read(tmp_path / "x", stats, 0) == messages


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9000), min_size=1, max_size=8))
def test_pieces_are_joined_into_full_row_groups(pieces: list[int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        writer = parquet.FileWriter(Path(directory) / "x", 1)
        seq = 1
        for piece in pieces:
            writer.append(columns_of([Message(s, s, b"a", b"", b"%d" % s) for s in range(seq, seq + piece)]))
            seq += piece
        stats = writer.finish()
        bounds = parquet.read_footer(Path(directory) / "x", stats.footer_crc).bounds
        assert len(bounds) == -(-sum(pieces) // parquet.MAX_GROUP_ROWS)
        assert [m.data for m in read(Path(directory) / "x", stats, 1)] == [b"%d" % s for s in range(1, seq)]


def test_other_readers_see_plain_columns(tmp_path: Path) -> None:
    parquet.write(tmp_path / "x", columns([5, 6, 9]), 5)
    rows = pq.read_table(tmp_path / "x").to_pylist()
    assert [row["offset"] for row in rows] == [0, 1, 4]
    assert [row["subject"] for row in rows] == ["orders.5", "orders.6", "orders.2"]
    assert [row["headers"] for row in rows] == [None, message(6).headers, message(9).headers]
    assert [row["nanos"] for row in rows] == [message(seq).ts % 1000 for seq in (5, 6, 9)]


def test_sequences_that_do_not_ascend_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        parquet.write(tmp_path / "x", columns([5, 5]), 0)


@pytest.mark.parametrize("compression", ["none", "s2"])
def test_no_flipped_bit_is_ever_served(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "x"
    stats = parquet.write(path, columns(range(1, 30)), 1, compression)
    whole = path.read_bytes()
    expected = [message(seq) for seq in range(1, 30)]
    noticed = 0
    rng = np.random.default_rng(7)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            assert read(path, stats, 1) == expected, f"byte {at}"
        except CorruptionError:
            noticed += 1
    assert noticed > len(whole) * 0.8


def test_a_damaged_page_is_reported_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x"
    stats = parquet.write(path, columns(range(1, 30)), 1)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"payload 7", b"payload 8"))
    with pytest.raises(CorruptionError) as caught:
        read(path, stats, 1)
    assert caught.value.path == path
    assert "row group 0" in caught.value.what


@pytest.mark.parametrize("length", [0, 3, 8, 100])
def test_a_cut_file_is_damage(tmp_path: Path, length: int) -> None:
    path = tmp_path / "x"
    stats = parquet.write(path, columns(range(1, 30)), 1)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CorruptionError):
        parquet.read_footer(path, stats.footer_crc)
