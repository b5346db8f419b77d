"""Progress of upstreams, which Headwater reports in addition to nats-server's fields, as text and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.text import Text

from headwater.cli.phrases import duration, moment, number, size
from headwater.cli.render import Cell, Column, Sheet
from headwater.model.counted import counted
from headwater.model.times import SECOND
from headwater.wire.progress_json import EXTENSION

Json = Mapping[str, Any]
Lines = list[tuple[str, Cell]]

UNKNOWN = "unknown"
_BAR_WIDTH = 20
_COLUMNS = (
    Column("Stream", wraps=True),
    Column("Source Stream", wraps=True),
    Column("Phase"),
    Column("Progress"),
    Column("Rate"),
    Column("Bytes", gives_way=2),
    Column("Behind"),
    Column("Time Left"),
    Column("Gaps", gives_way=1),
)
_DEAD_LETTERS = Column("Dead Letters", wraps=True)
_GAP_COLUMNS = (
    Column("Source Stream", wraps=True),
    Column("First Sequence"),
    Column("Last Sequence"),
    Column("Sequences"),
    Column("Recorded"),
    Column("Reason"),
)


def extension(upstream: Json) -> Json:
    """Return Headwater's additional fields of an upstream; empty from other servers."""
    found: Json = upstream.get(EXTENSION) or {}
    return found


def is_known(upstream: Json) -> bool:
    """Return whether the lag of an upstream is known: its origin was seen and is reachable."""
    if int(upstream.get("active") or -1) < 0:
        return False
    progress = extension(upstream)
    return "done" in progress if progress else not upstream.get("error")


def progress_sheet(upstreams: Iterable[tuple[str, Json]], *, bars: bool = False) -> Sheet | None:
    """Return the table of upstreams that have not caught up or have gaps or dead letters, with their streams.

    None if there are no such upstreams, or if the server does not report progress.
    """
    shown = [
        (stream, upstream, progress)
        for stream, upstream in upstreams
        if (progress := extension(upstream))
        and (_is_busy(progress) or progress.get("gaps") or _dead_letters(progress))
    ]
    rows = [_row(*each, bars) for each in shown]
    columns: tuple[Column, ...] = _COLUMNS
    if any(_dead_letters(progress) for _, _, progress in shown):
        columns = (*_COLUMNS, _DEAD_LETTERS)
        for row, (_, _, progress) in zip(rows, shown, strict=True):
            row.append(Text(_dead_letters(progress), "bold red"))
    return Sheet("Replication Progress", columns, rows) if rows else None


def progress_lines(upstream: Json) -> Lines:
    """Return the progress of one upstream as labelled lines."""
    progress = extension(upstream)
    if not progress:
        return []
    lines: Lines = [("Phase", _phase(progress)), ("Waiting", str(progress.get("waiting") or ""))]
    if _is_busy(progress):
        lines.append(("Progress", _share(progress)))
        lines.append(("Rate", f"{_rate(progress)}, {_bytes_rate(progress)}"))
        lines.append(("Behind", _seconds(progress, "behind")))
        lines.append(("Time Left", _seconds(progress, "caught_up_in")))
    copied = progress.get("copied") or {}
    lines.append(("Copied", f"{counted(copied.get('msgs', 0), 'message')}, {size(copied.get('bytes', 0))}"))
    lines.append(("Last Copied", moment(progress.get("last_commit", ""))))
    lines.append(("Failing Since", moment(progress.get("failing_since", ""))))
    lines.append(("Next Attempt", moment(progress.get("next_attempt", ""))))
    if restarts := progress.get("restarts"):
        said = f"{number(restarts['count'])}, last {moment(restarts['time'])}"
        lines.append(("Origin Re-created", Text(said, "yellow")))
    if dead := _dead_letters(progress):
        lines.append(("Dead Letters", Text(dead, "bold red")))
    if _gap_count(progress):
        lines.append(("Gaps", Text(_gaps(progress), "bold red")))
    return [(label, value) for label, value in lines if value]


