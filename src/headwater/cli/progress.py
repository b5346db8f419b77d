"""Progress of long operations: a bar with rate and time left on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from headwater.cli.phrases import duration, number
from headwater.model.times import SECOND

LINE_SECONDS = 2.0
"""Seconds between two lines of progress without a terminal."""


def progress_text(done: int, total: int, seconds: float, say: Callable[[int], str] = number) -> str:
    """Return the progress as text: `45%, 12 MiB of 27 MiB, 5.0 MiB/s, 3s left`."""
    rate = done / seconds if seconds > 0 else 0.0
    said = [f"{say(done)} of {say(total)}" if total else say(done), f"{say(int(rate))}/s"]
    if total:
        said.insert(0, f"{min(done / total, 1.0):.0%}")
        if rate and done < total:
            said.append(f"{duration(_whole_seconds((total - done) / rate))} left")
    return ", ".join(said)


class Meter:
    """Shows the progress of one operation. A total of 0 means that the total is unknown."""

    def __init__(
        self,
        what: str,
        total: int = 0,
        *,
        say: Callable[[int], str] = number,
        shown: bool = True,
        file: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._say = say
        """Formats an amount, such as a number of messages or of bytes."""
        self._shown = shown
        self._file = file or sys.stderr
        self._clock = clock
        """Returns seconds of a monotonic clock."""
        self._began = self._said = clock()
        self._written: tuple[int, int] | None = None
        """What the last plain line said: done and total."""
        self._bar: Progress | None = None
        """None where the output is no terminal."""

    def __enter__(self) -> Meter:
        if self._shown and self._file.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[progress]}"),
                console=Console(file=self._file),
                transient=True,
            )
            self._bar.add_task(self.what, total=self.total or None, progress="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._shown and kind is None and self._written != (self.done, self.total) != (0, 0):
            self._line()

    def advance(self, by: int) -> None:
        """Add to the amount done."""
        self.reach(self.done + by)

    def reach(self, done: int) -> None:
        """Set the amount done."""
        self.done = done
        # A total may be an estimate.
        self.total = max(self.total, done) if self.total else 0
        now = self._clock()
        if self._bar is not None:
            said = progress_text(done, self.total, now - self._began, self._say)
            self._bar.update(self._bar.tasks[0].id, completed=done, total=self.total or None, progress=said)
        elif self._shown and now - self._said >= LINE_SECONDS:
            self._said = now
            self._line()

    def say(self, text: str) -> None:
        """Write a line above the bar."""
        line = f"{self.what}: {text}"
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        elif self._shown:
            print(line, file=self._file, flush=True)

    def finish(self) -> None:
        """Set the total to the amount done."""
        self.total = self.done

    def _line(self) -> None:
        seconds = self._clock() - self._began
        self._written = (self.done, self.total)
        print(
            f"{self.what}: {progress_text(self.done, self.total, seconds, self._say)}",
            file=self._file,
            flush=True,
        )


def _whole_seconds(seconds: float) -> int:
    return max(round(seconds), 1) * SECOND
