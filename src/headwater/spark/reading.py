"""One read of a stream: the stream, and the ranges to read.

A read is planned in this order: ask the engine which sequences are live, list the table's files, then plan
ranges of sequences that are in no file, to be read through the API. A message that is folded in between is in
a file that is listed afterwards, so that no message is missed or read twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from pyroaring import BitMap64

from headwater.errors import BusError, SettingsError
from headwater.model.times import parse_time
from headwater.objects.address import BucketAddress
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.client import BlockingClient
from headwater.replication.worker.origin import NO_MESSAGE_FOUND, connect_options
from headwater.spark import guarantee
from headwater.spark.byte_budget import reach
from headwater.spark.columns import COLUMNS
from headwater.spark.connection_options import (
    CONNECTION_OPTIONS,
    DEFAULT_SERVER,
    origin_of,
    refuse_unknown,
)
from headwater.spark.offset import StreamExtent
from headwater.spark.read_range import ReadRange, StreamSnapshot, ranges_of
from headwater.spark.selection import UNBOUNDED, selection_of, truth, whole
from headwater.spark.table_files import Place, files_of, place_of_table, stream_of
from headwater.spark.time_search import FoundMessage, first_at

NAMED_REMOVALS = 50_000
"""Up to this many removed sequences are requested by number; a stream with more is read through the API."""

OPTIONS: Mapping[str, str] = {
    "path": "a stream's folder in the store, or in a bucket; its files are read directly",
    "stream": "the stream's name; by default the directory's name",
    "server": f"the nats-server, several with commas; {DEFAULT_SERVER} where there is no path",
    **CONNECTION_OPTIONS,
    "subject": "only messages whose subject matches, with wildcards; several with commas",
    "startSequence": "the first sequence to read; 1 by default",
    "endSequence": "the last sequence to read, for batch reads",
    "startTime": "only messages stored at or after this RFC 3339 time",
    "endTime": "only messages stored before this RFC 3339 time, for batch reads",
    "columns": "the columns to read, with commas; all by default",
    "pushFilters": "true uses the filters of a query to read less; a DataFrame is then for one scan only",
    "maxMessagesPerTrigger": "the most sequences of a micro-batch; 100,000 without maxBytesPerTrigger",
    "maxBytesPerTrigger": "about the most stored bytes of a micro-batch",
    "failOnDataLoss": "false lets a query go on if unread messages were removed or the stream re-created",
    "messagesPerPartition": "how many sequences a task reads by the API; 100,000 by default",
}


class Reading:
    """One read: the stream and the range of sequences."""

    def __init__(self, options: Mapping[str, str]) -> None:
        refuse_unknown(options, OPTIONS)
        path = options.get("path")
        self.table = place_of_table(path) if path else None
        self.origin = _origin(options, self.table)
        self.selection = selection_of(options)
        self.uses_filters = truth(options, "pushFilters", default=False)
        self.max_messages = _limit(options, "maxMessagesPerTrigger")
        self.max_bytes = _limit(options, "maxBytesPerTrigger")
        """The limits of a micro-batch; None if they are not set."""
        self.may_skip = not truth(options, "failOnDataLoss", default=True)
        """Whether messages that are gone before they were read may be left out."""
        self._per_partition = whole(options, "messagesPerPartition", 100_000)

    def ranges(self, start_seq: int = 1, stop_seq: int = UNBOUNDED) -> list[ReadRange]:
        """Return the ranges between two sequences, both included, that may have selected messages."""
        wanted = self.selection.within(start_seq, stop_seq)
        extent = self._extent().within(wanted.first_seq, wanted.last_seq)
        ranges = ranges_of(extent, self._per_partition)
        if wanted.has_times and any(part.file is None for part in ranges):
            ranges = self._during(ranges, extent.first_seq, extent.last_seq)
        return [part for part in ranges if wanted.may_contain(guarantee.of_part(part))]

    def first_seq_at(self, ts: int, first_seq: int, last_seq: int) -> int:
        """Return the first sequence between two that was stored at or after a time, as the API says."""
        assert self.origin is not None
        with BlockingClient(connect_options(self.origin)) as client:
            return first_at(ts, first_seq, last_seq, lambda seq: self._message_at(client, seq))

    def extent(self) -> StreamExtent:
        """Return the stream's first and last sequence, as the engine reports them."""
        return StreamExtent.of(self._info(details=False))

    def reach(self, first_seq: int, last_seq: int, budget: int, average: float) -> int:
        """Return the last sequence between two up to which about this many bytes are stored."""
        files = files_of(self.table) if self.table is not None else ()
        snapshot = StreamSnapshot(first_seq, last_seq, files, bucket=self._bucket)
        found = reach(ranges_of(snapshot, self._per_partition), budget, average)
        return last_seq if found is None else found

    def table_last_seq(self) -> int:
        """Return the last sequence in the files of the table; 0 without files."""
        return max((file.last_seq for file in files_of(self.table)), default=0) if self.table else 0

    def _extent(self) -> StreamSnapshot:
        if self.origin is None:
            assert self.table is not None
            files = files_of(self.table)
            last_seq = max((file.last_seq for file in files), default=0)
            return StreamSnapshot(1, last_seq, files, asked=False, bucket=self._bucket)
        # The order matters: see the module's first sentences.
        state = self._info(details=False)["state"]
        few = int(state.get("num_deleted", 0)) <= NAMED_REMOVALS
        if few and state.get("num_deleted"):
            state = self._info(details=True)["state"]
        # This many removals do not fit into an answer, so the API omits them.
        files = files_of(self.table) if self.table is not None and few else ()
        removed = BitMap64(state.get("deleted") or [])
        first_seq, last_seq = int(state["first_seq"]), int(state["last_seq"])
        return StreamSnapshot(first_seq, last_seq, files, removed, bucket=self._bucket)

    def _during(self, ranges: Sequence[ReadRange], first_seq: int, last_seq: int) -> list[ReadRange]:
        """Return the ranges, those of the API cut to the selected times."""
        start, stop = first_seq, last_seq + 1
        if self.selection.first_ts > 0:
            start = self.first_seq_at(self.selection.first_ts, start, last_seq)
        if self.selection.stop_ts < UNBOUNDED:
            stop = self.first_seq_at(self.selection.stop_ts, start, last_seq)
        cut = [part if part.file else part.within(start, stop - 1) for part in ranges]
        return [part for part in cut if part.first_seq <= part.last_seq]

    def _message_at(self, client: BlockingClient, seq: int) -> FoundMessage | None:
        assert self.origin is not None
        subject = f"{self.origin.api_prefix}.STREAM.MSG.GET.{self.origin.stream}"
        answer = client.request(subject, {"seq": seq, "next_by_subj": ">"})
        if error := answer.get("error"):
            if error.get("err_code") == NO_MESSAGE_FOUND:
                return None
            raise BusError(f"stream {self.origin.stream!r}: {error.get('description')}")
        found = answer["message"]
        return int(found["seq"]), parse_time(found["time"]) or 0

    @property
    def _bucket(self) -> BucketAddress | None:
        return self.table if isinstance(self.table, BucketAddress) else None

    def _info(self, *, details: bool) -> dict[str, Any]:
        assert self.origin is not None
        with BlockingClient(connect_options(self.origin)) as client:
            subject = f"{self.origin.api_prefix}.STREAM.INFO.{self.origin.stream}"
            answer = client.request(subject, {"deleted_details": True} if details else None)
        if error := answer.get("error"):
            raise BusError(f"stream {self.origin.stream!r}: {error.get('description')}")
        return answer


def _origin(options: Mapping[str, str], table: Place | None) -> NatsOrigin | None:
    """Return the API to read from, or None if only a path is given."""
    server = options.get("server")
    if not server and table is not None:
        return None
    stream = options.get("stream") or (stream_of(table) if table is not None else "")
    if not stream:
        raise SettingsError("missing stream: pass option stream, or load(…) with its directory in the store")
    return msgspec.structs.replace(origin_of(options, stream), max_messages=UNBOUNDED, max_bytes=UNBOUNDED)


def _limit(options: Mapping[str, str], name: str) -> int | None:
    return whole(options, name, 1) if options.get(name) is not None else None


def names_of(options: Mapping[str, str]) -> list[str]:
    """Return the columns that option `columns` names, or all."""
    text = options.get("columns")
    if text is None:
        return list(COLUMNS.names)
    names = list(dict.fromkeys(part.strip() for part in text.split(",")))
    unknown = [name for name in names if name not in COLUMNS.names]
    if unknown:
        known = ", ".join(COLUMNS.names)
        raise SettingsError(f"option columns: there is no column {unknown[0]!r}; there are {known}")
    return names
