"""How many messages and bytes a stream has, by time and by subject, counted by DuckDB."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headwater.lake.stream_sql import StreamQuerySource, run


class StepCount(NamedTuple):
    """Of the messages in one step of time."""

    start: datetime
    messages: int
    bytes: int
    """Of payload; 0 if they were not asked for."""


class SubjectCount(NamedTuple):
    """Of the messages with one subject."""

    subject: str
    messages: int
    bytes: int
    """Of payload; 0 if they were not asked for."""


class StreamCounts:
    """Counts the messages of one stream; payload is read only if its bytes are asked for."""

    def __init__(self, source: StreamQuerySource) -> None:
        # The payload is counted as it is stored.
        self._source = replace(source, schema=None)

    def span(self) -> tuple[datetime, datetime] | None:
        """Return the time of the first and of the last message; None if there is none."""
        [(first, last)] = self._rows("SELECT epoch_us(min(time)), epoch_us(max(time)) FROM messages")
        return None if first is None else (_time(first), _time(last))

    def by_time(self, step_s: int, *, offset_s: int = 0, with_bytes: bool = False) -> list[StepCount]:
        """Return the steps that have messages, in order; a step begins at a multiple after the offset."""
        step_us, offset_us = step_s * 1_000_000, offset_s * 1_000_000
        rows = self._rows(
            f"SELECT (epoch_us(time) - {offset_us}) // {step_us} * {step_us} + {offset_us} AS start, "
            f"count(*), {_bytes(with_bytes)} FROM messages GROUP BY 1 ORDER BY 1"
        )
        return [StepCount(_time(start), count, size) for start, count, size in rows]

    def by_subject(self, most: int, *, tokens: int = 0, with_bytes: bool = False) -> list[SubjectCount]:
        """Return the subjects with the most messages or bytes; with tokens, only these first ones count."""
        subject = f"array_to_string(string_split(subject, '.')[1:{tokens}], '.')" if tokens else "subject"
        order = 3 if with_bytes else 2
        rows = self._rows(
            f"SELECT {subject}, count(*), {_bytes(with_bytes)} FROM messages GROUP BY 1 "
            f"ORDER BY {order} DESC, 1 LIMIT {most}"
        )
        return [SubjectCount(*row) for row in rows]

    def total(self, *, with_bytes: bool = False) -> tuple[int, int]:
        """Return how many messages and bytes there are."""
        [(messages, size)] = self._rows(f"SELECT count(*), {_bytes(with_bytes)} FROM messages")
        return messages, size

    def lags(self, stream: str, account: str = "") -> list[tuple[datetime, float]]:
        """Return the lag of a stream over time, if this stream is the history that an engine writes."""
        # A name is `account/stream`, and a stream's name has no slash.
        wanted = _text(f"{account}/{stream}" if account else stream)
        named = "sample ->> 'stream'" if account else "split_part(sample ->> 'stream', '/', 2)"
        rows = self._rows(
            "SELECT epoch_us(time), (sample ->> 'lag')::DOUBLE AS lag FROM "
            "(SELECT seq, time, decode(data)::JSON AS sample FROM messages "
            "WHERE subject LIKE 'headwater.history.%.stream.%') "
            f"WHERE {named} = {wanted} AND lag IS NOT NULL ORDER BY seq"
        )
        return [(_time(at), lag) for at, lag in rows]

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        found = run(sql, {"messages": self._source}.get).read_all()
        return [tuple(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]


def _bytes(with_bytes: bool) -> str:
    return "coalesce(sum(octet_length(data)), 0)::BIGINT" if with_bytes else "0::BIGINT"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _time(micros: int) -> datetime:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
