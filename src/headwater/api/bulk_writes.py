"""The bulk writes of one account: `STREAM.WRITE.<stream>.PART`, `COMMIT`, `ABORT` and `LAST` of the API.

1. Tasks of a client send the messages of their parts in chunks. The engine checks each message and writes the
   parts to files of its own, staged for the stream.
2. The client asks for a commit. All messages are stored as one change that also records the query and the
   batch, or none is.
3. A repeated commit is answered as done.

Nothing of a write outlives the engine before its commit: after a restart the client writes the batch again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from headwater.api.open_write import LOST, OpenWrite
from headwater.api.staged_load import StagedLoad
from headwater.background_tasks import BackgroundTasks
from headwater.bus.connection import Connection
from headwater.clock import Clock
from headwater.control.domain import Domain
from headwater.errors import ApiError, DiskError, Error, api_error
from headwater.model.times import format_time
from headwater.model.written import record_name
from headwater.stream.bulk.staged_part import BulkRefusedError, StagedFile
from headwater.stream.stream import Stream
from headwater.wire.bulk_requests import (
    BulkCommit,
    BulkRequestError,
    decode_abort,
    decode_chunk,
    decode_commit,
    decode_last,
)
from headwater.wire.stream_json import Json, error_json

logger = logging.getLogger(__name__)

TYPE = "io.nats.jetstream.api.v1.stream_write_response"
MOST_WRITES = 64
"""How many writes of an account may be in progress."""
MOST_WAITING_BYTES = 256 << 20
"""How many bytes of requests may wait; a client waits for answers, so only a hostile one sends more."""
MOST_WAITING = 4096
"""How many requests may wait."""
LEAST_STAGED_BYTES = 64 << 20
"""So much may be staged for a stream, however small its `max_bytes`."""
IDLE_NS = 3600 * 1_000_000_000
"""A write without a request for so long is given up."""
SWEEP_S = 60.0

Handler = Callable[[Stream, bytes], Awaitable[Json]]


class BulkWrites:
    """Answers the requests of bulk writes."""

    def __init__(self, domain: Domain, connection: Connection, clock: Clock) -> None:
        self._domain = domain
        self._connection = connection
        self._clock = clock
        self._writes: dict[tuple[str, str], OpenWrite] = {}
        """By the name of the stream, and the client's name for the write."""
        self._verbs: dict[str, Handler] = {
            "PART": self._part,
            "COMMIT": self._commit,
            "ABORT": self._abort,
            "LAST": self._last,
        }
        """What answers each kind of request."""
        self._load = StagedLoad()
        self._waiting_bytes = 0
        self._tasks = BackgroundTasks()
        self._sweeping: asyncio.Task[None] | None = None
        """Gives up idle writes; None or done while there is none."""

    def __len__(self) -> int:
        return len(self._writes)

    def request(self, tail: str, reply: bytes, body: bytes) -> None:
        """Begin to answer a request; `tail` is its subject behind `STREAM.WRITE.`."""
        name, _, verb = tail.rpartition(".")
        handler = self._verbs.get(verb)
        if handler is None or not name or not reply:
            return
        if self._waiting_bytes + len(body) > MOST_WAITING_BYTES or len(self._tasks) >= MOST_WAITING:
            self._send(reply, {"error": error_json(api_error("insufficient_resources"))})
            return
        self._waiting_bytes += len(body)
        self._tasks.start(self._answer(handler, name, reply, body), f"write to {name}")

    async def close(self) -> None:
        """Return once accepted requests are answered and nothing is staged."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._tasks.ended()
        for key in list(self._writes):
            await self._end(key)

    async def give_up_idle(self, now_ns: int) -> int:
        """Give up the writes without a request for long, or whose stream is gone; return how many."""
        idle = [
            key
            for key, write in self._writes.items()
            if write.used_ns + IDLE_NS <= now_ns or self._domain.find(key[0]) is not write.stream
        ]
        for key in idle:
            logger.warning("stream %s: gave up the bulk write %s", *key)
            await self._end(key)
        return len(idle)

    async def _answer(self, handler: Handler, name: str, reply: bytes, body: bytes) -> None:
        try:
            members = await handler(self._domain.stream(name), body)
        except ApiError as error:
            members = {"error": error_json(error)}
        except (Error, OSError) as error:
            full = isinstance(error, DiskError) and error.full
            row = "storage_resources_exceeded" if full else "stream_general_error"
            members = {"error": error_json(api_error(row, err=str(error)))}
        except Exception:
            logger.exception("a bulk write to %s failed", name)
            row = "internal error, see the log of the engine"
            members = {"error": error_json(api_error("stream_general_error", err=row))}
        finally:
            self._waiting_bytes -= len(body)
        self._send(reply, members)

    def _send(self, reply: bytes, members: Json) -> None:
        self._connection.publish(reply, msgspec.json.encode({"type": TYPE, **members}))

    async def _part(self, stream: Stream, body: bytes) -> Json:
        chunk = decode_chunk(body)
        stream.bulk.require_writable()
        write = self._find(stream, chunk.write)
        if write is None:
            if chunk.index:
                raise BulkRefusedError(LOST.format(part=chunk.part))
            write = self._begin(stream, chunk.write)
        self._require_room(stream, len(chunk.rows))
        await write.take(chunk)
        return {"index": chunk.index}

    async def _commit(self, stream: Stream, body: bytes) -> Json:
        commit = decode_commit(body)
        if commit.created and commit.created != format_time(stream.created_ns):
            raise BulkRefusedError("the stream was deleted and re-created")
        key = stream.name, commit.write
        name = record_name(commit.query, once=commit.once)
        files = [] if stream.bulk.has(name, commit.batch) else self._files_of(stream, commit)
        stored = await stream.bulk.commit(name, commit.batch, files)
        await self._end(key)
        return {"stored": stored or 0, "duplicate": stored is None}

    async def _abort(self, stream: Stream, body: bytes) -> Json:
        await self._end((stream.name, decode_abort(body).write))
        return {"success": True}

    async def _last(self, stream: Stream, body: bytes) -> Json:
        query = decode_last(body).query
        return {"batch": stream.bulk.last(record_name(query, once=False))}

    def _files_of(self, stream: Stream, commit: BulkCommit) -> list[StagedFile]:
        """Return the files of the parts that a commit names; a batch without messages has none."""
        write = self._find(stream, commit.write)
        if write is None and commit.parts:
            raise BulkRefusedError(LOST.format(part=commit.parts[0]))
        files = write.files(commit.parts) if write is not None else []
        if sum(file.adopted.rows for file in files) != commit.messages:
            raise BulkRequestError("the parts have another number of messages")
        return files

    def _find(self, stream: Stream, name: str) -> OpenWrite | None:
        """Return the write of this name, if there is one; that of a stream which had this name ends."""
        key = stream.name, name
        write = self._writes.get(key)
        if write is not None and write.stream is not stream:
            del self._writes[key]
            self._tasks.start(write.close(), f"end a write to {stream.name}")
            return None
        if write is not None:
            write.used_ns = self._clock.steady_ns()
        return write

    def _begin(self, stream: Stream, name: str) -> OpenWrite:
        """Return a new write."""
        if len(self._writes) >= MOST_WRITES:
            raise api_error("insufficient_resources")
        write = self._writes[stream.name, name] = OpenWrite(stream, self._clock.steady_ns(), self._load)
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep(), name="give up idle writes")
        return write

    def _require_room(self, stream: Stream, size: int) -> None:
        """Raise if what is staged would not fit into the account, or into the stream."""
        free, most = stream.bulk.free_bytes, stream.config.max_bytes
        if free is not None:
            storage = stream.config.storage
            staged = sum(w.nbytes for w in self._writes.values() if w.stream.config.storage == storage)
            if staged + size > free:
                raise api_error("account_resources_exceeded")
        if most > 0:
            staged = sum(w.nbytes for w in self._writes.values() if w.stream is stream)
            if staged + size > max(most, LEAST_STAGED_BYTES):
                raise BulkRefusedError(f"the stream has a max_bytes of {most}; write smaller batches")

    async def _end(self, key: tuple[str, str]) -> None:
        write = self._writes.pop(key, None)
        if write is not None:
            await write.close()

    async def _sweep(self) -> None:
        while self._writes:
            await asyncio.sleep(SWEEP_S)
            await self.give_up_idle(self._clock.steady_ns())
