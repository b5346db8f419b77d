"""Row groups of a mapped file contain the messages that were written, their data in pages or decoded."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptionError
from headwater.model.message import Message
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.table import parquet
from headwater.table.arrow_tables import rows_of
from headwater.table.pages.data_chunk import DataChunk
from headwater.table.parquet import MAX_GROUP_ROWS, FileWriter
from headwater.table.rows import Rows
from headwater.table.stored_bytes import ObjectBytes
from headwater.table.stored_group import StoredFile, StoredGroup
from replication.works import messages_in
from table.samples import TS, columns_of, message, runs_of_messages


def stored(
    path: Path, messages: Sequence[Message], base_seq: int = 0, compression: str = "none"
) -> StoredFile:
    """Return messages as a mapped file."""
    parquet.write(path, columns_of(messages), base_seq, compression)
    return StoredFile(path, parquet.read_footer(path, None), base_seq)


def opened(file: StoredFile) -> list[Message]:
    """Return every message of a file."""
    groups = [file.group(index) for index in range(len(file.footer.bounds))]
    return [each for group in groups for each in messages_in(group.opened(group.rows()).columns())]


@given(runs_of_messages(), st.sampled_from(["none", "s2"]), st.booleans())
def test_any_messages_are_those_that_were_written(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Message], compression: str, based: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    base_seq = messages[0].seq if based else 0
    with stored(path, messages, base_seq, compression) as file:
        group = file.group(0)
        rows = group.rows()
        assert isinstance(rows.datas, DataChunk)
        assert rows.datas.codec == {"none": "UNCOMPRESSED", "s2": "ZSTD"}[compression]
        assert rows.payload_bytes == sum(len(m.headers) + len(m.data) for m in messages)
        assert opened(file) == messages
        twice = group.opened(group.opened(rows))
        assert messages_in(twice.columns()) == messages


def test_all_groups_of_a_file_are_there(tmp_path: Path) -> None:
    messages = [message(seq) for seq in range(1, 2 * MAX_GROUP_ROWS + 10)]
    with stored(tmp_path / "x", messages) as file:
        assert len(file.footer.bounds) == 3
        assert opened(file) == messages


@pytest.mark.parametrize("seqs", [range(5, 50), [5, 7, 8, 49]], ids=["dense", "with gaps"])
def test_sequences_and_times_stay_unless_times_are_not_wanted(tmp_path: Path, seqs: Sequence[int]) -> None:
    with stored(tmp_path / "x", [message(seq) for seq in seqs], 5) as file:
        rows = file.group(0).rows()
        assert rows.seqs.tolist() == list(seqs)
        assert rows.ts.tolist() == [message(seq).ts for seq in seqs]
        untimed = file.group(0).rows(timed=False)
        assert untimed.seqs.tolist() == list(seqs)
        assert untimed.ts.tolist() == [0] * len(seqs)
        assert untimed.subjects.to_pylist() == rows.subjects.to_pylist()
        assert untimed.headers.equals(rows.headers)


def test_only_the_columns_that_are_needed_are_decoded(tmp_path: Path) -> None:
    with (
        stored(tmp_path / "x", [message(seq) for seq in range(1, 19)]) as file,
        patch.object(StoredFile, "decode", autospec=True, side_effect=StoredFile.decode) as decode,
    ):
        rows = file.group(0).rows(timed=False)
        assert [call.args[2] for call in decode.call_args_list] == [["subject", "headers"]]
        file.group(0).opened(rows)
        assert decode.call_args.args[2] == ["data"], "short data of different lengths"


@pytest.mark.parametrize("headers", [b"", b"NATS/1.0\r\nA: b\r\n\r\n"])
def test_headers_are_decoded_unless_the_sums_tell_that_there_are_none(tmp_path: Path, headers: bytes) -> None:
    path = tmp_path / "x"
    messages = [message(seq)._replace(headers=headers if seq % 2 else b"") for seq in range(1, 9)]
    sums = parquet.write(path, columns_of(messages), 0).sums
    for known in (sums, None):
        with (
            StoredFile(path, parquet.read_footer(path, None), 0, known) as file,
            patch.object(StoredFile, "decode", autospec=True, side_effect=StoredFile.decode) as decode,
        ):
            group = file.group(0)
            rows = group.rows(timed=True)
            assert ("headers" in decode.call_args.args[2]) is (bool(headers) or known is None)
            chosen = group.opened(rows).filter(np.arange(8) % 3 == 0)
            assert messages_in(chosen.columns()) == messages[::3]


@pytest.mark.parametrize("compression", ["none", "s2"])
@pytest.mark.parametrize("sizes", [(0,), (9,), (2000,), (1700, 1800)])
def test_data_that_is_long_or_of_one_length_is_at_hand_without_being_decoded(
    tmp_path: Path, compression: str, sizes: tuple[int, ...]
) -> None:
    lengths = itertools.cycle(sizes)
    messages = [message(seq)._replace(data=bytes([seq]) * next(lengths)) for seq in range(1, 99)]
    with stored(tmp_path / "x", messages, compression=compression) as file:
        group = file.group(0)
        with patch.object(StoredGroup, "_datas", side_effect=AssertionError("decoded")):
            rows = group.opened(group.rows())
        chosen = np.arange(len(rows)) % 3 == 1
        assert messages_in(rows.columns()) == messages
        assert messages_in(rows.filter(chosen).columns()) == messages[1::3]


@pytest.mark.parametrize("size", [0, 5 << 20])
def test_data_without_length_and_of_great_length_stays_as_it_lies(tmp_path: Path, size: int) -> None:
    messages = [Message(seq, TS, b"a", b"", bytes([seq]) * size) for seq in (1, 2, 3)]
    with stored(tmp_path / "x", messages) as file:
        chunks = [file.group(index).rows().datas for index in range(len(file.footer.bounds))]
        assert all(isinstance(chunk, DataChunk) for chunk in chunks)
        assert sum(chunk.nbytes for chunk in chunks) == 3 * size
        assert opened(file) == messages


def test_pages_of_a_chunk_are_taken_all(tmp_path: Path) -> None:
    messages = [Message(seq, TS, b"a", b"", b"%d" % seq * 50_000) for seq in range(1, 60)]
    path = tmp_path / "x"
    writer = FileWriter(path, 0, spliced=True)
    writer.append_group(rows_of(columns_of(messages)))
    writer.finish()
    with StoredFile(path, parquet.read_footer(path, None), 0) as file:
        assert len(file.footer.bounds) == 1
        chunk = file.group(0).rows().datas
        assert isinstance(chunk, DataChunk)
        assert (chunk.rows, chunk.nbytes) == (59, sum(len(m.data) for m in messages))
        assert opened(file) == messages


def test_subjects_that_are_too_long_for_a_dictionary_are_there(tmp_path: Path) -> None:
    messages = [Message(seq, TS, (b"s.%d." % seq).ljust(200, b"x"), b"", b"d") for seq in range(1, 16_001)]
    with stored(tmp_path / "x", messages) as file:
        assert "PLAIN" in file.footer.metadata.row_group(0).column(1).encodings
        rows = file.group(0).rows()
        assert isinstance(rows.datas, DataChunk)
        assert opened(file) == messages


def test_pages_of_another_kind_are_decoded(tmp_path: Path) -> None:
    messages = [message(seq) for seq in range(1, 30)]
    with patch.dict(parquet._CODECS, {"none": {"compression": "snappy"}}):
        file = stored(tmp_path / "x", messages)
    with file:
        rows = file.group(0).rows()
        assert not isinstance(rows.datas, DataChunk)
        assert messages_in(rows.columns()) == messages
        assert file.group(0).opened(rows) is rows


def test_every_flipped_byte_of_a_group_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with stored(path, [message(seq) for seq in range(1, 9)]) as file:
        footer = file.footer
    ((start, stop),) = footer.places
    whole = path.read_bytes()
    for at in range(start, stop):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        with StoredFile(path, footer, 0) as file, pytest.raises(CorruptionError):
            file.group(0)


def test_a_file_that_lost_its_end_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with stored(path, [message(seq) for seq in range(1, 9)]) as file:
        footer = file.footer
    path.write_bytes(path.read_bytes()[: footer.places[0][1] - 1])
    with StoredFile(path, footer, 0) as file, pytest.raises(CorruptionError):
        file.group(0)


def test_what_was_taken_from_a_file_outlives_it(tmp_path: Path) -> None:
    path = tmp_path / "x"
    messages = [message(seq) for seq in range(1, 5000)]
    with stored(path, messages) as file:
        # As compaction does with a file whose rows are in another one now.
        path.unlink()
        group = file.group(0)
        rows = group.rows()
    del file
    gc.collect()
    copy = tmp_path / "copy"
    writer = FileWriter(copy, 0, spliced=True)
    writer.append_group(rows)
    writer.finish()
    assert messages_in(group.opened(rows).columns()) == messages
    with StoredFile(copy, parquet.read_footer(copy, None), 0) as spliced:
        assert opened(spliced) == messages
        assert bytes(_chunk(spliced.group(0).rows()).parts[0]) == bytes(_chunk(rows).parts[0])


def _chunk(rows: Rows) -> DataChunk:
    assert isinstance(rows.datas, DataChunk)
    return rows.datas


def test_none_of_the_rows_are_none(tmp_path: Path) -> None:
    with stored(tmp_path / "x", [message(seq) for seq in range(1, 9)]) as file:
        nothing = file.group(0).rows().none()
    assert len(nothing) == 0
    assert nothing.seqs.dtype == np.int64
    assert messages_in(nothing.columns()) == []


def test_row_groups_of_a_bucket_are_those_of_the_disk(tmp_path: Path) -> None:
    messages = [message(seq) for seq in range(1, 5 * MAX_GROUP_ROWS)]
    path = tmp_path / "objects" / "x.parquet"
    path.parent.mkdir()
    parquet.write(path, columns_of(messages), 0)
    footer = parquet.read_footer(path, None)
    remote = ObjectBytes(Bucket(BucketAddress(f"file://{path.parent}")), path.name)
    with StoredFile(remote, footer, 0) as file:
        groups = list(file.groups(range(len(footer.bounds))))
        found = [each for group in groups for each in messages_in(group.opened(group.rows()).columns())]
    assert found == messages
    content = bytearray(path.read_bytes())
    content[footer.places[2][0] + 9] ^= 1
    path.write_bytes(content)
    with StoredFile(remote, footer, 0) as file:
        groups_again = file.groups([1, 2, 3])
        next(groups_again)
        with pytest.raises(CorruptionError, match="row group 2"):
            next(groups_again)
