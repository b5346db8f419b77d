"""`headwater report`: the lag, throughput, subjects and growth of a stream, as charts."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from headwater.cli.client import AliasedGroup, Caller, client_command
from headwater.cli.phrases import number, read_duration, read_moment
from headwater.cli.queried_streams import queried_streams
from headwater.cli.render import console, show, show_json
from headwater.cli.report.chart import BarChart, Chart, TimeChart, Unit, as_json
from headwater.cli.report.picture import check_picture, draw_picture
from headwater.cli.report.terminal_chart import PIPE_WIDTH, TerminalChart, room_of
from headwater.cli.report.time_buckets import (
    NAMES,
    check_step,
    chosen_step_s,
    cumulated,
    filled,
    start_of,
    week_offset_s,
)
from headwater.clock import SystemClock
from headwater.errors import Error, SettingsError
from headwater.lake.stream_counts import StreamCounts
from headwater.model.times import format_time

_EPILOG = """\b
Charts show the messages that the stream holds now: removed messages are not counted. They are drawn in the
terminal, or written to a picture with --output. They need the package duckdb, pictures also matplotlib.

\b
Examples:
  headwater report throughput ORDERS --since 2d --by hour
  headwater report growth ORDERS --store ./lake --output growth.svg
  headwater report subjects ORDERS --tokens 2 --top 5
  headwater report lag ARCHIVE --history HISTORY
