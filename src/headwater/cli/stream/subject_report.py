"""`sub --report-subjects`: messages and bytes counted by subject."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing

from nats.aio.msg import Msg
from rich.live import Live

from headwater.cli.phrases import number, size
from headwater.cli.render import Column, Sheet, console, show

REFRESH_S = 0.25


class SubjectCounts:
    """Messages and bytes by subject."""

    def __init__(self) -> None:
        self._messages: Counter[str] = Counter()
        """By subject."""
        self._bytes: Counter[str] = Counter()

    def add(self, subject: str, nbytes: int) -> None:
        """Count one message."""
        self._messages[subject] += 1
        self._bytes[subject] += nbytes

    def as_json(self, top: int) -> list[dict[str, int | str]]:
        """Return the subjects with the most messages."""
        return [
            {"subject": subject, "messages": messages, "bytes": self._bytes[subject]}
            for subject, messages in self._busiest(top)
        ]

    def sheet(self, top: int) -> Sheet:
        """Return the subjects with the most messages as a table."""
        rows = [
            (subject, number(messages), size(self._bytes[subject]))
            for subject, messages in self._busiest(top)
        ]
        shown, of = number(len(rows)), number(len(self._messages))
        columns = [Column("Subject", wraps=True), Column("Messages"), Column("Bytes")]
        return Sheet(f"{shown} of {of} active subjects", columns, rows)

    def _busiest(self, top: int) -> list[tuple[str, int]]:
        return sorted(self._messages.items(), key=lambda each: (-each[1], each[0]))[:top]


async def counted_until_cancelled(
    source: AsyncGenerator[Msg, None], tally: SubjectCounts, top: int, *, live: bool
) -> None:
    """Count messages until they end or Ctrl-C; on a terminal, update the table meanwhile."""
    out = console()
    shown_at = 0.0
    with Live(console=out, auto_refresh=False, transient=True) as table:
        try:
            async with aclosing(source) as messages:
                async for message in messages:
                    tally.add(message.subject, len(message.data))
                    if live and out.is_terminal and time.monotonic() - shown_at > REFRESH_S:
                        table.update(tally.sheet(top), refresh=True)
                        shown_at = time.monotonic()
        except asyncio.CancelledError:
            pass
    if live:
        show(tally.sheet(top))
