"""The archive of a stream: a tar of a manifest, the messages as Parquet parts, and an end mark.

`docs/internals/archive.md` says what lies in it. Writer and reader hold one part in memory, never a stream.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import Error
from headwater.model.columns import Buffer, Columns, Lengths
from headwater.model.message import Message
from headwater.stream.s2_frames import FOREIGN, IDENTIFIER, Incoming, Unframed, framed

_T = TypeVar("_T")

FORMAT = "headwater-archive"
VERSION = 1
PART_MESSAGES = 65_536
PART_BYTES = 8 << 20
_MAX_JSON_BYTES = 64 << 20
_MAX_PART_BYTES = 256 << 20
_DIGEST = "HEADWATER.sha256"
_SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("subject", pa.binary(), nullable=False),
        pa.field("headers", pa.binary(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)


class ArchiveError(Error):
    """The bytes are no whole archive of a stream, and the message says why."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first member: what the archive holds. Sequences without a message are the stream's gaps."""

    format: str = FORMAT
    version: int = VERSION
    config: msgspec.Raw
    created_ns: int
    first_seq: int
    last_seq: int
    last_ts: int
    messages: int


class EndMark(msgspec.Struct, frozen=True, kw_only=True):
    """The last member: an archive without it was cut short."""

    parts: int
    messages: int


