"""A part of an archive gives its messages back, and one that was made to do harm is refused in time."""

from __future__ import annotations

import io
import resource

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.model.message import Message
from headwater.table import archive_part
from headwater.table.archive_part import ArchiveError, read_part, write_part

SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("subject", pa.binary(), nullable=False),
        pa.field("headers", pa.binary(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)


def part(rows: int, data: pa.Array, **options: object) -> bytes:
    """Return a part as another program may write it."""
    columns = [
        pa.array(range(1, rows + 1), pa.int64()),
        pa.array(range(rows), pa.int64()),
        pa.array([b"a"] * rows, pa.binary()),
        pa.array([b""] * rows, pa.binary()),
        data,
    ]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), out, **options)
    return out.getvalue()


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_messages_come_back_from_many_batches_and_a_dictionary_that_grew_too_large() -> None:
    sent = [Message(n, n, b"s.%d" % (n % 7), b"", bytes([n % 251]) * (n % 900)) for n in range(1, 20_000)]
    columns = read_part(write_part(sent), "part")
    assert columns.seqs.tolist() == [m.seq for m in sent]
    assert columns.subjects == b"".join(m.subject for m in sent)
    assert columns.data_lengths.tolist() == [len(m.data) for m in sent]
    assert columns.datas == b"".join(m.data for m in sent)


def test_a_part_without_messages_is_read() -> None:
    assert len(read_part(write_part([]), "part")) == 0


def test_one_long_value_that_every_row_names_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_part, "MAX_BYTES", 16 << 20)
    rows = 8_192
    data = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([b"x" * 32_768]))
    bomb = part(rows, data.cast(pa.binary()), compression="zstd", use_dictionary=True)
    assert len(bomb) < 1 << 20
    before = peak_kib()
    with pytest.raises(ArchiveError, match="exceeds the size limit of an archive part"):
        read_part(bomb, "part")
    assert peak_kib() - before < 128 << 10, "256 MiB were decoded"


def test_a_page_that_unpacks_to_more_than_a_part_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_part, "MAX_BYTES", 16 << 20)
    data = pa.array([b"\0" * (64 << 20)], pa.binary())
    bomb = part(1, data, compression="zstd", use_dictionary=False)
    assert len(bomb) < 1 << 20
    with pytest.raises(ArchiveError, match="exceeds the size limit of an archive part"):
        read_part(bomb, "part")


def test_more_rows_than_a_part_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_part, "MAX_ROWS", 10)
    with pytest.raises(ArchiveError, match="exceeds the size limit of an archive part"):
        read_part(part(11, pa.array([b""] * 11, pa.binary())), "part")


@pytest.mark.parametrize(
    "subject", [b"", b"a b", b"a\r\nPUB x 0\r\n\r\n", b"a..b", b"\xff", b".", b"a." + b"b" * 4000]
)
def test_a_subject_that_no_server_passes_on_is_refused(subject: bytes) -> None:
    with pytest.raises(ArchiveError, match="which is not a subject"):
        read_part(write_part([Message(1, 1, subject, b"", b"")]), "part")


def test_headers_that_are_too_long_are_refused() -> None:
    with pytest.raises(ArchiveError, match="bytes of headers"):
        read_part(write_part([Message(1, 1, b"a", b"h" * 70_000, b"")]), "part")


def test_damaged_parts_are_refused_whatever_byte_is_wrong() -> None:
    whole = write_part([Message(n, n, b"a", b"", b"data") for n in range(1, 50)])
    for at in range(4, len(whole), 7):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        try:
            read_part(bytes(broken), "part")
        except ArchiveError:
            continue
