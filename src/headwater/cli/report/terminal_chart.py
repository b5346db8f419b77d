"""Charts as text of a terminal, as wide as it is: columns over time, and bars."""

from __future__ import annotations

from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from headwater.cli.report.chart import BarChart, Chart, TimeChart, Unit, said

PIPE_WIDTH = 80
"""The width of a chart where there is no terminal."""
HEIGHT = 10
_NARROWEST = 40
_WIDEST = 160
_LABEL_GAP = 12
_WIDEST_COLUMN = 12
_UPWARDS = " ▁▂▃▄▅▆▇█"
_RIGHTWARDS = " ▏▎▍▌▋▊▉█"
_ASCII = " ....:::#"
_STYLES: dict[Unit, str] = {"messages": "cyan", "bytes": "magenta"}


class TerminalChart:
    """A chart that rich prints."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Write the title and the lines."""
        yield Text(_headline(self._chart), style="bold")
        width = min(max(options.max_width, _NARROWEST), _WIDEST)
        if isinstance(self._chart, BarChart):
            yield from bar_lines(self._chart, width, ascii_only=options.ascii_only)
        else:
            yield from time_lines(self._chart, width, ascii_only=options.ascii_only)


def _headline(chart: Chart) -> str:
    """Return the title, and what the labels of the time axis leave out."""
    if isinstance(chart, BarChart) or not chart.points:
        return chart.title
    first, last = chart.points[0][0], chart.points[-1][0]
    day = f"{first:%Y-%m-%d} " if first.date() == last.date() else ""
    return f"{chart.title} ({day}UTC)"


def room_of(width: int) -> int:
    """Return how many steps a chart of this width can show."""
    return min(max(width, _NARROWEST), _WIDEST) - _LABEL_GAP


def time_lines(chart: TimeChart, width: int, *, ascii_only: bool = False) -> list[Text]:
    """Return the columns, the highest line first, and the time axis below them."""
    labels = [said(chart.highest, chart.unit), said(chart.highest / 2, chart.unit), "0"]
    margin = max(map(len, labels))
    heights = _heights(chart, width - margin - 2)
    blocks, style = _ASCII if ascii_only else _UPWARDS, _STYLES[chart.unit]
    side, corner, edge = ("|", "+", "-") if ascii_only else ("│", "└", "─")
    lines = []
    for row in range(HEIGHT - 1, -1, -1):
        label = labels[0] if row == HEIGHT - 1 else labels[1] if row == HEIGHT // 2 - 1 else ""
        cells = "".join(blocks[min(max(height - row * 8, 0), 8)] for height in heights)
        lines.append(Text.assemble(f"{label:>{margin}} {side}", (cells.rstrip(), style)))
    lines.append(Text(f"{labels[2]:>{margin}} {corner}{edge * len(heights)}"))
    times = [at for at, _ in chart.points]
    return [*lines, Text(" " * (margin + 2) + time_axis(times, chart.step_s, len(heights)))]


def _heights(chart: TimeChart, room: int) -> list[int]:
    """Return the height of each character in eighths of a line; a value above 0 is never invisible."""
    count = max(len(chart.points), 1)
    each = min(max(room // count, 1), _WIDEST_COLUMN)
    has_gap = not chart.is_area and each > 2
    heights = []
    for _, value in chart.points:
        eighths = round(value / chart.highest * HEIGHT * 8) if chart.highest else 0
        drawn = max(eighths, 1) if value > 0 else 0
        heights += [drawn] * (each - has_gap) + [0] * has_gap
    return heights


def time_axis(times: list[datetime], step_s: int, width: int) -> str:
    """Return labels below a chart, each at the beginning of its step, as many as fit."""
    if not times:
        return ""
    form = "%Y-%m-%d" if step_s >= 86_400 else "%m-%d %H:%M" if step_s >= 60 else "%H:%M:%S"
    if step_s < 86_400 and times[0].date() == times[-1].date() and step_s >= 60:
        form = "%H:%M"
    each = width / len(times)
    line, free_from = "", 0
    for place, at in enumerate(times):
        start, text = int(place * each), at.strftime(form)
        # The first label, and then each one that leaves some space.
        if start >= free_from and (start + len(text) <= width or not line):
            line = line.ljust(start) + text
            free_from = start + max(len(text) + 3, width // 6)
    return line


def bar_lines(chart: BarChart, width: int, *, ascii_only: bool = False) -> list[Text]:
    """Return one line for each name, with its value and its share."""
    if not chart.bars:
        return [Text("no messages")]
    highest = max(value for _, value in chart.bars)
    names = min(max(cell_len(name) for name, _ in chart.bars), width * 2 // 5)
    values = [f"{said(value, chart.unit)} {value / (chart.total or 1):6.1%}" for _, value in chart.bars]
    figures = max(map(len, values))
    room = width - names - figures - 2
    style, lines = _STYLES[chart.unit], []
    for (name, value), figure in zip(chart.bars, values, strict=True):
        bar = _bar(value / highest if highest else 0.0, room, ascii_only)
        shown = set_cell_size(shortened(name, names), names)
        lines.append(Text.assemble(shown, " ", (bar, style), f" {figure:>{figures}}"))
    return lines


def shortened(name: str, room: int) -> str:
    """Return a name without its middle if it is too long: names often differ at their ends."""
    if cell_len(name) <= room:
        return name
    kept = room - 1
    return f"{name[: kept // 2]}…{name[len(name) - (kept - kept // 2) :]}"


def _bar(share: float, room: int, ascii_only: bool) -> str:
    eighths = max(round(share * room * 8), 1) if share > 0 else 0
    whole, rest = divmod(eighths, 8)
    full, parts = ("#", _ASCII) if ascii_only else ("█", _RIGHTWARDS)
    return (full * whole + (parts[rest] if rest else "")).ljust(room)
