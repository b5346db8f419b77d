"""Which messages a read selects: sequences, times, subjects, and a filter over those three columns.

Files and row groups that cannot contain a selected message are not read. Of the others, the columns of the
selection are read first, and the rest only if a row is selected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.errors import SettingsError
from headwater.model import subject as subjects
from headwater.model.times import parse_time
from headwater.spark import guarantee
from headwater.table.datafile import DataFile
from headwater.table.schema import TIME, subject_bytes

UNBOUNDED = 1 << 62
FILTERED = ("seq", "subject", "time")
"""The columns that a filter may name."""
MOST_VERDICTS = 100_000
"""For how many subjects a task remembers whether they are selected."""
_NOT_TEXT = "\ufffd"
"""How the text of a subject begins that is not UTF-8; patterns may match such subjects, too."""
_LAST = "\U0010ffff"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ReadSelection:
    """The messages that a read returns; by default all."""

    first_seq: int = 1
    last_seq: int = UNBOUNDED
    first_ts: int = 0
    stop_ts: int = UNBOUNDED
    """In nanoseconds; the first time that is too late."""
    patterns: tuple[str, ...] = ()
    """A message is selected if one of them matches its subject; none selects every subject."""
    wanted: pc.Expression | None = field(default=None, compare=False)
    """A filter over `FILTERED`."""
    filters: tuple[str, ...] = ()
    """Patterns that match every subject which `wanted` selects; none if there is no such restriction."""

    @property
    def has_times(self) -> bool:
        """Return whether some times are left out."""
        return self.first_ts > 0 or self.stop_ts < UNBOUNDED

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns of a file that decide which of its rows are selected."""
        names = {"subject"} if self.patterns else set()
        if self.has_times:
            names |= {"time", "nanos"}
        if self.wanted is not None:
            names |= {"subject", "time"}
        return frozenset(names)

    def api_filters(self) -> tuple[str, ...]:
        """Return the patterns for a consumer; none if they overlap, which a consumer does not accept."""
        wanted = self.patterns or self.filters
        kept = [
            each
            for place, each in enumerate(wanted)
            if each not in wanted[:place]
            and not any(other != each and subjects.is_subset(each, other) for other in wanted)
        ]
        overlap = any(subjects.collides(a, b) for place, a in enumerate(kept) for b in kept[:place])
        return () if overlap else tuple(kept)

    def within(self, first_seq: int, last_seq: int) -> ReadSelection:
        """Return what is also between two sequences, both included."""
        return replace(self, first_seq=max(self.first_seq, first_seq), last_seq=min(self.last_seq, last_seq))

    def during(self, first_ts: int, stop_ts: int) -> ReadSelection:
        """Return what was also stored at or after a time and before another."""
        return replace(self, first_ts=max(self.first_ts, first_ts), stop_ts=min(self.stop_ts, stop_ts))

    def matching(self, wanted: pc.Expression, filters: tuple[str, ...] = ()) -> ReadSelection:
        """Return what also matches a filter, and for the API, these patterns."""
        both = wanted if self.wanted is None else self.wanted & wanted
        return replace(self, wanted=both, filters=self.filters or filters)

    def may_contain(self, known: pc.Expression) -> bool:
        """Return False only if no row of which this is known is selected."""
        return guarantee.may_match(self._prefilter, known)

    def may_contain_group(self, file: DataFile, group: pq.RowGroupMetaData) -> bool:
        """Return False only if no row of a row group is selected."""
        return self._prefilter is None or self.may_contain(guarantee.of_group(file, group))

    def mask(self, rows: pa.Table) -> Mask:
        """Return which rows are selected; they must have the columns `seq` and those of `columns`."""
        mask: Mask = np.ones(rows.num_rows, np.bool_)
        if self.patterns:
            mask &= _matching(rows["subject"], self._matches)
        if self.has_times:
            ts = rows["time"].cast(pa.int64()).to_numpy() * 1000 + rows["nanos"].to_numpy()
            mask &= (ts >= self.first_ts) & (ts < self.stop_ts)
        if self.wanted is not None and mask.any():
            mask &= _filtered(rows, self.wanted)
        return mask

    def _matches(self, text: str) -> bool:
        """Return whether the subject with this text is selected; most row groups have the same subjects."""
        known = self._verdicts.get(text)
        if known is None:
            if len(self._verdicts) >= MOST_VERDICTS:
                self._verdicts.clear()
            subject = subject_bytes(text)
            known = self._verdicts[text] = any(each.matches(subject) for each in self._matchers)
        return known

    @cached_property
    def _verdicts(self) -> dict[str, bool]:
        """Return for texts of subjects whether they are selected."""
        return {}

    @cached_property
    def _matchers(self) -> tuple[subjects.Filter, ...]:
        return tuple(subjects.Filter(pattern) for pattern in self.patterns)

    @cached_property
    def _prefilter(self) -> pc.Expression | None:
        """Return a filter that every selected row matches; sequences are left to the plan."""
        parts = [] if self.wanted is None else [self.wanted]
        if self.first_ts > 0:
            parts.append(pc.field("time") >= _micros(self.first_ts // 1000))
        if self.stop_ts < UNBOUNDED:
            parts.append(pc.field("time") <= _micros(self.stop_ts // 1000))
        if self.patterns and ">" not in self.patterns:
            parts.append(reduce(lambda a, b: a | b, map(_beginning, self.patterns)))
        return reduce(lambda a, b: a & b, parts) if parts else None

    def __getstate__(self) -> dict[str, object]:
        # What is cached is made from the fields.
        return {each.name: getattr(self, each.name) for each in fields(self)}


EVERYTHING = ReadSelection()


def selection_of(options: Mapping[str, str]) -> ReadSelection:
    """Return what the options of a read select; raise if a value is invalid."""
    first_seq, last_seq = whole(options, "startSequence", 1), whole(options, "endSequence", UNBOUNDED)
    if first_seq > last_seq:
        raise SettingsError(f"option endSequence is {last_seq}, before startSequence {first_seq}")
    first_ts, stop_ts = _time(options, "startTime", 0), _time(options, "endTime", UNBOUNDED)
    if first_ts >= stop_ts:
        raise SettingsError(
            f"option endTime {options.get('endTime')!r} is not after startTime {options.get('startTime')!r}"
        )
    return ReadSelection(first_seq, last_seq, first_ts, stop_ts, _patterns(options))


def whole(options: Mapping[str, str], name: str, default: int) -> int:
    """Return an option that is a number of at least 1."""
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= UNBOUNDED:
        raise SettingsError(f"option {name} must be a number of at least 1, not {text!r}")
    return int(text)


def truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return an option that is true or false."""
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise SettingsError(f"option {name} must be true or false, not {text!r}")
    return text.lower() == "true"


def _time(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    ts = parse_time(text.strip())
    if ts is None:
        example = "2026-11-16T08:00:00Z or 2026-11-16T09:00:00.5+01:00"
        raise SettingsError(f"option {name} must be an RFC 3339 time such as {example}, not {text!r}")
    return min(max(ts, 0), UNBOUNDED)


def _patterns(options: Mapping[str, str]) -> tuple[str, ...]:
    text = options.get("subject")
    if text is None:
        return ()
    found = [part.strip() for part in text.split(",")]
    for pattern in found:
        if not subjects.valid_subject(pattern):
            raise SettingsError(
                f"option subject: {pattern!r} is not a subject; write orders.eu, orders.* or orders.>, "
                "several with commas"
            )
    return tuple(dict.fromkeys(found))


def _beginning(pattern: str) -> pc.Expression:
    """Return a filter that the text of every subject matches which the pattern matches."""
    literal = []
    for token in subjects.tokens(pattern):
        if token[0] in "*>":
            break
        literal.append(token)
    else:
        return (pc.field("subject") == pattern) | (pc.field("subject") >= _NOT_TEXT)
    start = "".join(f"{token}." for token in literal)
    inside = (pc.field("subject") >= start) & (pc.field("subject") <= start + _LAST)
    return inside | (pc.field("subject") >= _NOT_TEXT)


def _matching(column: pa.ChunkedArray, matches: Callable[[str], bool]) -> Mask:
    codes = column.combine_chunks()
    if not pa.types.is_dictionary(codes.type):
        codes = codes.dictionary_encode()
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.unify_dictionaries().combine_chunks()
    hits = np.array([matches(text) for text in codes.dictionary.to_pylist()], np.bool_)
    found: Mask = hits[codes.indices.to_numpy(zero_copy_only=False)] if len(hits) else np.zeros(0, np.bool_)
    return found


def _filtered(rows: pa.Table, wanted: pc.Expression) -> Mask:
    narrow = pa.table(
        {
            "seq": rows["seq"],
            "subject": rows["subject"].cast(pa.string()),
            "time": rows["time"].cast(TIME),
            "place": pa.array(np.arange(rows.num_rows)),
        }
    )
    mask: Mask = np.zeros(rows.num_rows, np.bool_)
    mask[narrow.filter(wanted)["place"].to_numpy()] = True
    return mask


def _micros(value: int) -> pa.Scalar:
    return pa.scalar(min(value, UNBOUNDED // 1000), pa.int64()).cast(TIME)
