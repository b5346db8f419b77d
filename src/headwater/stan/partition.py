"""Engines that share the channels of one cluster id, each with its own, and refuse to overlap."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Iterable, Sequence

from headwater.bus.connection import Connection
from headwater.errors import SettingsError
from headwater.model.subject import collides, matches
from headwater.wire import stan_messages as wire
from headwater.wire.frames import Frame
from headwater.wire.stan_messages import PARTITIONING, MalformedError, decode

logger = logging.getLogger(__name__)

_LENGTH = struct.Struct("<H")


def encode_names(names: Iterable[str], at_most: int) -> list[bytes]:
    """Return names, each behind its length, in as many pieces as that takes."""
    pieces = [b""]
    for name in names:
        encoded = name.encode()
        entry = _LENGTH.pack(len(encoded)) + encoded
        if pieces[-1] and len(pieces[-1]) + len(entry) > at_most:
            pieces.append(b"")
        pieces[-1] += entry
    return pieces


def decode_names(data: bytes) -> list[str]:
    """Return the names of one piece; raise MalformedError if it is none."""
    names, at = [], 0
    try:
        while at < len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size
            if at + length > len(data):
                raise MalformedError("a name that is cut off")
            names.append(data[at : at + length].decode())
            at += length
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedError(str(error)) from None
    return names


def overlap(ours: Iterable[str], theirs: Sequence[str]) -> str:
    """Return a name or pattern of ours that takes a channel which one of theirs takes too, or nothing."""
    return next((name for name in ours for other in theirs if collides(name, other)), "")


class Partition:
    """The channels of this engine, told to and compared with those of others; a sink of the bus."""

    def __init__(
        self,
        connection: Connection,
        subject: str,
        server_id: str,
        patterns: Sequence[str],
        wait_s: float,
    ) -> None:
        self.items: list[Frame] = []
        self.patterns = list(patterns)
        self._connection = connection
        self._subject = subject.encode()
        self._server_id = server_id
        self._wait_s = wait_s

    def serves(self, channel: str) -> bool:
        """Return whether a channel is ours."""
        return any(matches(channel, pattern) for pattern in self.patterns)

    async def claim(self) -> None:
        """Return once no other engine was found that claims any of our channels; raise if one does."""
        self._connection.subscribe(self._subject, self)
        answers = _Answers()
        inbox = f"_INBOX.{self._server_id}.claim".encode()
        sid = self._connection.subscribe(inbox, answers)
        for piece in encode_names(self.patterns, self._connection.max_payload - 256):
            self._connection.publish(self._subject, self._message(piece), reply=inbox)
        try:
            theirs = await asyncio.wait_for(answers.claimed, self._wait_s)
        except TimeoutError:
            return
        finally:
            self._connection.unsubscribe(sid)
        raise SettingsError(
            f"stan_partitioning: another engine serves channel {theirs} of this cluster id already"
        )

    def flush(self) -> None:
        """Answer other engines that claim channels: with one that is ours, or with nothing."""
        frames, self.items = self.items, []
        for _, reply, _, body in frames:
            try:
                message = decode(wire.CtrlMsg, body)
                if message.MsgType != PARTITIONING or message.ServerID == self._server_id:
                    continue
                found = overlap(self.patterns, decode_names(message.Data))
            except MalformedError as error:
                logger.warning("a message about partitions cannot be read: %s", error)
                continue
            if found:
                logger.error("another engine claims channels that are served here: %s", found)
            if reply:
                answer = self._message(encode_names([found], 1 << 16)[0] if found else b"")
                self._connection.publish(reply, answer)

    def _message(self, data: bytes) -> bytes:
        message = wire.CtrlMsg(MsgType=PARTITIONING, ServerID=self._server_id, Data=data)
        encoded: bytes = message.SerializeToString()
        return encoded


class _Answers:
    """Takes what other engines answer."""

    def __init__(self) -> None:
        self.items: list[Frame] = []
        self.claimed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The first channel that another engine claims."""

    def flush(self) -> None:
        """Look for a channel in what came; that nobody listens says nothing."""
        for _, _, _, body in self.items:
            try:
                names = decode_names(decode(wire.CtrlMsg, body).Data)
            except MalformedError:
                continue
            if names and not self.claimed.done():
                self.claimed.set_result(names[0])
        self.items.clear()
