"""The consumers of a stream in its archive: read from the stream, and checked before they are restored."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.control.consumer_rules import check_create
from headwater.control.restored_consumer import RestoredConsumer
from headwater.delivery.consumers import StreamConsumers
from headwater.delivery.state import ConsumerState
from headwater.errors import ApiError, Error
from headwater.model.consumer import ConsumerConfig, CreateRequest
from headwater.model.stream import MAX_SEQUENCE
from headwater.stream.stream import Stream
from headwater.table.archive import ArchivedConsumer
from headwater.table.archive_part import ArchiveError
from headwater.wire.consumer_json import decode_config, encode_config

NEVER_NS = 1 << 63


def taken(consumers: StreamConsumers) -> list[ArchivedConsumer]:
    """Return the present consumers, except for those that a server creates for itself."""
    return [
        ArchivedConsumer(
            name=consumer.name,
            config=msgspec.Raw(encode_config(consumer.config)),
            created_ns=consumer.created_ns,
            state=consumer.state.snapshot(),
        )
        for consumer in consumers
        if not consumer.config.direct
    ]


def checked(archived: Sequence[ArchivedConsumer], stream: Stream, now_ns: int) -> list[RestoredConsumer]:
    """Return the consumers to restore into a stream; refuse those that could not have been declared."""
    existing: dict[str, ConsumerConfig] = {}
    restored = []
    for consumer in archived:
        try:
            config = _config(consumer, stream, existing)
            state = _state(consumer, config, stream, now_ns)
        except ApiError as error:
            raise ArchiveError(f"consumer {consumer.name[:100]!r}: {error.description}") from error
        except (Error, ValueError) as error:
            raise ArchiveError(f"cannot restore consumer {consumer.name[:100]!r}: {error}") from error
        existing[config.name] = config
        restored.append(RestoredConsumer(config, consumer.created_ns, state))
    return restored


def _config(
    consumer: ArchivedConsumer, stream: Stream, existing: dict[str, ConsumerConfig]
) -> ConsumerConfig:
    config = decode_config(bytes(consumer.config))
    if not consumer.name or config.name != consumer.name or consumer.name in existing:
        raise ArchiveError("its name is missing or a duplicate")
    if not 0 <= consumer.created_ns < NEVER_NS:
        raise ArchiveError("it has no creation time")
    if config.direct:
        raise ArchiveError("it is internal to the server")
    return check_create(CreateRequest(stream_name=stream.name, config=config), stream.config, existing)


def _state(consumer: ArchivedConsumer, config: ConsumerConfig, stream: Stream, now_ns: int) -> bytes:
    """Return the state without messages that were removed while the archive was written."""
    state = ConsumerState.restore(config, [consumer.state])
    floor, delivered = state.ack_floor.stream_seq, state.delivered.stream_seq
    if not 0 <= floor <= delivered <= MAX_SEQUENCE:
        raise ArchiveError("its sequences are not those of a stream")
    pending = state.pending_through(delivered)
    state.forget([seq for seq in pending if not stream.reading.is_live(seq)], now_ns)
    return state.dump()