def waiting_note(upstreams: Iterable[Json]) -> Text | None:
    """Return a sentence about what upstreams wait for; None if for nothing."""
    reasons = sorted({reason for each in upstreams if (reason := str(extension(each).get("waiting") or ""))})
    return Text(f"Waiting: {'; '.join(reasons)}", "yellow") if reasons else None


def upstream_gaps_sheet(upstreams: Sequence[Json]) -> Sheet | None:
    """Return the table of sequences that origins removed before they were copied, or None."""
    rows: list[list[Cell]] = []
    count = sequences = 0
    for upstream in upstreams:
        found = extension(upstream).get("gaps") or {}
        count += found.get("count", 0)
        sequences += found.get("sequences", 0)
        rows += [_gap_row(upstream["name"], gap) for gap in found.get("recent") or ()]
    if not rows:
        return None
    title = f"{counted(count, 'gap')} in replication, {counted(sequences, 'sequence')}"
    return Sheet(title if len(rows) == count else f"{title}, the last {len(rows)}", _GAP_COLUMNS, rows)


def _row(stream: str, upstream: Json, progress: Json, bars: bool) -> list[Cell]:
    return [
        stream,
        upstream["name"],
        _phase(progress),
        f"{_bar(progress)} {_percent(progress)}" if bars else _percent(progress),
        _rate(progress),
        _bytes_rate(progress),
        _seconds(progress, "behind"),
        _seconds(progress, "caught_up_in"),
        Text(_gaps(progress), "bold red"),
    ]


def _gap_row(name: str, gap: Json) -> list[Cell]:
    first, last = gap["first_seq"], gap["last_seq"]
    return [
        name,
        number(first),
        number(last),
        number(last - first + 1),
        moment(gap.get("time", "")),
        gap["reason"],
    ]


def _is_busy(progress: Json) -> bool:
    """Return whether an upstream has not caught up."""
    return progress.get("phase") != "live"


def _phase(progress: Json) -> Text:
    phase = str(progress.get("phase", ""))
    return Text(phase, {"retrying": "bold red", "stalled": "bold red", "live": "green"}.get(phase, "yellow"))


def _share(progress: Json) -> str:
    if progress.get("done") is None:
        return UNKNOWN
    return f"{_percent(progress)} of {number(progress.get('origin_last_seq', 0))}"


def _percent(progress: Json) -> str:
    done = progress.get("done")
    # Rounding up could show 100% too early.
    return UNKNOWN if done is None else f"{int(float(done) * 1000) / 10:.1f}%"


def _bar(progress: Json) -> str:
    done = progress.get("done")
    if done is None:
        return "?" * _BAR_WIDTH
    filled = int(float(done) * _BAR_WIDTH)
    return "█" * filled + "░" * (_BAR_WIDTH - filled)


def _rate(progress: Json) -> str:
    return f"{number(round(_of_rate(progress, 'msgs')))} msgs/s"


def _bytes_rate(progress: Json) -> str:
    return f"{size(round(_of_rate(progress, 'bytes')))}/s"


def _of_rate(progress: Json, what: str) -> float:
    return float((progress.get("rate") or {}).get(what, 0))


def _seconds(progress: Json, name: str) -> str:
    """Return a time in whole seconds, or that it is unknown."""
    seconds = progress.get(name)
    return UNKNOWN if seconds is None else duration(round(seconds) * SECOND)


def _gap_count(progress: Json) -> int:
    return int((progress.get("gaps") or {}).get("count", 0))


def _gaps(progress: Json) -> str:
    if not (count := _gap_count(progress)):
        return ""
    return f"{number(count)} ({counted(progress['gaps']['sequences'], 'sequence')})"


def _dead_letters(progress: Json) -> str:
    """Return how many messages a pipeline failed on; empty if none."""
    count = int((progress.get("pipeline") or {}).get("dead_letters", 0))
    return number(count) if count else ""
