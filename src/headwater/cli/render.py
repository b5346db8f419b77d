"""Tables, labelled rows and JSON on standard output: coloured on a terminal, not wrapped in a pipe."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import click
from rich.box import Box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

Cell = str | Text

PIPE_WIDTH = 10_000
"""The width of a pipe: large enough that no line is wrapped."""

_BELOW_TITLE = Box("├─┬┤\n│ ││\n├─┼┤\n│ ││\n├─┼┤\n├─┼┤\n│ ││\n╰─┴╯\n")
_BELOW_TITLE_ASCII = Box("+-++\n| ||\n+-++\n| ||\n+-++\n+-++\n| ||\n+-++\n", ascii=True)
_SILENT = (("",), ("", "0"))
"""Contents of columns without information: empty columns are dropped first, then columns of zeros."""


def console(file: TextIO | None = None, width: int | None = None) -> Console:
    """Return a console as wide as the terminal or COLUMNS; in a pipe it does not wrap."""
    to = file or sys.stdout
    if width is None and not to.isatty() and not os.environ.get("COLUMNS", "").isdigit():
        width = PIPE_WIDTH
    return Console(file=to, width=width, highlight=False, markup=False, emoji=False)


def show(*items: Any, to: Console | None = None) -> None:
    """Write tables and rows with an empty line between them."""
    out = to or console()
    for place, item in enumerate(items):
        if place:
            out.print()
        out.print(item)


def show_json(value: Any) -> None:
    """Write a value as indented JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


@dataclass(frozen=True)
class Column:
    """A column: its heading, whether its cells may wrap, and how early it is dropped from a narrow table.

    `gives_way` 0 is never dropped, 1 only if the column has no information. Higher values are dropped first.
    """

    heading: str
    wraps: bool = False
    gives_way: int = 0


@dataclass
class Sheet:
    """A table with its title inside the frame, fitted to the width. Dropped columns are named below it.

    rich draws the cells. The title and the widths are computed here, because rich has no title inside the
    frame, as the nats command draws it, and does not drop columns of a table that is too wide.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Write the title between the upper edge and the table."""
        kept, left_out = self._kept(options.max_width)
        widths = self._widths(kept, options.max_width)
        # The title is inside the frame, so that the table must be at least as wide as the title.
        lacking = min(len(self.title) + 4, options.max_width) - _framed(widths.values())
        if lacking > 0:
            widths[max(widths)] += lacking
        lines = console.render_lines(self._table(widths, options.ascii_only), options, pad=False)
        inner = min(_framed(widths.values()), options.max_width) - 2
        corners, edge, side = ("++", "-", "|") if options.ascii_only else ("╭╮", "─", "│")
        yield Text(corners[0] + edge * inner + corners[1])
        yield Text(side + self.title[:inner].center(inner) + side)
        for line in lines:
            yield from line
            yield Segment.line()
        if left_out:
            yield Text(f"Too narrow for: {', '.join(left_out)}", style="dim")

    def _kept(self, width: int) -> tuple[list[int], list[str]]:
        """Return the columns to show, and the headings of dropped columns that have information."""
        kept = list(range(len(self.columns)))
        may_go = [place for place in kept if self.columns[place].gives_way]
        may_go.sort(key=lambda place: -self.columns[place].gives_way)
        for silent in _SILENT:
            for place in may_go:
                if self._natural(kept) > width and place in kept and self._only_says(place, silent):
                    kept.remove(place)
        left_out = []
        for place in may_go:
            narrowest = _framed(self._heading_word(each) for each in kept)
            if narrowest > width and place in kept and self.columns[place].gives_way > 1:
                kept.remove(place)
                left_out.append(self.columns[place].heading)
        return kept, left_out

    def _only_says(self, place: int, silent: Sequence[str]) -> bool:
        return all(str(row[place]) in silent for row in self.rows)

    def _natural(self, kept: Sequence[int]) -> int:
        return _framed(self._column_width(place) for place in kept)

    def _widths(self, kept: Sequence[int], width: int) -> dict[int, int]:
        """Return the width of each column. The widest columns shrink until all fit."""
        widths = {place: self._column_width(place) for place in kept}
        wrapping = [place for place in kept if self.columns[place].wraps]
        # First shrink to whole words. If that is still too wide, break words.
        for narrowest in (self._longest_word, self._heading_word):
            least = {place: narrowest(place) for place in wrapping}
            while _framed(widths.values()) > width:
                can = [place for place in wrapping if widths[place] > least[place]]
                if not can:
                    break
                widths[max(can, key=lambda place: widths[place])] -= 1
        return widths

    def _column_width(self, place: int) -> int:
        cells = [Text(str(row[place])).cell_len for row in self.rows]
        return max([len(self.columns[place].heading), *cells])

    def _longest_word(self, place: int) -> int:
        cells = [self.columns[place].heading, *(str(row[place]) for row in self.rows)]
        return max((len(word) for cell in cells for word in cell.split()), default=1)

    def _heading_word(self, place: int) -> int:
        column = self.columns[place]
        if not column.wraps:
            return self._column_width(place)
        return max((len(word) for word in column.heading.split()), default=4)

    def _table(self, widths: dict[int, int], ascii_only: bool) -> Table:
        table = Table(
            box=_BELOW_TITLE_ASCII if ascii_only else _BELOW_TITLE,
            header_style="",
            show_header=any(column.heading for column in self.columns),
        )
        for place, width in widths.items():
            column = self.columns[place]
            table.add_column(column.heading, no_wrap=not column.wraps, overflow="fold", width=width)
        for row in self.rows:
            table.add_row(*(row[place] for place in widths))
        return table


def _framed(widths: Iterable[int]) -> int:
    """Return the width of columns with their borders."""
    return 1 + sum(width + 3 for width in widths)


@dataclass
class LabelledRows:
    """`Label: value` lines under headings, the labels of all sections aligned on the colon."""

    heading: str
    sections: list[tuple[str, list[tuple[str, Cell]]]] = field(default_factory=list)

    def section(self, title: str) -> list[tuple[str, Cell]]:
        """Begin a section and return the list of its rows."""
        rows: list[tuple[str, Cell]] = []
        self.sections.append((title, rows))
        return rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Write the sections that have rows, values wrapped to the right of the colon."""
        filled = [(title, rows) for title, rows in self.sections if rows]
        width = max((len(label) for _, rows in filled for label, _ in rows), default=0) + 2
        yield Text(self.heading, style="bold")
        for title, rows in filled:
            yield Text("")
            if title:
                yield Text(f"{title}:\n", style="bold")
            for label, value in rows:
                yield from _labelled(label, value, width, console, options)


def _labelled(
    label: str, value: Cell, width: int, console: Console, options: ConsoleOptions
) -> Iterable[Text]:
    """Yield the lines of one row. Wrapped text continues below the value, not below the label."""
    text = value if isinstance(value, Text) else Text(value)
    room = max(options.max_width - width - 1, 10)
    head = f"{label}:" if label else ""
    for line in text.wrap(console, room, overflow="fold"):
        line.rstrip()
        yield Text.assemble(head.rjust(width), " " if line else "", line) if head or line else Text("")
        head = ""
