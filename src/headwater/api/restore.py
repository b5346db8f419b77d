"""Creating a stream from an archive that a client sends in chunks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from headwater.api.archived_consumers import checked
from headwater.api.context import ApiContext
from headwater.api.request import Request
from headwater.api.stream_info import stream_info
from headwater.control.restored_consumer import RestoredConsumer
from headwater.errors import ApiError, Error, api_error
from headwater.model.columns import Columns
from headwater.model.cursor import Cursor
from headwater.model.stream import StreamConfig
from headwater.model.unique import unique_id
from headwater.stream.copied_cursors import copied_in
from headwater.stream.stream import Stream
from headwater.table.archive import ArchiveReader
from headwater.wire.frames import Frame
from headwater.wire.stream_json import Json, decode_config, error_json

logger = logging.getLogger(__name__)
_TYPE = "io.nats.jetstream.api.v1.stream_create_response"
_MAX_WAITING = 256
_MAX_WAITING_BYTES = 64 << 20
_T = TypeVar("_T")


class StalledError(Error):
    """The client sends no more chunks, or more than allowed."""


class _Body(msgspec.Struct):
    config: msgspec.Raw = msgspec.Raw(b"{}")


async def begin(context: ApiContext, request: Request) -> Json:
    """Answer with the subject for the chunks."""
    config = _config(request)
    context.domain.check_restore(config)
    restore = Restore(context, request, config)
    restore.listen()
    try:
        context.transfers.start(f"restore {config.name}", restore.run())
    except ApiError:
        restore.stop_listening()
        raise
    return {"deliver_subject": restore.subject}


def _config(request: Request) -> StreamConfig:
    """Return the config in the request; its name defaults to the one in the subject."""
    anything: Callable[[Any, str], Any] = lambda value, path: value  # noqa: E731
    request.decode({"config": anything, "state": anything}, "JSApiStreamRestoreRequest")
    try:
        body = msgspec.json.decode(request.body, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise api_error("invalid_json", err=str(error)) from None
    config, _ = decode_config(bytes(body.config))
    if not config.name:
        config = msgspec.structs.replace(config, name=request.stream)
    if config.name != request.stream:
        raise api_error("stream_mismatch")
    return config


class Restore:
    """One archive being received; the sink of its chunks.

    A chunk is acknowledged when the archive reader takes it, so a client that waits for the answer to each
    chunk is never ahead of us. The empty chunk that ends the transfer is answered with the stream.
    """

    def __init__(self, context: ApiContext, request: Request, config: StreamConfig) -> None:
        self.items: list[Frame] = []
        self.subject = f"$JS.SNAPSHOT.RESTORE.{config.name}.{unique_id()}"
        self.received = 0
        """How many bytes have arrived."""
        self._context = context
        self._request = request
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[Frame] = asyncio.Queue(_MAX_WAITING)
        self._waiting_bytes = 0
        """How many bytes of chunks wait for the archive reader."""
        self._overrun = self._over = False
        """Whether the client sent more than it may, and whether the transfer has ended."""
        self._end_reply: bytes | None = None
        """The reply subject of the empty chunk, once it has arrived."""
        self._sid = b""
        self._consumers: Sequence[RestoredConsumer] = ()
        """The consumers in the archive, once it was read."""

    def listen(self) -> None:
        """Accept chunks from now on."""
        self._sid = self._context.connection.subscribe(self.subject.encode(), self)

    def stop_listening(self) -> None:
        """Accept no more chunks."""
        self._context.connection.unsubscribe(self._sid)

    def flush(self) -> None:
        """Queue the chunks that have arrived; a client that does not wait for answers overruns the queue."""
        for frame in self.items:
            self._waiting_bytes += len(frame[3])
            if self._chunks.full() or self._waiting_bytes > _MAX_WAITING_BYTES:
                self._overrun = True
                break
            self._chunks.put_nowait(frame)
        self.items.clear()

    async def run(self) -> None:
        """Create the stream, and answer the end of the transfer with it or with the error."""
        context = self._context
        start_ns = context.clock.now_ns()
        context.advisories.restore_begun(self._request)
        try:
            answer = await self._restore()
            await self._answer_end(answer)
        except (StalledError, TimeoutError) as error:
            logger.warning("gave up the restore of stream %r: %s", self._config.name, error)
        finally:
            self._end_reading()
            self.stop_listening()
            context.advisories.restore_ended(self._request, start_ns, self.received)

    def _end_reading(self) -> None:
        """Release a thread that still waits for a chunk."""
        self._over = True
        if self._chunks.empty():
            self._chunks.put_nowait((b"", b"", b"", b""))

    async def _restore(self) -> Json:
        """Return the final answer: the stream, or the error."""
        name = self._config.name
        try:
            stream = await self._context.domain.restore_stream(self._config, self._fill, self._declare)
        except ApiError as error:
            return {"type": _TYPE, "error": error_json(error)}
        except StalledError:
            raise
        except Error as error:
            logger.warning("the restore of stream %r failed: %s", name, error)
            return {"type": _TYPE, "error": error_json(api_error("stream_restore", err=str(error)))}
        except Exception:
            logger.exception("the restore of stream %r failed", name)
            failed = api_error("stream_restore", err="internal error, see the log of the engine")
            return {"type": _TYPE, "error": error_json(failed)}
        self._context.consumers.add_restored(stream, self._consumers)
        self._context.advisories.stream_action(name, "create")
        return {"type": _TYPE, **await stream_info(self._context, stream, domain=False)}

    async def _fill(self, stream: Stream) -> None:
        """Write the archive's messages to the stream."""
        reader = await self._in_thread(lambda: ArchiveReader(self))
        parts, copied = reader.parts(), dict[str, Cursor]()
        while (part := await self._in_thread(lambda: next(parts, None))) is not None:
            await stream.publishing.load(part)
            if self._config.sources:
                copied |= copied_in(part)
        await stream.publishing.load(_NOTHING, last_seq=reader.manifest.last_seq)
        await self._resume(stream, copied)
        if reader.manifest.queries and not self._config.sealed:
            await stream.bulk.restore(reader.manifest.queries)
        if reader.consumers:
            self._consumers = checked(reader.consumers, stream, self._context.clock.now_ns())

    async def _resume(self, stream: Stream, copied: Mapping[str, Cursor]) -> None:
        """Have each source continue behind its last message in the archive, and copy none of them again."""
        if self._config.sealed:
            return
        for name in {source.index_name for source in self._config.sources} & copied.keys():
            await stream.replica.pass_over(name, b"", copied[name].encode(), {})

    async def _declare(self, stream: Stream) -> None:
        """Add the archive's consumers to the catalog."""
        if self._consumers:
            await self._context.consumers.declare_restored(stream, self._consumers)

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await self._loop.run_in_executor(self._context.transfers.executor, call)

    def read(self, size: int = -1, /) -> bytes:
        """Return the next chunk, of any size; runs in a thread of the transfers."""
        return asyncio.run_coroutine_threadsafe(self._take(), self._loop).result()

    async def _take(self) -> bytes:
        """Return the next chunk and acknowledge it; empty at the end of the transfer."""
        if self._end_reply is not None or self._over:
            return b""
        frame = await self._next()
        if not frame[3]:
            self._end_reply = frame[1]
            return b""
        self._context.connection.publish(frame[1], b"")
        return frame[3]

    async def _next(self) -> Frame:
        """Return the next frame; raise an error if the client takes too long."""
        if self._overrun:
            raise StalledError("the client sent too many chunks without waiting for answers")
        try:
            async with asyncio.timeout(self._context.transfers.timeouts.chunk_s):
                frame = await self._chunks.get()
        except TimeoutError:
            raise StalledError("the client sends no more chunks") from None
        if self._over:
            raise StalledError("the transfer is over")
        if not frame[1]:
            raise StalledError("each chunk needs a reply subject")
        self._waiting_bytes -= len(frame[3])
        self.received += len(frame[3])
        return frame

    async def _answer_end(self, answer: Json) -> None:
        """Answer the empty chunk; after an error answer the next chunk, so that the client stops."""
        while self._end_reply is None:
            frame = await self._next()
            if not frame[3] or "error" in answer:
                self._end_reply = frame[1]
            else:
                self._context.connection.publish(frame[1], b"")
        self._context.connection.publish(self._end_reply, msgspec.json.encode(answer))


_NUMBERS, _LENGTHS = np.empty(0, np.int64), np.empty(0, np.uint32)
_NOTHING = Columns(_NUMBERS, _NUMBERS, _LENGTHS, b"", _LENGTHS, b"", _LENGTHS, b"")
