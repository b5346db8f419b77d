"""`stream graph`: a live chart of a stream's messages and of the stored and removed messages per second."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headwater.cli.client import Caller, client_command
from headwater.cli.phrases import DURATION, number
from headwater.cli.render import console
from headwater.cli.session import Json, Session
from headwater.cli.stream.streams import chosen
from headwater.model.counted import counted
from headwater.model.times import SECOND

KEPT = 240
"""Number of samples kept: more than the width of a terminal."""
_EIGHTHS = " ▁▂▃▄▅▆▇█"


@dataclass
class History:
    """The last samples of a stream's state, as counts and rates."""

    messages: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    stored: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    removed: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    _before: tuple[float, int, int] | None = None

    def note(self, at: float, state: Json) -> None:
        """Add a sample: a stream's state at a time in seconds."""
        held, last = int(state["messages"]), int(state["last_seq"])
        if self._before is not None:
            then, held_then, last_then = self._before
            seconds = max(at - then, 1e-9)
            came = max(last - last_then, 0)
            self.stored.append(came / seconds)
            self.removed.append(max(came - (held - held_then), 0) / seconds)
        self.messages.append(held)
        self._before = (at, held, last)

    def line(self) -> str:
        """Return the last sample as text."""
        stored, removed = (int(values[-1]) if values else 0 for values in (self.stored, self.removed))
        held = int(self.messages[-1])
        return f"{counted(held, 'message')}, {number(stored)} stored/s, {number(removed)} removed/s"


def plot(values: Sequence[float], width: int, height: int) -> list[str]:
    """Return the last values as a bar chart, scaled to the highest, with numbers on the left."""
    shown = list(values)[-max(width - 12, 1) :]
    top = max([1.0, *shown])
    eighths = [round(value / top * height * 8) for value in shown]
    lines = []
    for row in reversed(range(height)):
        label = number(round(top * (row + 1) / height)) if row in (height - 1, height // 2 - 1) else ""
        bar = "".join(_EIGHTHS[min(max(filled - row * 8, 0), 8)] for filled in eighths)
        lines.append(f"{label:>10} │{bar}".rstrip())
    return lines


@click.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--interval", type=DURATION, default="1s", help="Time between samples.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many samples.")
@client_command
def graph(caller: Caller, name: str | None, interval: int, count: int | None) -> None:
    """Chart a stream's messages and the messages stored and removed per second, until Ctrl-C.

    Without a terminal, one line is written per sample.
    """
    which = chosen(caller, name)
    try:
        caller.run(lambda session: _look(session, which, max(interval / SECOND, 0.05), count))
    except KeyboardInterrupt:
        return


async def _look(session: Session, stream: str, seconds: float, count: int | None) -> None:
    out, history, looks = console(), History(), 0
    live = Live(console=out, auto_refresh=False, screen=True) if out.is_terminal else None
    if live:
        live.start()
    try:
        while count is None or looks < count:
            if looks:
                await asyncio.sleep(seconds)
            history.note(time.monotonic(), (await session.stream_info(stream))["state"])
            looks += 1
            if live:
                live.update(_screen(stream, history, out), refresh=True)
            else:
                click.echo(history.line())
    finally:
        if live:
            live.stop()


def _screen(stream: str, history: History, out: Console) -> Group:
    height = max((out.size.height - 9) // 3, 2)
    parts: list[Text] = [Text(f"Stream {stream}: {history.line()}", "bold")]
    for title, values in (
        ("Messages Stored", history.messages),
        ("Messages Removed/second", history.removed),
        ("Messages Stored/second", history.stored),
    ):
        parts += [Text(f"\n{title}"), Text("\n".join(plot(list(values), out.width, height)))]
    return Group(*parts)
