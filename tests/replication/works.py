"""Pieces of work over real files, and what plain Python says that they should bring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

from headwater.disk import RealDisk
from headwater.model import headers as header_block
from headwater.model.columns import Columns
from headwater.model.copied import Copied
from headwater.model.message import Message
from headwater.model.subject import matches
from headwater.model.transform import SubjectTransform
from headwater.replication.work import FileRange, Receipt, Work, decode_adopted
from headwater.table import parquet
from headwater.table.output import Output, footer_crc_of
from headwater.table.table_storage import LocalTableStorage
from headwater.wire import column_bytes
from table.samples import columns_of

TS = 1_790_000_000_123_456_789


def file_of(
    directory: Path, messages: Sequence[Message], base_seq: int = 0, compression: str = "none"
) -> FileRange:
    """Write the messages as a file of a table."""
    with Output(LocalTableStorage(directory, RealDisk(sync=False)), "files", base_seq, compression) as output:
        output.append(columns_of(messages))
        file = output.finish()
    return FileRange(str(directory / file.path), base_seq, file.first_seq, file.last_seq)


def work_of(**fields: Any) -> Work:
    """Return a piece of work with usual values where none are given."""
    usual = {"id": "w1", "target": "COPY", "upstream": "ORDERS > >", "expected": b"cursor", "start_seq": 1}
    return Work(**{**usual, **fields})


def removed_of(seqs: Iterable[int]) -> bytes:
    """Return sequences as a work carries them."""
    return bytes(BitMap64(seqs).serialize())


def tail_of(messages: Sequence[Message]) -> bytes:
    """Return messages as a work carries them."""
    return column_bytes.encode(columns_of(messages))


def brought(receipt: Receipt, staging: Path | None = None) -> list[Message]:
    """Return the messages of a receipt, from wherever they are."""
    assert receipt.error == ""
    assert not (receipt.data and receipt.path)
    if receipt.data:
        return messages_in(column_bytes.decode(receipt.data))
    if not receipt.path:
        return []
    assert staging is not None
    return _stored(staging / receipt.path, 0)


def adopted_by(receipt: Receipt, staging: Path) -> list[Message]:
    """Return the messages of the files that a receipt has a target adopt."""
    assert (receipt.data, receipt.path) == (b"", "")
    files = decode_adopted((staging / receipt.sums).read_bytes()) if receipt.sums else receipt.adopted
    return [m for file in files for m in _stored(staging / file.name, file.base_seq, file.copied)]


def _stored(path: Path, base_seq: int, copied: Copied | None = None) -> list[Message]:
    crc = footer_crc_of(str(path))
    assert crc is not None
    footer = parquet.read_footer(path, crc)
    groups = [
        parquet.read_group(path, footer, index, base_seq, copied) for index in range(len(footer.bounds))
    ]
    return [message for group in groups for message in messages_in(group.columns())]


def messages_in(columns: Columns) -> list[Message]:
    """Return the messages of columns one by one."""
    messages, s, h, d = [], 0, 0, 0
    subjects, headers, datas = bytes(columns.subjects), bytes(columns.headers), bytes(columns.datas)
    for row in range(len(columns)):
        sl, hl, dl = (
            int(lengths[row])
            for lengths in (columns.subject_lengths, columns.header_lengths, columns.data_lengths)
        )
        messages.append(
            Message(
                int(columns.seqs[row]),
                int(columns.ts[row]),
                subjects[s : s + sl],
                headers[h : h + hl],
                datas[d : d + dl],
            )
        )
        s, h, d = s + sl, h + hl, d + dl
    assert (s, h, d) == (len(subjects), len(headers), len(datas))
    return messages


def expected_of(work: Work, messages: Iterable[Message]) -> list[Message]:
    """Return the expected copies of the messages, computed one by one in the simplest way."""
    wanted = [message for message in messages if work.start_seq <= message.seq <= work.stop_seq]
    subjects = {subject: _subject_of(work, subject) for subject in {message.subject for message in wanted}}
    return [
        Message(message.seq, message.ts, subject, _headers_of(work, message), message.data)
        for message in wanted
        if (subject := subjects[message.subject]) is not None
    ]


def _subject_of(work: Work, subject: bytes) -> bytes | None:
    """Return the subject of a copy; None if messages with this subject are not copied."""
    if work.filters and not any(matches(subject.decode(), pattern) for pattern in work.filters):
        return None
    if work.transforms:
        for src, dest in work.transforms:
            if matches(subject.decode(), src or ">"):
                subject = SubjectTransform(src, dest).apply(subject) or b"?"
                break
        else:
            return None
    if work.stream_transform:
        subject = SubjectTransform(*work.stream_transform).apply(subject) or subject
    return subject


def _headers_of(work: Work, message: Message) -> bytes:
    pairs = [
        (name, value)
        for name, value in header_block.parse(message.headers) or []
        if not name.startswith((b"Nats-Expected-", b"Nats-Batch-"))
        and not (work.source_header and name == b"Nats-Stream-Source")
    ]
    if work.source_header:
        name, filters, destinations, identity = (part.encode() for part in work.source_header)
        where = [name, b"%d" % message.seq, filters, destinations, message.subject, identity]
        pairs.append((b"Nats-Stream-Source", b" ".join(part for part in where if part)))
    return header_block.build(pairs)
