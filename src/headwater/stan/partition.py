"""Partitioning: engines that divide the channels of one cluster id and refuse to overlap."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from headwater.bus.connection import Connection
from headwater.errors import SettingsError
from headwater.model.subject import collides, matches
from headwater.wire import stan_messages as wire
from headwater.wire.frames import Frame
from headwater.wire.stan_messages import PARTITIONING, MalformedError, decode

logger = logging.getLogger(__name__)

AGAIN_S = 5.0
"""How often a serving engine checks whether another one claims its channels."""
CLAIMING, SERVING = "claiming", "serving"
_LENGTH = struct.Struct("<H")


def encode_names(names: Iterable[str], at_most: int) -> list[bytes]:
    """Return names, each prefixed by its length, in one or more pieces."""
    pieces = [b""]
    for name in names:
        encoded = name.encode()
        entry = _LENGTH.pack(len(encoded)) + encoded
        if pieces[-1] and len(pieces[-1]) + len(entry) > at_most:
            pieces.append(b"")
        pieces[-1] += entry
    return pieces


def decode_names(data: bytes) -> list[str]:
    """Return the names of one piece; raise MalformedError if it is invalid."""
    names, at = [], 0
    try:
        while at < len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size
            if at + length > len(data):
                raise MalformedError("a name is truncated")
            names.append(data[at : at + length].decode())
            at += length
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedError(str(error)) from None
    return names


def overlap(ours: Iterable[str], theirs: Sequence[str]) -> str:
    """Return one of our names or patterns that overlaps with one of theirs, or ""."""
    return next((name for name in ours for other in theirs if collides(name, other)), "")


def gives_way(server_id: str, serves: bool, other_id: str, other_state: str) -> bool:
    """Return whether this engine must stop if another one claims the same channel.

    An engine that serves already stays. If both or neither serve, for example after a network partition, the
    ids decide, so that both engines reach the same decision. An original NATS Streaming server sends no state
    and expects others to stop.
    """
    if not other_state:
        return True
    if serves != (other_state == SERVING):
        return not serves
    return server_id > other_id


class Partition:
    """Announces this engine's channels and compares them with those of others; a sink of the bus."""

    def __init__(
        self,
        connection: Connection,
        subject: str,
        server_id: str,
        patterns: Sequence[str],
        wait_s: float,
        again_s: float = AGAIN_S,
    ) -> None:
        self.items: list[Frame] = []
        self.patterns = list(patterns)
        self._connection = connection
        self._subject = subject.encode()
        self._inbox = f"_INBOX.{server_id}.claim".encode()
        self._server_id = server_id
        self._wait_s = wait_s
        self._again_s = again_s
        self._state = CLAIMING
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Set to the channel that another engine takes over."""

    def serves(self, channel: str) -> bool:
        """Return whether this engine serves a channel."""
        return any(matches(channel, pattern) for pattern in self.patterns)

    async def claim(self) -> None:
        """Return if no other engine claims any of this engine's channels; raise otherwise."""
        self._connection.subscribe(self._subject, self)
        self._connection.subscribe(self._inbox, _Answers(self._answered))
        await self._look(self._wait_s)
        self._state = SERVING

    async def keep(self) -> None:
        """Check periodically for other engines, which a repaired link may reveal; raise if this must stop."""
        while True:
            await self._look(self._again_s)

    async def _look(self, wait_s: float) -> None:
        """Announce this engine's channels, and raise if an answer says that it must stop."""
        for piece in encode_names(self.patterns, self._connection.max_payload - 256):
            self._connection.publish(self._subject, self._message(piece), reply=self._inbox)
        await asyncio.wait({self._lost}, timeout=wait_s)
        if self._lost.done():
            theirs = self._lost.result()
            raise SettingsError(
                f"stan_partitioning: another engine serves channel {theirs} of this cluster id already"
            )

    def flush(self) -> None:
        """Answer the announcements of other engines: with an overlapping channel, or with nothing."""
        frames, self.items = self.items, []
        for _, reply, _, body in frames:
            try:
                message = decode(wire.CtrlMsg, body)
                if message.MsgType != PARTITIONING or message.ServerID == self._server_id:
                    continue
                found = overlap(self.patterns, decode_names(message.Data))
            except MalformedError as error:
                logger.warning("ignored an invalid partitioning message: %s", error)
                continue
            if reply:
                self._connection.publish(reply, self._message(found.encode()))
            if found:
                logger.error("another engine claims a channel of this engine: %s", found)
                # An original server that claims a channel stops when it gets an answer.
                if message.RefID:
                    self._meet(message, found)

    def _answered(self, message: Any) -> None:
        """Handle an engine's answer to our announcement: an overlapping channel, or nothing."""
        if message.Data:
            self._meet(message, message.Data.decode(errors="replace"))

    def _meet(self, message: Any, channel: str) -> None:
        serves = self._state == SERVING
        if not self._lost.done() and gives_way(self._server_id, serves, message.ServerID, message.RefID):
            self._lost.set_result(channel)

    def _message(self, data: bytes) -> bytes:
        message = wire.CtrlMsg(MsgType=PARTITIONING, ServerID=self._server_id, Data=data, RefID=self._state)
        encoded: bytes = message.SerializeToString()
        return encoded


class _Answers:
    """The sink for answers of other engines."""

    def __init__(self, on_answer: Callable[[Any], None]) -> None:
        self.items: list[Frame] = []
        self._on_answer = on_answer
        """Called with each decoded `CtrlMsg`."""

    def flush(self) -> None:
        """Forward answers; a no-responders status is ignored."""
        frames, self.items = self.items, []
        for _, _, _, body in frames:
            with suppress(MalformedError):
                self._on_answer(decode(wire.CtrlMsg, body))
