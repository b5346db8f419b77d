"""An archive gives back what was put in, and what is no whole archive is refused with a reason."""

from __future__ import annotations

import io
import tarfile

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.columns import Buffer, Columns, Lengths
from headwater.model.message import Message
from headwater.table.archive import ArchiveReader, ArchiveWriter, Manifest
from headwater.table.archive_part import ArchiveError
from headwater.wire.s2_frames import IDENTIFIER, framed

CONFIG = msgspec.Raw(b'{"name":"S"}')


def manifest(**changes: int) -> Manifest:
    values = {"created_ns": 5, "first_seq": 1, "last_seq": 1000, "last_ts": 9, "messages": 3} | changes
    return Manifest(config=CONFIG, **values)  # type: ignore[arg-type]


def archive(*parts: list[Message], **changes: int) -> bytes:
    writer = ArchiveWriter()
    return writer.begin(manifest(**changes)) + b"".join(writer.part(p) for p in parts) + writer.end()


def messages(columns: Columns) -> list[Message]:
    def cut(lengths: Lengths, joined: Buffer) -> list[bytes]:
        ends = np.cumsum(lengths)
        whole = bytes(joined)
        return [whole[end - length : end] for length, end in zip(lengths, ends, strict=True)]

    rows = zip(
        columns.seqs.tolist(),
        columns.ts.tolist(),
        cut(columns.subject_lengths, columns.subjects),
        cut(columns.header_lengths, columns.headers),
        cut(columns.data_lengths, columns.datas),
        strict=True,
    )
    return [Message(*row) for row in rows]


def read(content: bytes) -> list[Message]:
    return [m for part in ArchiveReader(io.BytesIO(content)).parts() for m in messages(part)]


ONE = [Message(3, 30, b"a.b", b"", b"x"), Message(4, 31, b"a.c", b"NATS/1.0\r\nK: V\r\n\r\n", b"")]
TWO = [Message(9, 32, b"a.b", b"", b"\x00\xff" * 50)]


def test_messages_come_back_with_sequences_times_headers_and_gaps() -> None:
    reader = ArchiveReader(io.BytesIO(archive(ONE, TWO)))
    assert reader.manifest == manifest()
    assert [m for part in reader.parts() for m in messages(part)] == ONE + TWO


def test_a_stream_without_messages_keeps_its_sequences() -> None:
    reader = ArchiveReader(io.BytesIO(archive(first_seq=8, last_seq=7)))
    assert (reader.manifest.first_seq, reader.manifest.last_seq) == (8, 7)
    assert list(reader.parts()) == []


SUBJECTS = st.lists(st.from_regex(r"[a-zé0-9*]+", fullmatch=True), min_size=1).map(".".join).map(str.encode)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 1000), SUBJECTS, st.binary(max_size=9), st.binary()),
        unique_by=lambda row: row[0],
    ),
    st.integers(1, 5),
)
def test_any_messages_survive_in_parts_of_any_size(
    rows: list[tuple[int, bytes, bytes, bytes]], size: int
) -> None:
    whole = [Message(seq, seq * 7, subject, headers, data) for seq, subject, headers, data in sorted(rows)]
    parts = [whole[i : i + size] for i in range(0, len(whole), size)]
    assert read(archive(*parts)) == whole


def test_a_cut_at_any_member_boundary_is_noticed() -> None:
    whole = archive(ONE, TWO)
    for cut in range(0, len(whole) - 10_240, 512):
        with pytest.raises(ArchiveError):
            read(whole[:cut])


def test_a_flipped_bit_is_noticed() -> None:
    whole = bytearray(archive(ONE))
    at = whole.index(b"PAR1") + 20
    whole[at] ^= 1
    with pytest.raises(ArchiveError, match=r"checksum of 'messages/00000001\.parquet'"):
        read(bytes(whole))


@pytest.mark.parametrize("magic", [b"\xff\x06\x00\x00S2sTwO", b"\xff\x06\x00\x00sNaPpY"])
def test_an_archive_of_nats_server_is_recognised_and_refused(magic: bytes) -> None:
    with pytest.raises(ArchiveError, match="archive of nats-server"):
        ArchiveReader(io.BytesIO(magic + b"\x00" * 1000))


@pytest.mark.parametrize("content", [b"", b"x", b"no tar at all" * 100, b"\x00" * 10_240])
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(ArchiveError):
        ArchiveReader(io.BytesIO(content))


def test_an_archive_of_a_newer_version_is_refused() -> None:
    writer = ArchiveWriter()
    newer = Manifest(version=3, config=CONFIG, created_ns=0, first_seq=1, last_seq=0, last_ts=0, messages=0)
    with pytest.raises(ArchiveError, match="version 3"):
        ArchiveReader(io.BytesIO(writer.begin(newer) + writer.end()))


@pytest.mark.parametrize(("first", "last"), [(-1, 5), (9, 7), (1, 2**63)])
def test_sequences_without_sense_are_refused(first: int, last: int) -> None:
    with pytest.raises(ArchiveError, match="not those of a stream"):
        ArchiveReader(io.BytesIO(archive(first_seq=first, last_seq=last)))


def test_parts_that_do_not_ascend_or_go_beyond_the_manifest_are_refused() -> None:
    with pytest.raises(ArchiveError, match="do not ascend"):
        read(archive(TWO, ONE))
    with pytest.raises(ArchiveError, match="beyond the manifest"):
        read(archive(TWO, last_seq=8))


def test_a_member_that_is_no_file_is_refused() -> None:
    out = io.BytesIO()
    with tarfile.open(mode="w", fileobj=out) as tar:
        link = tarfile.TarInfo("manifest.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(ArchiveError, match="not a file of an archive"):
        ArchiveReader(io.BytesIO(IDENTIFIER + framed(out.getvalue())))


def test_an_archive_that_leaves_out_more_sequences_than_can_be_noted_is_refused() -> None:
    far = [Message(1, 1, b"a", b"", b""), Message(2**60, 2, b"a", b"", b"")]
    with pytest.raises(ArchiveError, match="leaves out more sequences"):
        read(archive(far, last_seq=2**60))
