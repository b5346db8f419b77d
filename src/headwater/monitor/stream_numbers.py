"""The numbers of streams, and the families that show them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from headwater.monitor.exposition import Exposition, Family, samples
from headwater.stream.stream import Stream


class StreamNumbers(NamedTuple):
    """One stream."""

    messages: int
    size: int
    first_seq: int
    last_seq: int
    consumers: int
    subjects: int
    limit_messages: int
    limit_bytes: int
    deleted: int
    unfolded_messages: int
    log_bytes: int
    table_files: int
    table_bytes: int
    failing: int


FAMILIES: tuple[Family[StreamNumbers], ...] = (
    Family("jetstream_stream_total_messages", "Messages that the stream holds.", attrgetter("messages")),
    Family(
        "jetstream_stream_total_bytes",
        "Bytes that the stream holds, counted as nats-server does.",
        attrgetter("size"),
    ),
    Family("jetstream_stream_first_seq", "First sequence of the stream.", attrgetter("first_seq")),
    Family("jetstream_stream_last_seq", "Last sequence of the stream.", attrgetter("last_seq")),
    Family("jetstream_stream_consumer_count", "Consumers of the stream.", attrgetter("consumers")),
    Family(
        "jetstream_stream_subject_count",
        "Subjects of the messages that the stream holds.",
        attrgetter("subjects"),
    ),
    Family(
        "jetstream_stream_limit_messages",
        "Messages that the stream may hold; -1 is no limit.",
        attrgetter("limit_messages"),
    ),
    Family(
        "jetstream_stream_limit_bytes",
        "Bytes that the stream may hold; -1 is no limit.",
        attrgetter("limit_bytes"),
    ),
    Family(
        "headwater_stream_deleted_messages",
        "Sequences between first and last that hold no message.",
        attrgetter("deleted"),
    ),
    Family(
        "headwater_stream_unfolded_messages",
        "Messages in the log that are not in the table yet.",
        attrgetter("unfolded_messages"),
    ),
    Family("headwater_stream_log_bytes", "Size of the log on the disk.", attrgetter("log_bytes")),
    Family(
        "headwater_stream_table_files",
        "Data files of the current version of the table.",
        attrgetter("table_files"),
    ),
    Family("headwater_stream_table_bytes", "Size of these files.", attrgetter("table_bytes")),
    Family(
        "headwater_stream_failing", "1 while nothing can be stored or folded, else 0.", attrgetter("failing")
    ),
)


def stream_numbers(stream: Stream, consumers: int) -> StreamNumbers:
    """Return a stream's numbers now, without waiting for its disk; the newest may not be durable yet."""
    reading, config, sizes = stream.reading, stream.config, stream.sizes
    return StreamNumbers(
        messages=reading.messages,
        size=reading.size,
        first_seq=reading.first_seq,
        last_seq=reading.last_seq,
        consumers=consumers,
        subjects=reading.num_subjects,
        limit_messages=config.max_msgs,
        limit_bytes=config.max_bytes,
        deleted=reading.num_deleted,
        unfolded_messages=sizes.unfolded_messages,
        log_bytes=sizes.log_bytes,
        table_files=sizes.table_files,
        table_bytes=sizes.table_bytes,
        failing=1 if stream.failure else 0,
    )


def write_streams(exposition: Exposition, rows: Sequence[tuple[str, StreamNumbers]]) -> None:
    """Write the families of all streams."""
    for family in FAMILIES:
        exposition.gauge(family.name, family.help, samples(family, rows))
