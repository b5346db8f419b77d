"""A bulk write that is in progress: its parts, each of which takes its chunks in order."""

from __future__ import annotations

import asyncio

from headwater.api.staged_load import NOTHING, PartLoad, StagedLoad
from headwater.errors import Error
from headwater.stream.bulk.staged_part import BulkRefusedError, StagedFile, StagedPart
from headwater.stream.stream import Stream
from headwater.wire.bulk_requests import MOST_PARTS, PartChunk

LOST = "the engine does not have part {part!r} of this write; it was restarted, or the write was given up"


class OpenPart:
    """One part: a file that is being written, or a finished one."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        """Held while a chunk is written; waiting chunks follow in the order of their arrival."""
        self.staged: StagedPart | None = None
        """The file that is being written."""
        self.file: StagedFile | None = None
        """The finished file."""
        self.next_index = 0
        """The number of the chunk to come."""
        self.failed = ""
        """Why the part takes no more chunks; empty if it does."""
        self.counted = NOTHING
        """What the account has counted of the part."""

    @property
    def load(self) -> PartLoad:
        """Return what the part takes."""
        if self.file is not None:
            return PartLoad(1, 0, len(self.file.adopted.subjects))
        if self.staged is not None:
            return PartLoad(1, 1, self.staged.subject_count, self.staged.held_bytes)
        return PartLoad(1, 0 if self.failed else 1)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the messages so far."""
        if self.file is not None:
            return self.file.adopted.payload_bytes
        return self.staged.nbytes if self.staged is not None else 0


class OpenWrite:
    """The parts of one write to one stream."""

    def __init__(self, stream: Stream, now_ns: int, load: StagedLoad) -> None:
        self.stream = stream
        self._load = load
        """Counts what all writes of the account take."""
        self.used_ns = now_ns
        """When the last request arrived."""
        self._parts: dict[str, OpenPart] = {}
        """By the client's names for them."""

    @property
    def nbytes(self) -> int:
        """Return the bytes of all messages so far."""
        return sum(part.nbytes for part in self._parts.values())

    async def take(self, chunk: PartChunk) -> None:
        """Write a chunk of a part; a chunk that arrives twice is written once."""
        part = self._parts.get(chunk.part)
        self._load.require_room(is_new=part is None)
        if part is None:
            if chunk.index:
                raise BulkRefusedError(LOST.format(part=chunk.part))
            if len(self._parts) >= MOST_PARTS:
                raise BulkRefusedError(f"a write has at most {MOST_PARTS} parts")
            part = self._parts[chunk.part] = OpenPart()
            self._count(part, part.load)
        async with part.lock:
            if part.failed:
                raise BulkRefusedError(part.failed)
            if part.next_index and chunk.index == part.next_index - 1:
                return
            if chunk.index != part.next_index or part.file is not None:
                raise BulkRefusedError(f"chunk {chunk.index} of part {chunk.part!r} is not the next one")
            try:
                await self._write(part, chunk)
            except BaseException as error:
                part.failed = str(error) or type(error).__name__
                await self._abandon(part)
                raise
            finally:
                self._count(part, part.load)

    def _count(self, part: OpenPart, load: PartLoad) -> None:
        """Have the account count what a part takes now."""
        self._load.change(part.counted, load)
        part.counted = load

    async def _write(self, part: OpenPart, chunk: PartChunk) -> None:
        bulk = self.stream.bulk
        if part.staged is None:
            part.staged = await bulk.begin()
        await bulk.append(part.staged, chunk.rows, at_once=self._load.is_heavy)
        if chunk.is_last:
            part.file = await bulk.finish(part.staged)
            part.staged = None
        part.next_index += 1

    def files(self, names: list[str]) -> list[StagedFile]:
        """Return the finished files of these parts in the order of the names."""
        found: list[StagedFile] = []
        for name in names:
            part = self._parts.get(name)
            if part is None or part.file is None:
                raise BulkRefusedError(LOST.format(part=name))
            found.append(part.file)
        return found

    async def close(self) -> None:
        """Remove everything that is staged and that the log does not name."""
        for part in list(self._parts.values()):
            async with part.lock:
                part.failed = part.failed or "the write has ended"
                await self._abandon(part)
                self._count(part, NOTHING)
        self._parts.clear()

    async def _abandon(self, part: OpenPart) -> None:
        bulk, staged, file = self.stream.bulk, part.staged, part.file
        part.staged = part.file = None
        try:
            if staged is not None:
                await bulk.abandon(staged)
            if file is not None:
                await bulk.discard([file])
        except (Error, OSError, RuntimeError):
            pass  # the stream was closed: its next open removes what is staged
