"""Writes an engine's history to a stream of its own, which is then a table like any other."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence

import msgspec

from headwater.errors import Error
from headwater.model.stream import StreamConfig
from headwater.model.times import SECOND
from headwater.monitor.engine_history import ENGINE_COLUMNS, STREAM_COLUMNS
from headwater.monitor.served_account import ServedAccount
from headwater.stream.stream import Stream

logger = logging.getLogger(__name__)

SUBJECT = "headwater.history"
KEPT_NS = 30 * 24 * 3600 * SECOND
"""How long a stream that is created here keeps its messages; an existing one keeps its own limits."""
MOST_PER_WRITE = 100
"""How many streams are written at one time, those that changed."""
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


class HistoryStream:
    """Publishes samples to the stream of this name, in the first account that is served."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._last: Mapping[str, tuple[float, ...]] = {}
        """By account and stream, the numbers that were written last."""

    async def write(
        self,
        served: Sequence[ServedAccount],
        engine: Sequence[float],
        streams: Mapping[str, tuple[float, ...]],
    ) -> None:
        """Publish one sample of the engine and of the streams that changed; log what prevents it."""
        account = min(served, key=lambda each: each.account, default=None)
        if account is None:
            return
        try:
            stream = await self._open(account)
        except Error as error:
            logger.warning("cannot write the history to stream %s: %s", self.name, error)
            return
        own = f"{account.account}/{self.name}"
        changed = [
            name for name, numbers in streams.items() if name != own and self._last.get(name) != numbers
        ]
        self._last = streams
        prefix = f"{SUBJECT}.{_token(account.server_name)}"
        frames = [_frame(f"{prefix}.engine", dict(zip(ENGINE_COLUMNS, engine, strict=True)))]
        for name in changed[:MOST_PER_WRITE]:
            values = dict(zip(STREAM_COLUMNS, (engine[0], *streams[name]), strict=True))
            of_account, _, of_stream = name.partition("/")
            frames.append(
                _frame(
                    f"{prefix}.stream.{_token(of_account)}.{_token(of_stream)}", {"stream": name, **values}
                )
            )
        stream.publishing.offer(frames)

    async def _open(self, account: ServedAccount) -> Stream:
        """Return the stream, created if missing; an error says why it cannot be used."""
        if self.name in account.domain.names():
            stream = account.domain.stream(self.name)
            if f"{SUBJECT}.>" not in stream.config.subjects:
                raise Error(f"its subjects do not include {SUBJECT}.>; name another stream, or add them")
            return stream
        config = StreamConfig(
            name=self.name,
            subjects=(f"{SUBJECT}.>",),
            max_age=KEPT_NS,
            description="The history of engines, written by headwater serve --history-stream.",
        )
        stream, _ = await account.domain.create_stream(config)
        return stream


def _frame(subject: str, values: Mapping[str, float | str]) -> tuple[bytes, bytes, bytes, bytes]:
    known = {
        name: value for name, value in values.items() if not (isinstance(value, float) and math.isnan(value))
    }
    return subject.encode(), b"", b"", msgspec.json.encode(known)


def _token(name: str) -> str:
    """Return a name as one token of a subject."""
    return _UNFIT.sub("_", name) or "_"