class _Outgoing(io.RawIOBase):
    """Where tarfile writes; `take` empties it."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:  # type: ignore[override]
        self._chunks.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken = b"".join(self._chunks)
        self._chunks.clear()
        return taken


class ArchiveWriter:
    """Turns a stream into the bytes of an archive, a part at a time."""

    def __init__(self) -> None:
        self._out = _Outgoing()
        self._tar = tarfile.open(mode="w|", fileobj=self._out, format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._parts = 0
        self._messages = 0

    def begin(self, manifest: Manifest) -> bytes:
        """Return the bytes of the manifest."""
        return IDENTIFIER + self._member("manifest.json", msgspec.json.encode(manifest))

    def part(self, messages: Sequence[Message]) -> bytes:
        """Return the bytes of one part; its messages follow those of the part before."""
        self._parts += 1
        self._messages += len(messages)
        return self._member(f"messages/{self._parts:08}.parquet", _to_parquet(messages))

    def end(self) -> bytes:
        """Return the bytes that make the archive whole."""
        last = self._member(
            "end.json", msgspec.json.encode(EndMark(parts=self._parts, messages=self._messages))
        )
        self._tar.close()
        return last + framed(self._out.take())

    def _member(self, name: str, content: bytes) -> bytes:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        info.pax_headers = {_DIGEST: hashlib.sha256(content).hexdigest()}
        self._tar.addfile(info, io.BytesIO(content))
        return framed(self._out.take())


class ArchiveReader:
    """Reads an archive once, from its beginning to its end."""

    def __init__(self, incoming: Incoming) -> None:
        head = _read_head(incoming)
        if not head.startswith(FOREIGN):
            raise ArchiveError("these bytes are no archive of Headwater")
        frames = Unframed(incoming, head[len(IDENTIFIER) :])
        try:
            self._tar = tarfile.open(mode="r|", fileobj=_Whole(frames))  # noqa: SIM115
        except (tarfile.TarError, EOFError) as error:
            if frames.is_foreign:
                raise ArchiveError(
                    "this is an archive of nats-server, whose files Headwater does not read; "
                    "restore it on a nats-server and mirror or source that stream here"
                ) from error
            raise ArchiveError("these bytes are no archive of Headwater") from error
        self.manifest = self._manifest()

    def _manifest(self) -> Manifest:
        name, content = self._next()
        if name != "manifest.json":
            raise ArchiveError(f"an archive begins with manifest.json, not {name[:100]!r}")
        manifest = _decode(content, Manifest, name)
        if manifest.format != FORMAT or manifest.version > VERSION:
            raise ArchiveError(
                f"the archive is {manifest.format!r} version {manifest.version}, "
                f"this Headwater reads {FORMAT!r} up to version {VERSION}"
            )
        if not 0 <= manifest.first_seq <= manifest.last_seq + 1 or manifest.last_seq >= 2**63:
            raise ArchiveError("the manifest's sequences have no sense")
        return manifest

    def parts(self) -> Iterator[Columns]:
        """Yield the messages in ascending sequence; return only when the end mark agrees with them."""
        parts = messages = 0
        last_seq = self.manifest.first_seq - 1
        while True:
            name, content = self._next()
            if name == "end.json":
                break
            columns = _from_parquet(content, name)
            if len(columns):
                if columns.seqs[0] <= last_seq or (np.diff(columns.seqs) <= 0).any():
                    raise ArchiveError(f"the sequences of {name} do not ascend")
                last_seq = int(columns.seqs[-1])
            if last_seq > self.manifest.last_seq:
                raise ArchiveError(f"{name} goes beyond the manifest's last sequence")
            parts += 1
            messages += len(columns)
            yield columns
        if _decode(content, EndMark, name) != EndMark(parts=parts, messages=messages):
            raise ArchiveError(f"the end mark does not fit {parts} parts with {messages} messages")

    def _next(self) -> tuple[str, bytes]:
        """Return the next member, checked against its digest."""
        try:
            info = self._tar.next()
        except (tarfile.TarError, EOFError) as error:
            raise ArchiveError("the archive is damaged or was cut short") from error
        if info is None:
            raise ArchiveError("the archive was cut short: its end mark is missing")
        limit = _MAX_JSON_BYTES if info.name.endswith(".json") else _MAX_PART_BYTES
        if not info.isreg() or info.size > limit:
            raise ArchiveError(f"the member {info.name[:100]!r} is no file of an archive or too large")
        try:
            opened = self._tar.extractfile(info)
            content = opened.read() if opened else b""
        except (tarfile.TarError, EOFError) as error:
            raise ArchiveError("the archive was cut short") from error
        if info.pax_headers.get(_DIGEST) != hashlib.sha256(content).hexdigest():
            raise ArchiveError(f"the checksum of {info.name[:100]!r} does not match: the archive is damaged")
        return info.name, content


class _Whole(io.RawIOBase):
    """The same bytes, as many as tarfile asks for."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming

    def read(self, size: int = -1, /) -> bytes:
        pieces = []
        while size and (piece := self._incoming.read(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _read_head(incoming: Incoming) -> bytes:
    """Return enough of the beginning to tell whose archive it is."""
    head = b""
    while len(head) < 10:
        more = incoming.read(512)
        if not more:
            break
        head += more
    return head


def _decode(content: bytes, kind: type[_T], name: str) -> _T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise ArchiveError(f"{name} cannot be read: {error}") from error


def _to_parquet(messages: Sequence[Message]) -> bytes:
    columns = list(zip(*messages, strict=True)) if messages else [()] * len(_SCHEMA)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    out = io.BytesIO()
    table = pa.Table.from_arrays(arrays, schema=_SCHEMA)
    pq.write_table(table, out, compression="zstd", use_dictionary=["subject"])
    return out.getvalue()


def _from_parquet(content: bytes, name: str) -> Columns:
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        # A few compressed bytes may claim to be gigabytes; the claim is read before the data.
        if sum(group.total_byte_size for group in groups) > _MAX_PART_BYTES:
            raise ArchiveError(f"{name} is larger than a part may be")
        if not file.schema_arrow.equals(_SCHEMA):
            raise ArchiveError(f"{name} has other columns than a part of an archive")
        table = file.read().combine_chunks()
    except (pa.ArrowException, OSError) as error:
        raise ArchiveError(f"{name} cannot be read: {error}") from error
    if any(column.null_count for column in table.columns):
        raise ArchiveError(f"{name} has missing values")
    subject_lengths, subjects = _joined(table.column("subject"))
    header_lengths, headers = _joined(table.column("headers"))
    data_lengths, datas = _joined(table.column("data"))
    return Columns(
        table.column("seq").to_numpy(),
        table.column("ts").to_numpy(),
        subject_lengths,
        subjects,
        header_lengths,
        headers,
        data_lengths,
        datas,
    )


def _joined(column: pa.ChunkedArray) -> tuple[Lengths, bytes]:
    """Return a binary column as lengths and joined bytes."""
    lengths: list[Lengths] = []
    pieces: list[bytes] = []
    for chunk in column.chunks:
        _, offsets_buffer, data_buffer = chunk.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        lengths.append(np.diff(offsets).astype(np.uint32))
        if data_buffer is not None:
            pieces.append(data_buffer[int(offsets[0]) : int(offsets[-1])].to_pybytes())
    return (np.concatenate(lengths) if lengths else np.empty(0, np.uint32)), b"".join(pieces)
