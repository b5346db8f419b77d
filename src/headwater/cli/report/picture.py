"""Charts as a picture, SVG or PNG, drawn by matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.cli.graph import write
from headwater.cli.report.chart import BarChart, Chart, TimeChart, Unit, said
from headwater.cli.report.terminal_chart import shortened
from headwater.errors import SettingsError
from headwater.lake.scanning import EngineMissingError

FORMS = (".svg", ".png")
_COLOURS: dict[Unit, str] = {"messages": "#2563eb", "bytes": "#c026d3"}
_WIDTH_IN = 9.0
_HEIGHT_IN = 3.0
_BAR_IN = 0.3
_MARGIN_IN = 0.12
_DOTS_PER_INCH = 144
_LONGEST_NAME = 48
_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    # Text stays text, so that it can be searched and copied.
    "svg.fonttype": "none",
    "svg.hashsalt": "headwater",
    # A name with a dollar sign is no formula.
    "text.parse_math": False,
    "timezone": "UTC",
}


def check_picture(path: Path) -> None:
    """Refuse a file that is no picture, and say what to install, before anything is read."""
    if path.suffix.lower() not in FORMS:
        raise SettingsError(f"--output must end with {' or '.join(FORMS)}, not {path.name}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise EngineMissingError("a picture needs matplotlib: pip install matplotlib") from None


def draw_picture(charts: Sequence[Chart], path: Path) -> None:
    """Write charts to a file, one below the other; the file is complete or does not exist."""
    import matplotlib
    from matplotlib.figure import Figure

    # Defaults, whatever the user's own configuration of matplotlib says.
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE}):
        heights = [_height_in(chart) for chart in charts]
        figure = Figure(figsize=(_WIDTH_IN, sum(heights)), layout="constrained")
        figure.get_layout_engine().set(w_pad=_MARGIN_IN, h_pad=_MARGIN_IN)  # type: ignore[union-attr, call-arg]
        axes = figure.subplots(len(charts), 1, squeeze=False, height_ratios=heights)
        for axis, chart in zip(axes.flat, charts, strict=True):
            _draw(axis, chart)
        drawn = io.BytesIO()
        form = path.suffix.lower()[1:]
        # Without a date, the same chart is the same file.
        figure.savefig(
            drawn, format=form, dpi=_DOTS_PER_INCH, metadata={"Date": None} if form == "svg" else None
        )
    write(path, drawn.getvalue())


def _height_in(chart: Chart) -> float:
    return _HEIGHT_IN if isinstance(chart, TimeChart) else 0.8 + _BAR_IN * max(len(chart.bars), 1)


def _draw(axis: Any, chart: Chart) -> None:
    if isinstance(chart, BarChart):
        axis.set_title(chart.title)
        _draw_bars(axis, chart)
    else:
        axis.set_title(f"{chart.title} (UTC)")
        _draw_times(axis, chart)


def _draw_times(axis: Any, chart: TimeChart) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    times, values = [at for at, _ in chart.points], [value for _, value in chart.points]
    step, colour = timedelta(seconds=chart.step_s), _COLOURS[chart.unit]
    if chart.is_area:
        # The last step is as wide as the others.
        times, values = [*times, *(at + step for at in times[-1:])], [*values, *values[-1:]]
        axis.fill_between(times, values, step="post", color=colour, alpha=0.2, linewidth=0)
        axis.step(times, values, where="post", color=colour, linewidth=1.8)
    else:
        axis.bar(times, values, width=step * 0.9, align="edge", color=colour)
    if chart.points:
        axis.set_xlim(chart.points[0][0], chart.points[-1][0] + step)
    axis.set_ylim(0, max(chart.highest * 1.05, 1))
    _label(axis.yaxis, chart.highest, chart.unit)
    locator = AutoDateLocator(minticks=3, maxticks=9)  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _draw_bars(axis: Any, chart: BarChart) -> None:
    names = [shortened(name, _LONGEST_NAME) for name, _ in chart.bars]
    values = [value for _, value in chart.bars]
    places = range(len(names))
    drawn = axis.barh(places, values, color=_COLOURS[chart.unit], height=0.7)
    shares = [f"{said(value, chart.unit)}  {value / (chart.total or 1):.1%}" for value in values]
    axis.bar_label(drawn, shares, padding=4)
    axis.set_yticks(places, names)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set_xlim(0, max(values, default=0) * 1.25 or 1)
    _label(axis.xaxis, max(values, default=0), chart.unit)


def _label(axis: Any, highest: float, unit: Unit) -> None:
    """Put labels at round values; bytes are round in their binary unit."""
    from matplotlib.ticker import MaxNLocator

    scale = 1024.0 ** int(math.log(max(highest, 1), 1024)) if unit == "bytes" else 1.0
    places = MaxNLocator(5, integer=scale == 1, steps=[1, 2, 2.5, 5, 10]).tick_values(
        0, max(highest / scale, 1)
    )
    ticks = [place * scale for place in places if 0 <= place * scale <= highest * 1.2]
    axis.set_ticks(ticks, labels=[said(tick, unit) for tick in ticks])
