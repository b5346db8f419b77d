"""The archive of a stream: a tar of a manifest, the messages as Parquet parts, consumers, and an end mark.

`docs/internals/archive.md` describes its content. Writer and reader hold one part in memory, never a stream.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from headwater.model.columns import Buffer, Columns
from headwater.model.message import Message
from headwater.model.stream import MAX_SEQUENCE
from headwater.table.archive_part import MAX_BYTES, ArchiveError, read_part, write_part
from headwater.wire.s2_frames import FOREIGN, IDENTIFIER, Incoming, Unframed, framed

_T = TypeVar("_T")

FORMAT = "headwater-archive"
VERSION = 2
WITHOUT_CONSUMERS = 1
"""The version of an archive that holds no consumers, which older releases read."""
PART_MESSAGES = 65_536
PART_BYTES = 8 << 20
_MAX_JSON_BYTES = 64 << 20
_MAX_GAP = 1 << 36
"""Sequences that an archive may leave out: the ledger notes each, in runs of 65,536."""
_MAX_CONSUMERS_BYTES = 256 << 20
_CONSUMER = "consumers/"
_DIGEST = "HEADWATER.sha256"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first member: what the archive holds. Sequences without a message are the stream's gaps."""

    format: str = FORMAT
    version: int = WITHOUT_CONSUMERS
    config: msgspec.Raw
    created_ns: int
    first_seq: int
    last_seq: int
    last_ts: int
    messages: int
    queries: dict[str, bytes] | msgspec.UnsetType = msgspec.UNSET
    """The record of each query that wrote in bulk (`model/written`); older releases ignore it."""


class EndMark(msgspec.Struct, frozen=True, kw_only=True):
    """The last member: an archive without it was cut short."""

    parts: int
    messages: int
    consumers: int = 0


class ArchivedConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer: its config as the API shows it, and its whole state (`delivery/change`)."""

    name: str
    config: msgspec.Raw
    created_ns: int
    state: bytes


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
        self._consumers = 0

    def begin(self, manifest: Manifest) -> bytes:
        """Return the bytes of the manifest."""
        return IDENTIFIER + self._member("manifest.json", msgspec.json.encode(manifest))

    def part(self, messages: Sequence[Message]) -> bytes:
        """Return the bytes of one part; its messages follow those of the part before."""
        self._parts += 1
        self._messages += len(messages)
        return self._member(f"messages/{self._parts:08}.parquet", write_part(messages))

    def consumer(self, consumer: ArchivedConsumer) -> bytes:
        """Return the bytes of a consumer; they follow those of all parts."""
        self._consumers += 1
        return self._member(f"{_CONSUMER}{self._consumers:08}.json", msgspec.json.encode(consumer))

    def end(self) -> bytes:
        """Return the bytes that complete the archive."""
        mark = EndMark(parts=self._parts, messages=self._messages, consumers=self._consumers)
        last = self._member("end.json", msgspec.json.encode(mark))
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
            raise ArchiveError("this is not an archive of Headwater")
        frames = Unframed(incoming, head[len(IDENTIFIER) :])
        try:
            self._tar = tarfile.open(mode="r|", fileobj=_Whole(frames))  # noqa: SIM115
        except (tarfile.TarError, EOFError) as error:
            if frames.is_foreign:
                raise ArchiveError(
                    "this is an archive of nats-server, whose files Headwater does not read; "
                    "restore it on a nats-server and mirror or source that stream here"
                ) from error
            raise ArchiveError("this is not an archive of Headwater") from error
        self.manifest = self._manifest()
        self.consumers: list[ArchivedConsumer] = []
        """The consumers after the parts; complete when `parts` has ended."""
        self._consumers_bytes = 0

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
        if not 0 <= manifest.first_seq <= manifest.last_seq + 1 or manifest.last_seq > MAX_SEQUENCE:
            raise ArchiveError("the manifest's sequences are not those of a stream")
        return manifest

    def parts(self) -> Iterator[Columns]:
        """Yield the messages in ascending sequence; return only when the end mark agrees with them."""
        parts = messages = gap = 0
        last_seq = self.manifest.first_seq - 1
        while True:
            name, content = self._next()
            if name == "end.json":
                break
            if name.startswith(_CONSUMER):
                self._keep_consumer(name, content)
                continue
            columns = read_part(content, name)
            if len(columns):
                if columns.seqs[0] <= last_seq or (np.diff(columns.seqs) <= 0).any():
                    raise ArchiveError(f"the sequences of {name} do not ascend")
                gap += int(columns.seqs[-1]) - last_seq - len(columns)
                last_seq = int(columns.seqs[-1])
            if gap > _MAX_GAP:
                raise ArchiveError(f"{name} leaves out more sequences than a stream can record")
            if last_seq > self.manifest.last_seq:
                raise ArchiveError(f"{name} goes beyond the manifest's last sequence")
            parts += 1
            messages += len(columns)
            yield columns
        read = EndMark(parts=parts, messages=messages, consumers=len(self.consumers))
        if _decode(content, EndMark, name) != read:
            raise ArchiveError(
                f"the end mark does not fit {parts} parts with {messages} messages "
                f"and {len(self.consumers)} consumers"
            )

    def _keep_consumer(self, name: str, content: bytes) -> None:
        self._consumers_bytes += len(content)
        if self._consumers_bytes > _MAX_CONSUMERS_BYTES:
            raise ArchiveError("the archive's consumers exceed their size limit")
        self.consumers.append(_decode(content, ArchivedConsumer, name))

    def _next(self) -> tuple[str, bytes]:
        """Return the next member, checked against its digest."""
        try:
            info = self._tar.next()
        except (tarfile.TarError, EOFError) as error:
            raise ArchiveError("the archive is damaged or was cut short") from error
        if info is None:
            raise ArchiveError("the archive was cut short: its end mark is missing")
        limit = _MAX_JSON_BYTES if info.name.endswith(".json") else MAX_BYTES
        if not info.isreg() or info.size > limit:
            raise ArchiveError(f"the member {info.name[:100]!r} is not a file of an archive or is too large")
        try:
            opened = self._tar.extractfile(info)
            content = opened.read() if opened else b""
        except (tarfile.TarError, EOFError) as error:
            raise ArchiveError("the archive was cut short") from error
        if info.pax_headers.get(_DIGEST) != hashlib.sha256(content).hexdigest():
            raise ArchiveError(f"the checksum of {info.name[:100]!r} does not match: the archive is damaged")
        return info.name, content


class _Whole(io.RawIOBase):
    """A stream that returns as many bytes as tarfile asks for."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming

    def read(self, size: int = -1, /) -> bytes:
        pieces = []
        while size and (piece := self._incoming.read(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _read_head(incoming: Incoming) -> bytes:
    """Return enough of the beginning to recognize which program wrote the archive."""
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