"""
_STEP_NAMES = {1: "second", 60: "minute", 3600: "hour", 86_400: "day", 7 * 86_400: "week"}


@click.group(cls=AliasedGroup, epilog=_EPILOG)
def report() -> None:
    """Draw charts of a stream: lag, throughput, subjects, growth."""


def _report_command(command: Callable[..., Sequence[Chart]]) -> Callable[..., None]:
    """Give a command the flags of all reports, and show the charts that it returns."""

    @functools.wraps(command)
    def call(caller: Caller, output: Path | None, **flags: Any) -> None:
        if output is not None:
            check_picture(output)
        _show(caller, command(caller, **flags), output)

    options = [
        click.argument("stream"),
        click.option(
            "--since", default="", metavar="TIME", help="Only messages since then: 2d, or a UTC time."
        ),
        click.option(
            "--store", default="", metavar="PATH", help="Read the tables in this store, without a server."
        ),
        click.option("--account", default="", help="Account whose stream this is, if the store has several."),
        click.option(
            "--output",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Write a picture, .svg or .png.",
        ),
    ]
    wrapped: Any = client_command(call)
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


_by = click.option("--by", type=click.Choice(tuple(NAMES)), help="Width of a step; default: what fits.")
_bytes = click.option(
    "--bytes", "with_bytes", is_flag=True, help="Count bytes of payload, which are read for it."
)


@report.command()
@_by
@_bytes
@_report_command
def throughput(
    caller: Caller, stream: str, since: str, store: str, account: str, by: str | None, with_bytes: bool
) -> list[Chart]:
    """Show how many messages were stored in each step of time."""
    counts = _counts(caller, stream, store, account, since)
    span = counts.span()
    if span is None:
        return [TimeChart(f"{stream}: no messages", "messages", 1, ())]
    step_s = _step(by, *span)
    found = counts.by_time(step_s, offset_s=week_offset_s(step_s), with_bytes=with_bytes)
    unit: Unit = "bytes" if with_bytes else "messages"
    points = filled(((each.start, getattr(each, unit)) for each in found), *span, step_s)
    what = "bytes of payload" if with_bytes else "messages"
    return [TimeChart(f"{stream}: {what} per {_step_name(step_s)}", unit, step_s, points)]


@report.command()
@_by
@_report_command
def growth(caller: Caller, stream: str, since: str, store: str, account: str, by: str | None) -> list[Chart]:
    """Show how messages and bytes of payload added up."""
    counts = _counts(caller, stream, store, account, since)
    span = counts.span()
    if span is None:
        return [TimeChart(f"{stream}: no messages", "messages", 1, ())]
    step_s = _step(by, *span)
    found = counts.by_time(step_s, offset_s=week_offset_s(step_s), with_bytes=True)
    charts: list[Chart] = []
    for unit, what in (("messages", "messages"), ("bytes", "bytes of payload")):
        points = cumulated(filled(((each.start, getattr(each, unit)) for each in found), *span, step_s))
        charts.append(TimeChart(f"{stream}: {what} in total", unit, step_s, points, is_area=True))  # type: ignore[arg-type]
    return charts


@report.command()
@click.option("--top", type=click.IntRange(1, 100), default=10, show_default=True, help="Subjects to show.")
@click.option(
    "--tokens", type=click.IntRange(min=1), help="Combine subjects that begin with the same tokens."
)
@_bytes
@_report_command
def subjects(
    caller: Caller,
    stream: str,
    since: str,
    store: str,
    account: str,
    top: int,
    tokens: int | None,
    with_bytes: bool,
) -> list[Chart]:
    """Show the subjects with the most messages."""
    counts = _counts(caller, stream, store, account, since)
    found = counts.by_subject(top, tokens=tokens or 0, with_bytes=with_bytes)
    total = counts.total(with_bytes=with_bytes)[1 if with_bytes else 0]
    unit: Unit = "bytes" if with_bytes else "messages"
    what = "bytes of payload" if with_bytes else "messages"
    title = f"{stream}: {what} by subject" + (f", the first {number(top)}" if len(found) == top else "")
    return [BarChart(title, unit, [(each.subject, getattr(each, unit)) for each in found], total)]


@report.command()
@click.option(
    "--history",
    default="HISTORY",
    show_default=True,
    metavar="STREAM",
    help="Stream to which the engine writes its history.",
)
@_by
@_report_command
def lag(
    caller: Caller, stream: str, since: str, store: str, account: str, history: str, by: str | None
) -> list[Chart]:
    """Show how many messages a source or mirror was behind its origins.

    Messages do not say when they were copied. The engine samples the lag once a minute and writes it to a
    stream, if it runs with --history-stream. Each step shows the highest sample.
    """
    try:
        counts = _counts(caller, history, store, account, since)
    except Error as error:
        raise Error(f"{error}: the lag is recorded by `headwater serve --history-stream {history}`") from None
    samples = counts.lags(stream, account)
    if not samples:
        raise Error(
            f"stream {history} has no lag of {stream}: it has no sources and no mirror, or no samples yet"
        )
    first, last = samples[0][0], samples[-1][0]
    step_s = max(_step(by, first, last), 60)
    highest: dict[datetime, float] = {}
    for at, behind in samples:
        start = start_of(at, step_s)
        highest[start] = max(highest.get(start, 0.0), behind)
    # A sample is written only if it differs from the one before.
    points = filled(highest.items(), first, last, step_s, carried=True)
    return [TimeChart(f"{stream}: messages behind its origins", "messages", step_s, points, is_area=True)]


def _counts(caller: Caller, stream: str, store: str, account: str, since: str) -> StreamCounts:
    bounds = {"startTime": _since(since)} if since else {}
    source = queried_streams(caller, store, account, False, bounds)(stream)
    if source is None:
        raise Error(f"there is no stream {stream}" + (f" in {store}" if store else ""))
    return StreamCounts(source)


def _since(text: str) -> str:
    """Return the API's form of a time, or of a duration before now."""
    try:
        return format_time(SystemClock().now_ns() - read_duration(text))
    except ValueError:
        pass
    try:
        return read_moment(text)
    except ValueError:
        raise SettingsError(f"--since must be a duration such as 2d or a UTC time, not {text!r}") from None


def _step(by: str | None, first: datetime, last: datetime) -> int:
    if by is None:
        return chosen_step_s(first, last, room_of(_width()))
    check_step(NAMES[by], first, last)
    return NAMES[by]


def _step_name(step_s: int) -> str:
    if step_s in _STEP_NAMES:
        return _STEP_NAMES[step_s]
    unit_s = max(unit for unit in _STEP_NAMES if step_s % unit == 0 and unit <= step_s)
    return f"{step_s // unit_s} {_STEP_NAMES[unit_s]}s"


def _width() -> int:
    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return console().width if is_known else PIPE_WIDTH


def _show(caller: Caller, charts: Sequence[Chart], output: Path | None) -> None:
    if output is not None:
        draw_picture(charts, output)
    if caller.as_json:
        show_json([as_json(chart) for chart in charts])
    elif output is not None:
        click.echo(f"{output} is written")
    else:
        show(*(TerminalChart(chart) for chart in charts), to=console(width=_width()))
